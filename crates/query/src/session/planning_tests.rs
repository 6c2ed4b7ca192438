use crate::Session;
use arrow::util::pretty::pretty_format_batches;
use datafusion::physical_plan::displayable;
use fleetdb_engine::io::{Io, MemoryStorage};
use fleetdb_engine::{Database, Settings};

fn session() -> Session {
    let db = Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
    Session::new(db.into(), crate::Plain::new()).unwrap()
}

#[test]
fn a_statement_that_is_cancelled_is_not_planned_to_its_end() {
    let session = session();
    let statement = session.parse_one("SELECT 1").unwrap();
    let plan = session.plan_statement(statement).unwrap();
    session.begin_statement();
    assert!(session.optimized(plan.clone()).is_ok());
    session.canceller().cancel();
    let error = session.optimized(plan).unwrap_err();
    assert!(error.to_string().contains("the statement was cancelled"), "{error}");
}

/// Queries of one table, whose plans need fewer rules.
const OF_ONE_TABLE: [&str; 13] = [
    "SELECT kwh FROM readings WHERE meter = 5",
    "SELECT kwh FROM readings WHERE meter = 5 LIMIT 3",
    "SELECT kwh FROM readings WHERE meter = 5 AND kwh > 1 LIMIT 3",
    "SELECT ts, kwh FROM readings WHERE meter = 5 ORDER BY ts DESC LIMIT 1",
    "SELECT ts, kwh FROM readings WHERE meter IN (1, 2) AND ts >= '2026-01-01' ORDER BY meter, ts OFFSET 2",
    "SELECT meter, max(ts), count(*) FROM readings WHERE ts < '2026-02-01' GROUP BY meter ORDER BY meter",
    "SELECT date_trunc('day', ts) AS day, sum(kwh) FROM readings WHERE meter = 1 GROUP BY day ORDER BY day",
    "SELECT DISTINCT meter FROM readings LIMIT 2",
    // Conditions that no row meets.
    "SELECT kwh FROM readings WHERE meter = 1 AND meter = 2",
    "SELECT kwh FROM readings WHERE meter = 1 AND kwh > 0 AND meter = 2",
    "SELECT count(*) FROM readings WHERE meter = 1 AND meter = NULL",
    "SELECT kwh FROM readings WHERE meter IN (NULL)",
    "SELECT kwh FROM (SELECT kwh FROM readings ORDER BY ts DESC LIMIT 5) q LIMIT 3 OFFSET 5",
];

#[test]
fn queries_of_one_table_run_as_all_rules_would_have_it() {
    let session = session();
    session.sql("CREATE TABLE readings (meter BIGINT, ts TIMESTAMP, kwh DOUBLE, PRIMARY KEY (meter, ts))").unwrap();
    for text in OF_ONE_TABLE {
        let plan = session.plan_statement(session.parse_one(text).unwrap()).unwrap();
        let state = session.planning_state();
        let plans = [state.optimize(&plan).unwrap(), session.optimized(plan).unwrap()];
        let [by_all_rules, ours] = plans.map(|plan| {
            let physical = state.query_planner().create_physical_plan(&plan, &*state);
            displayable(session.runtime.block_on(physical).unwrap().as_ref()).indent(true).to_string()
        });
        assert_eq!(ours, by_all_rules, "{text}");
        // EXPLAIN shows what runs.
        let explained = session.sql(&format!("EXPLAIN {text}")).unwrap().collect().unwrap();
        let explained = pretty_format_batches(&explained).unwrap().to_string();
        assert!(ours.lines().all(|line| explained.contains(line.trim())), "{ours}\n{explained}");
    }
}
