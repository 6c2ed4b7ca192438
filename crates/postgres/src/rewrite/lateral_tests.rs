use super::*;
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;

fn rewritten(subquery: &str) -> Option<String> {
    let query = Parser::new(&PostgreSqlDialect {}).try_with_sql(subquery).unwrap().parse_query().unwrap();
    numbered(&query)
}

#[test]
fn rows_are_numbered_by_what_is_asked_of_those_around() {
    assert_eq!(
        rewritten("SELECT v, ts AS t FROM reads r WHERE r.id = m.id AND v > 0 ORDER BY t DESC LIMIT 2").unwrap(),
        "SELECT \"item:0\" AS \"v\", \"item:1\" AS \"t\" FROM (SELECT v AS \"item:0\", ts AS \"item:1\", \
         r.id AS \"key:0\", row_number() OVER (PARTITION BY r.id ORDER BY ts DESC) AS \"number:\" \
         FROM reads r WHERE (v > 0)) AS \"numbered:\" WHERE \"key:0\" = m.id AND \"number:\" <= 2"
    );
    let all = rewritten("SELECT * FROM reads WHERE m.id = id LIMIT 1").unwrap();
    assert!(all.starts_with("SELECT * EXCLUDE (\"key:0\", \"number:\") FROM (SELECT *, id AS \"key:0\", "), "{all}");
}

#[test]
fn others_are_left_alone() {
    let others = [
        "SELECT v FROM reads r WHERE r.id = m.id",
        "SELECT v FROM reads r WHERE r.id = 7 LIMIT 1",
        "SELECT v FROM reads r WHERE r.id = m.id AND r.ts < m.ts ORDER BY ts DESC LIMIT 1",
        "SELECT max(v) FROM reads r WHERE r.id = m.id LIMIT 1",
        "SELECT v FROM reads r WHERE r.id = m.id GROUP BY v LIMIT 1",
        "SELECT v FROM reads r WHERE r.id = m.id ORDER BY 1 LIMIT 1",
        "SELECT * FROM reads r WHERE r.id = m.id + n ORDER BY ts LIMIT 1",
    ];
    for other in others {
        assert_eq!(rewritten(other), None, "{other}");
    }
}
