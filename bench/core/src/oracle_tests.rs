use super::{CpuOracle, difference};
use crate::answer::{AnswerBuilder, Cell, cells};
use crate::query::{Key, Query};
use crate::workload::cpu::{Cpu, START_NS, cpu_table};
use std::sync::Arc;

const MINUTE_NS: i64 = 60_000_000_000;

fn asked() -> Vec<Query> {
    let window_ns = (START_NS + MINUTE_NS, START_NS + 3 * MINUTE_NS);
    let (of, key) = (Arc::new(cpu_table()), |host: usize| Key::Text(format!("host_{host}")));
    vec![
        Query::Count("cpu"),
        Query::Rows { of: Arc::clone(&of), key: key(2), window_ns },
        Query::MinuteMaxima { host: "host_2".to_owned(), window_ns },
        Query::HourlyMaxima { hosts: vec!["host_1".to_owned(), "host_2".to_owned()], window_ns },
        Query::Last { of, key: key(3) },
        Query::LastOfAll,
    ]
}

/// An oracle with four hosts and 40 epochs of ten seconds.
fn fed() -> CpuOracle {
    let (mut oracle, mut rows) = (CpuOracle::new(&asked()), Cpu::part(7, 0..4, 3));
    for _ in 0..80 {
        oracle.feed(rows.batch().unwrap());
    }
    oracle
}

#[test]
fn answers_have_the_rows_of_their_windows() {
    let oracle = fed();
    let rows = asked().iter().map(|query| oracle.answer(query).unwrap().num_rows()).collect::<Vec<_>>();
    assert_eq!(rows, [1, 12, 2, 1, 1, 4]);
    let count = oracle.answer(&asked()[0]).unwrap();
    assert_eq!(cells(&count, 0).next(), Some(Cell::Int(160)));
}

#[test]
fn the_maximum_is_that_of_the_rows() {
    let oracle = fed();
    let rows = oracle.answer(&asked()[1]).unwrap();
    // usage_user is the column after ten tags and the time.
    let users = (0..6).map(|row| cells(&rows, row).nth(11).unwrap());
    let most = users.map(|cell| if let Cell::Int(value) = cell { value } else { panic!("{cell:?}") }).max().unwrap();
    let maxima = oracle.answer(&asked()[2]).unwrap();
    assert_eq!(cells(&maxima, 0).collect::<Vec<_>>(), [Cell::Time(START_NS + MINUTE_NS), Cell::Int(most)]);
}

#[test]
fn a_wrong_answer_is_named() {
    let oracle = fed();
    let query = Query::Bill { meter: 1, window_ns: (0, 1) };
    let bill = |kwh| {
        let mut answer = AnswerBuilder::new(&query.columns());
        answer.push(Cell::Float(kwh)).unwrap();
        answer.finish().unwrap()
    };
    assert_eq!(difference(&query, &bill(1000.0), &bill(1000.0 + 1e-8)), None);
    assert!(difference(&query, &bill(1000.0), &bill(1000.1)).unwrap().contains("sum: Float(1000.1)"));
    let all = oracle.answer(&Query::LastOfAll).unwrap();
    assert!(difference(&Query::LastOfAll, &all, &all.slice(1, 3)).unwrap().contains("3 rows instead of 4"));
    // Any order is accepted unless the query is ordered.
    let turned = arrow::compute::concat_batches(&all.schema(), [&all.slice(2, 2), &all.slice(0, 2)]).unwrap();
    assert_eq!(difference(&Query::LastOfAll, &all, &turned), None);
    let one = oracle.answer(&asked()[1]).unwrap();
    let turned = arrow::compute::concat_batches(&one.schema(), [&one.slice(6, 6), &one.slice(0, 6)]).unwrap();
    assert!(difference(&asked()[1], &one, &turned).is_some());
}
