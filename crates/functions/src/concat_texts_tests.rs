use arrow::array::AsArray;
use fleetdb_engine::io::{Io, MemoryStorage};
use fleetdb_engine::{Database, Settings};
use fleetdb_query::Session;

#[test]
fn a_chain_of_texts_is_one_call_with_the_operators_meaning() {
    let session = Session::new(
        Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap().into(),
        fleetdb_query::Plain::new(),
    )
    .unwrap();
    session.sql("CREATE TABLE t (id BIGINT, a TEXT, b TEXT, PRIMARY KEY (id))").unwrap();
    session.sql("INSERT INTO t VALUES (1, 'a', 'b'), (2, NULL, 'b'), (3, '', '\u{e4}')").unwrap();
    let texts = |expr: &str| {
        let rows = session.sql(&format!("SELECT {expr} FROM t ORDER BY id")).unwrap().collect().unwrap();
        let texts = rows[0].column(0).as_string::<i32>();
        texts.iter().map(|text| text.map(str::to_owned)).collect::<Vec<_>>()
    };
    let expected = |texts: [Option<&str>; 3]| texts.map(|text| text.map(str::to_owned)).to_vec();
    assert_eq!(texts("a || b"), expected([Some("ab"), None, Some("\u{e4}")]));
    assert_eq!(texts("'<' || a || ('-' || b) || '>'"), expected([Some("<a-b>"), None, Some("<-\u{e4}>")]));
    assert_eq!(texts("id || a"), expected([Some("1a"), None, Some("3")]));
    assert_eq!(texts("coalesce(a || NULL, b)"), expected([Some("b"), Some("b"), Some("\u{e4}")]));
    let plan = session.sql("EXPLAIN SELECT a || '-' || b FROM t").unwrap().collect().unwrap();
    let plan = plan[0].column(1).as_string::<i32>().iter().flatten().collect::<String>();
    assert!(plan.contains("concat_texts(a@0, -, b@1)"), "{plan}");
    let grouped = "SELECT a || b AS both, count(*) FROM t GROUP BY a || b HAVING a || b > '' ORDER BY a || b";
    assert_eq!(session.sql(grouped).unwrap().collect().unwrap().iter().map(|rows| rows.num_rows()).sum::<usize>(), 2);
}
