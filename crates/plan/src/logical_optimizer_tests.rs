use super::{LogicalOptimizer, OF_SEVERAL_TABLES, is_simple};
use crate::limits::Limits;
use datafusion::optimizer::Optimizer;
use datafusion::prelude::SessionContext;
use std::sync::Arc;

const TABLES: &str = "CREATE TABLE readings (meter BIGINT NOT NULL, ts TIMESTAMP NOT NULL, kwh DOUBLE, note VARCHAR, \
                      n INT) AS VALUES (1, '2026-01-01T00:00:00'::timestamp, 0.5, 'a', 1)";

/// What everyday queries of one table look like.
const OF_ONE_TABLE: [&str; 30] = [
    "SELECT 1 + 1 AS two",
    "SELECT * FROM readings",
    "SELECT kwh * (1 + 1) FROM readings r WHERE r.meter = 5 AND ts >= '2026-01-01' AND ts < '2026-01-02'",
    "SELECT kwh FROM readings WHERE n = 5 AND CAST(n AS BIGINT) < 7 AND NOT (kwh > 1)",
    "SELECT kwh FROM readings WHERE CAST(n AS VARCHAR) = '5' OR meter IN (1, 2, 3)",
    "SELECT ts, kwh FROM readings WHERE meter = 5 ORDER BY ts DESC LIMIT 1",
    "SELECT ts, kwh FROM readings ORDER BY ts, ts, meter LIMIT 10 OFFSET 5",
    "SELECT ts FROM readings LIMIT 0",
    "SELECT kwh FROM readings WHERE false",
    "SELECT kwh FROM readings WHERE true AND 1 = 1",
    "SELECT kwh FROM readings WHERE meter = 1 AND meter = 2",
    "SELECT kwh FROM readings WHERE meter = 1 AND kwh > 0 AND meter = 2",
    "SELECT kwh FROM readings WHERE meter IN (NULL)",
    "SELECT kwh FROM readings WHERE meter IN (1, NULL)",
    "SELECT kwh FROM (SELECT kwh FROM readings ORDER BY ts DESC LIMIT 5) q LIMIT 3 OFFSET 5",
    "SELECT kwh FROM (SELECT kwh FROM readings ORDER BY ts DESC LIMIT 5) q LIMIT 3 OFFSET 1",
    "SELECT sum(kwh), count(*), avg(kwh) FROM readings WHERE meter = 5",
    "SELECT meter, date_trunc('day', ts) AS day, sum(kwh) FROM readings GROUP BY meter, day ORDER BY meter, day",
    "SELECT meter, 1, max(kwh) + max(kwh) FROM readings GROUP BY meter, 1, meter",
    "SELECT DISTINCT note FROM readings ORDER BY note",
    "SELECT count(DISTINCT note) FROM readings",
    "SELECT meter, count(DISTINCT note) FROM readings WHERE kwh > 1 GROUP BY meter LIMIT 3",
    "SELECT meter, sum(kwh) FILTER (WHERE kwh > 1) FROM readings GROUP BY meter",
    "SELECT ts, kwh - lag(kwh) OVER (ORDER BY ts) FROM readings WHERE meter = 1 ORDER BY ts",
    "SELECT meter, rank() OVER (PARTITION BY meter ORDER BY kwh DESC) FROM readings ORDER BY meter LIMIT 3",
    "SELECT CASE WHEN kwh > 1 THEN 'high' ELSE 'low' END AS level, count(*) FROM readings GROUP BY level",
    "SELECT coalesce(note, 'none') || '!' FROM readings WHERE note LIKE 'a%' AND note IS NOT NULL",
    "SELECT a + a FROM (SELECT kwh * 2 AS a, n, ts FROM readings) q ORDER BY a",
    "SELECT max(a) FROM (SELECT sum(kwh) AS a FROM readings GROUP BY meter) q",
    "SELECT meter FROM readings GROUP BY ROLLUP (meter, note)",
];

/// Queries that all rules are for.
const OTHERS: [&str; 8] = [
    "SELECT a.kwh FROM readings a JOIN readings b ON a.meter = b.meter WHERE b.n = 1",
    "SELECT kwh FROM readings UNION ALL SELECT n FROM readings",
    "SELECT kwh FROM readings WHERE meter IN (SELECT n FROM readings)",
    "SELECT EXISTS (SELECT 1 FROM readings WHERE kwh > 1)",
    "SELECT (SELECT max(kwh) FROM readings) AS m, n FROM readings",
    "SELECT meter, sum(kwh) FROM readings GROUP BY meter HAVING sum(kwh) > 1",
    "SELECT * FROM (SELECT CAST(n AS BIGINT) AS m FROM readings) q WHERE m = 5",
    "SELECT * FROM generate_series(1, 3) g(i), readings",
];

#[test]
fn queries_of_one_table_get_the_plan_that_all_rules_make() {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(compare());
}

async fn compare() {
    let context = SessionContext::new();
    context.sql(TABLES).await.unwrap().collect().await.unwrap();
    let optimizer = LogicalOptimizer::new(&Arc::new(Limits::default()));
    for (text, of_one) in OF_ONE_TABLE.map(|text| (text, true)).into_iter().chain(OTHERS.map(|text| (text, false))) {
        let state = context.state();
        let plan = state.create_logical_plan(text).await.unwrap();
        assert_eq!(is_simple(&plan).unwrap(), of_one, "{text}");
        let by_all_rules = state.optimize(&plan).unwrap();
        // Names of aliases are numbered.
        let fresh = context.state();
        let optimized = optimizer.optimize(plan, &fresh).unwrap();
        assert_eq!(
            optimized.display_indent_schema().to_string(),
            by_all_rules.display_indent_schema().to_string(),
            "{text}"
        );
    }
}

#[test]
fn datafusion_has_the_rules_that_are_named() {
    let rules = Optimizer::new().rules;
    for name in OF_SEVERAL_TABLES.into_iter().chain(["single_distinct_aggregation_to_group_by"]) {
        assert!(rules.iter().any(|rule| rule.name() == name), "{name}");
    }
}
