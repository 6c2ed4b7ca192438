use crate::grammar::Grammar;
use datafusion::sql::sqlparser::parser::Parser;

fn parsed(text: &str) -> Result<Vec<String>, String> {
    let statements = Parser::parse_sql(&Grammar::of(text), text).map_err(|error| error.to_string())?;
    Ok(statements.iter().map(ToString::to_string).collect())
}

#[test]
fn forms_of_postgres_are_parsed_wherever_they_stand() {
    for (text, same) in [
        ("abort", "ROLLBACK"),
        ("ABORT WORK", "ROLLBACK"),
        ("-- a\nTABLE t", "SELECT * FROM t"),
        ("TABLE s.\"T\" ORDER BY v DESC LIMIT 3", "SELECT * FROM s.\"T\" ORDER BY v DESC LIMIT 3"),
        ("/* a */ Move 3 IN c", "FETCH 3 IN c INTO nowhere"),
        ("move forward all from c", "FETCH FORWARD ALL FROM c INTO nowhere"),
    ] {
        assert_eq!(parsed(text).as_deref(), Ok(&[same.to_owned()][..]), "{text}");
        let both = vec!["SELECT 1".to_owned(), same.to_owned(), "SELECT 2".to_owned()];
        assert_eq!(parsed(&format!("SELECT 1; {text}; SELECT 2")), Ok(both), "{text}");
    }
}

#[test]
fn deferrable_is_left_out() {
    for begin in ["BEGIN", "START TRANSACTION", "SET TRANSACTION", "SET SESSION CHARACTERISTICS AS TRANSACTION"] {
        let modes = format!("{begin} ISOLATION LEVEL SERIALIZABLE, READ ONLY");
        let expected = parsed(&modes).unwrap();
        for end in ["", " DEFERRABLE", ", not deferrable ", " NOT DEFERRABLE; "] {
            assert_eq!(parsed(&format!("{modes}{end}")).as_ref(), Ok(&expected), "{modes}{end}");
        }
        assert_eq!(parsed(&format!("{begin} DEFERRABLE")), parsed(begin), "{begin}");
    }
    assert_eq!(parsed("SET a = 'DEFERRABLE'").unwrap(), ["SET a = 'DEFERRABLE'"]);
    assert!(parsed("SELECT 1 DEFERRABLE 2").is_err());
}

#[test]
fn errors_have_the_positions_of_the_text() {
    let error = parsed("SELECT 1;\nTABLE t WHERE").unwrap_err();
    assert!(error.contains("EOF"), "{error}");
    let error = parsed("SELECT 1;\nTABLE t LIMIT 3 4").unwrap_err();
    assert!(error.contains("Line: 2, Column: 17"), "{error}");
    assert!(parsed("TABLE").is_err());
    assert!(parsed("MOVE").is_err());
}
