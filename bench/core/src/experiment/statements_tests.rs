use super::*;
use crate::results::{Machine, Run, VERSION};
use crate::target::Profile;

fn results(digests: &[Option<f64>]) -> Results {
    let run = |(number, digest): (usize, &Option<f64>)| Run {
        phases: vec![Phase { name: "a bill".to_owned(), ..Phase::default() }],
        figures: digest.iter().map(|digest| Figure::new(DIGEST, "", *digest)).collect(),
        ..Run::new(&format!("target {number}"), 0)
    };
    let machine = Machine { processor: String::new(), cores: 2, memory_bytes: 0, kernel: String::new(), fsync_us: 0.0 };
    Results {
        version: VERSION,
        suite: String::new(),
        experiment: "statements".to_owned(),
        profile: Profile::Fair,
        began_s: 0,
        seed: 0,
        scale: serde_json::Value::Null,
        price_per_hour: None,
        machine,
        runs: digests.iter().enumerate().map(run).collect(),
    }
}

#[test]
fn a_target_with_other_answers_is_void() {
    let mut results = results(&[Some(7.0), Some(8.0), Some(7.0), None]);
    compare_answers(&mut results);
    let wrong: Vec<bool> = results.runs.iter().map(|run| run.phases[0].wrong.is_some()).collect();
    assert_eq!(wrong, [false, true, false, false]);
    let mut results = super::tests::results(&[Some(7.0), Some(8.0)]);
    compare_answers(&mut results);
    assert!(results.runs.iter().all(|run| run.phases[0].wrong.is_some()));
}

#[test]
fn each_parameter_of_a_statement_is_drawn() {
    let mut draw = Draw { random: Xoshiro256PlusPlus::seed_from_u64(1), meters: 5 };
    for form in FORMS {
        let count = (form.draw)(&mut draw).len();
        for text in [Some(&form.text), form.mariadb.as_ref()].into_iter().flatten() {
            assert_eq!(text.matches('?').count(), count, "{}", form.name);
        }
    }
}

#[test]
fn a_spaced_statement_has_a_text_of_its_own_and_the_same_words() {
    for form in FORMS {
        let texts: std::collections::HashSet<_> = (0..4_096).map(|number| form.spaced(number).text).collect();
        assert_eq!(texts.len(), 4_096, "{}", form.name);
        for text in texts {
            assert!(text.split_whitespace().eq(form.text.split_whitespace()), "{text}");
        }
    }
}
