use super::{is_about, where_needed};
use datafusion::execution::SessionStateBuilder;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::displayable;
use datafusion::prelude::{SessionConfig, SessionContext};

const TABLE: &str = "CREATE TABLE readings (meter BIGINT NOT NULL, ts TIMESTAMP NOT NULL, kwh DOUBLE, n INT) AS VALUES \
                     (1, '2026-01-01T00:00:00'::timestamp, 0.5, 1), (2, '2026-01-01T01:00:00'::timestamp, 1.5, 1)";

/// Queries with the nodes that the rules are about, and without them.
const QUERIES: [&str; 22] = [
    "SELECT 1",
    "SELECT * FROM readings",
    "SELECT kwh + 1 AS k, n FROM readings WHERE meter = 1",
    "SELECT k * 2 FROM (SELECT kwh + 1 AS k FROM readings WHERE random() < 2) q WHERE k > 1",
    "SELECT kwh FROM readings LIMIT 1",
    "SELECT kwh FROM readings OFFSET 1",
    "SELECT kwh FROM (SELECT kwh FROM readings LIMIT 5) q WHERE kwh > 1 LIMIT 2 OFFSET 1",
    "SELECT ts, kwh FROM readings ORDER BY ts",
    "SELECT ts, kwh FROM readings WHERE n = 1 ORDER BY ts DESC LIMIT 1",
    "SELECT count(*), min(kwh) FROM readings",
    "SELECT meter, sum(kwh ORDER BY ts) FROM readings GROUP BY meter ORDER BY meter",
    "SELECT meter, max(kwh) FROM readings GROUP BY meter ORDER BY max(kwh) DESC LIMIT 2",
    "SELECT DISTINCT meter FROM readings LIMIT 2",
    "SELECT meter, row_number() OVER (PARTITION BY meter ORDER BY ts) FROM readings LIMIT 3",
    "SELECT * FROM (SELECT meter, row_number() OVER (PARTITION BY n ORDER BY ts) AS r FROM readings) q WHERE r <= 2",
    "SELECT a.kwh, b.n FROM readings a JOIN readings b ON a.meter = b.meter AND a.ts = b.ts WHERE a.n = 1",
    "SELECT a.kwh FROM readings a LEFT JOIN readings b ON a.kwh < b.kwh ORDER BY a.ts LIMIT 2",
    "SELECT a.kwh FROM readings a CROSS JOIN readings b",
    "SELECT kwh FROM readings UNION ALL SELECT n FROM readings ORDER BY 1 LIMIT 3",
    "SELECT kwh FROM readings WHERE meter IN (SELECT n FROM readings) ORDER BY kwh",
    "SELECT n, (SELECT max(kwh) FROM readings) FROM readings",
    "SELECT * FROM generate_series(1, 3) g(i) JOIN readings ON i = meter ORDER BY i",
];

#[test]
fn plans_are_those_that_all_rules_make() {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(compare());
}

async fn compare() {
    let everywhere = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(1));
    everywhere.sql(TABLE).await.unwrap().collect().await.unwrap();
    let rules = PhysicalOptimizer::new().rules.into_iter().map(where_needed).collect();
    let state = SessionStateBuilder::new_from_existing(everywhere.state()).with_physical_optimizer_rules(rules).build();
    let restricted = SessionContext::new_with_state(state);
    for text in QUERIES {
        let mut plans = Vec::new();
        for context in [&everywhere, &restricted] {
            let plan = context.sql(text).await.unwrap().create_physical_plan().await.unwrap();
            plans.push(displayable(plan.as_ref()).indent(true).to_string());
        }
        assert_eq!(plans[0], plans[1], "{text}");
    }
}

#[test]
fn all_rules_are_restricted_but_those_that_run_on_every_plan() {
    let rules = PhysicalOptimizer::new().rules;
    let everywhere = rules.iter().map(|rule| rule.name()).filter(|name| is_about(name).is_none());
    let expected = ["OutputRequirements", "OutputRequirements", "EnsureCooperative", "SanityCheckPlan"];
    assert_eq!(everywhere.collect::<Vec<_>>(), expected);
}
