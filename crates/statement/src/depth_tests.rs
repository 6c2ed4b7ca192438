use super::*;
use fleetdb_engine::Code;

fn in_row(text: &str) -> usize {
    Links::of(text).unwrap().in_row
}

#[test]
fn operators_in_a_row_count() {
    assert_eq!(in_row("SELECT 1"), 0);
    assert_eq!(in_row("SELECT 1+1 - 1"), 2);
    assert_eq!(in_row("SELECT a = 1 OR b IS NULL AND c LIKE 'x'"), 5);
    assert_eq!(in_row("SELECT a::int::int, b::int"), 2);
    assert_eq!(in_row("SELECT 1or 2 and 3"), 2);
    assert_eq!(in_row("SELECT 1 UNION SELECT 2 JOIN t"), 2);
    assert_eq!(in_row("SELECT id FROM android WHERE isolated"), 0);
}

#[test]
fn what_is_between_commas_and_in_parentheses_counts_by_itself() {
    assert_eq!(in_row("INSERT INTO t VALUES (1+1, 2), (3+3, 4+4+4)"), 3);
    assert_eq!(in_row("SELECT (a AND b) OR (c AND d AND e) OR (f)"), 2 + 3);
    assert_eq!(in_row("SELECT CASE WHEN a = 1 THEN 2 END + 1"), 1 + 2);
    assert_eq!(in_row("SELECT a) + (b + c"), in_row("SELECT a + (b + c"));
}

#[test]
fn what_stands_in_quotes_and_comments_does_not_count_and_hides_nothing() {
    for text in [
        "SELECT '+ +, (' + 'a''+' || \"b+\" || c",
        "SELECT '+ +, (' + 'a' -- + + ,(\n || b /* + /* , */ + */ || c",
        r"SELECT E'\' + +, (' + 'a' || b || c",
        "SELECT $$ + ', ( $$ + $a$ + $$ $a$ || $1 || c",
        "SELECT '\\' + a || ',' || c",
    ] {
        assert_eq!(in_row(text), 3, "{text}");
    }
}

#[test]
fn a_text_with_too_many_is_refused() {
    let error = Links::of(&format!("SELECT 1{}", "+1".repeat(MAX_LINKS + 1))).unwrap_err();
    assert!(error.to_string().starts_with("the statement is nested too deeply: "), "{error}");
    assert!(Links::of(&format!("SELECT {}1", "1+1,".repeat(MAX_LINKS))).is_ok());
}

#[test]
fn parentheses_and_words_within_others_are_refused_before_they_are_parsed() {
    for deep in [
        format!("SELECT {}1{}", "ARRAY[".repeat(101), "]".repeat(101)),
        format!("{}SELECT 1", "EXPLAIN ".repeat(33)),
        format!("{}SELECT 1", "EXPLAIN VERBOSE ".repeat(33)),
        format!("SELECT {}'1 day'", "INTERVAL ".repeat(33)),
    ] {
        assert_eq!(Links::of(&deep).unwrap_err().code(), Code::TooDeep, "{deep}");
    }
    for many in [
        format!("SELECT 1{}", " + (1)".repeat(1_000)),
        format!("SELECT now(){}", " - INTERVAL '1 day'".repeat(1_000)),
        "EXPLAIN SELECT 1; ".repeat(1_000),
    ] {
        assert!(Links::of(&many).is_ok());
    }
}
