use super::{compare, html, markdown, number, text};
use crate::driver::{Driven, Latency};
use crate::results::{Figure, Machine, Phase, Results, Run, VERSION};
use crate::target::{Info, Profile, Tier};

fn phase(name: &str, operation: &str, operations: u64, p50_us: f64) -> Phase {
    let latency = Latency { p50_us, ..Latency::default() };
    let rows_by_second = vec![operations; 3];
    let driven = Driven { operations, rows: operations, seconds: 1.0, latency, rows_by_second, ..Driven::default() };
    Phase { name: name.to_owned(), operation: operation.to_owned(), driven, verified: 3, ..Phase::default() }
}

fn results(speed: u64) -> Results {
    let runs = (0..5).flat_map(|repetition| {
        let run = move |target: &str, factor: u64| Run {
            info: Some(Info { version: "1".to_owned(), tier: Tier::T3, settings: Vec::new() }),
            is_complete: true,
            phases: vec![
                phase("ingest", "a row", speed * factor + repetition as u64, 10.0),
                phase("bill", "query", 10, 2_000.0),
            ],
            ..Run::new(target, repetition)
        };
        let mut other = run("b<", 2);
        other.phases[1].wrong = Some("7 instead of 8".to_owned());
        [run("a", 1), other]
    });
    let machine = Machine {
        processor: "P".to_owned(),
        cores: 2,
        memory_bytes: 8_000_000_000,
        kernel: "6".to_owned(),
        fsync_us: 1.0,
    };
    Results {
        version: VERSION,
        suite: "0".to_owned(),
        experiment: "billing".to_owned(),
        profile: Profile::Fair,
        began_s: 0,
        seed: 1,
        scale: serde_json::json!({ "meters": 7 }),
        price_per_hour: None,
        machine,
        runs: runs.collect(),
    }
}

#[test]
fn figures_are_grouped_and_cut() {
    let figures = [1234567.8, 999.6, 42.04, 1.256, 0.00123, 0.0, -1500.0, f64::NAN].map(number);
    assert_eq!(figures, ["1,234,568", "1,000", "42.0", "1.26", "0.0012", "0", "-1,500", "-"]);
}

#[test]
fn a_wrong_answer_voids_the_number() {
    let text = text(&results(1_000));
    let bill = text.lines().find(|line| line.starts_with("bill")).unwrap();
    assert_eq!(bill.split_whitespace().collect::<Vec<_>>(), ["bill", "2,000", "(2,000-2,000)", "WRONG"]);
    assert!(text.contains("b< is wrong: 7 instead of 8"));
    assert!(text.contains("1,002 (1,000-1,004)"), "{text}");
}

#[test]
fn reports_have_the_published_figures_and_need_no_network() {
    let page = html(&results(1_000)).unwrap();
    assert!(page.contains("31,916") && page.contains("<svg") && page.contains("b&lt;"), "{page}");
    assert!(!page.contains("src=") && !page.contains("href="));
    let markdown = markdown(&results(1_000));
    assert!(markdown.contains("| ingest, operations/s | 31,916 | 2,423 | 13.2 |"), "{markdown}");
}

#[test]
fn figures_are_compared_with_their_goals() {
    let mut results = results(1_000);
    for (value, run) in [3.0, 5.0, 4.0].into_iter().zip(results.runs.iter_mut().filter(|run| run.target == "a")) {
        run.figures.push(Figure::new("memory", "MB", value).at_most(4.0));
        run.figures.push(Figure::new("segments", "", 7.0).at_most(6.5));
        run.figures.push(Figure::new("merges", "", value));
    }
    let markdown = markdown(&results);
    assert!(markdown.contains("| figure | unit | a | b< | goal | met? |"), "{markdown}");
    assert!(markdown.contains("| memory | MB | 4.00 (3.00-5.00) | - | at most 4.00 | yes |"), "{markdown}");
    assert!(markdown.contains("| segments |  | 7.00 (7.00-7.00) | - | at most 6.50 | no |"), "{markdown}");
    assert!(markdown.contains("| merges |  | 4.00 (3.00-5.00) | - |  |  |"), "{markdown}");
}

#[test]
fn only_differences_beyond_chance_are_named() {
    let compared = compare(&results(1_000), &results(2_000));
    let line = |start: &str| compared.lines().find(|line| line.starts_with(start)).unwrap().to_owned();
    assert!(line("a, ingest").ends_with("better") && line("a, ingest").contains("0.008"), "{compared}");
    assert!(line("a, bill").ends_with('~'));
    assert!(!compared.contains("b<, bill"), "a wrong answer is no number");
}

#[test]
fn results_are_read_again_and_other_versions_refused() {
    let path = std::env::temp_dir().join(format!("fleetdb-bench-results-{}.json", std::process::id()));
    let read = |results: &Results| {
        std::fs::write(&path, serde_json::to_string(results).unwrap()).unwrap();
        Results::read(&path)
    };
    let again = read(&results(5)).unwrap();
    let other = read(&Results { version: 9, ..results(5) }).unwrap_err().to_string();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(text(&again), text(&results(5)));
    assert!(other.contains("version 9"), "{other}");
}

#[test]
fn who_is_first_stands_at_the_top_and_wrong_answers_are_not_ranked() {
    let markdown = markdown(&results(1_000));
    let first = markdown.find("## Leaders").unwrap();
    assert!(first < markdown.find("## Targets").unwrap());
    assert!(markdown.contains("| ingest, rows/s | b< (T3) | 2,002 | a (T3) | 1,002 | 2.00 |"), "{markdown}");
    assert!(!markdown.contains("bill, median us"), "{markdown}");
}
