use super::written_tables;
use crate::grammar::Grammar;
use datafusion::sql::sqlparser::parser::Parser;

#[test]
fn every_form_of_a_write_names_its_tables() {
    for (text, tables) in [
        ("SELECT * FROM a", ""),
        ("INSERT INTO a SELECT * FROM b", "a"),
        ("WITH x AS (INSERT INTO a VALUES (1)) INSERT INTO pg_temp.b VALUES (2)", "a pg_temp.b"),
        ("UPDATE a SET v = 1 FROM b", "a"),
        ("DELETE FROM a USING b", "a"),
        ("MERGE INTO a USING b ON true WHEN MATCHED THEN DELETE", "a"),
        ("TRUNCATE a, b", "a b"),
        ("DROP TABLE a, b", "a b"),
        ("DROP VIEW a", ""),
        ("ALTER TABLE a ADD COLUMN v INT", "a"),
        ("COPY a FROM 'a.csv'", "a"),
        ("COPY a TO 'a.csv'", ""),
    ] {
        let statement = Parser::parse_sql(&Grammar::of(text), text).unwrap().remove(0);
        let mut found: Vec<_> = written_tables(&statement).iter().map(ToString::to_string).collect();
        found.sort();
        assert_eq!(found.join(" "), tables, "{text}");
    }
}
