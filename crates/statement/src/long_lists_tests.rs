use super::*;
use fleetdb_functions::list_literals::Literal;

fn list(count: usize, item: impl Fn(usize) -> String) -> String {
    (0..count).map(item).collect::<Vec<_>>().join(", ")
}

fn number(number: usize) -> String {
    (number as i64 - 10).to_string()
}

#[test]
fn long_lists_are_quoted_and_everything_keeps_its_place() {
    let (numbers, texts) = (list(MIN_LITERALS, number), list(MIN_LITERALS, |item| format!("'it''s, ({item})'")));
    let text = format!("SELECT \"in\" FROM t WHERE a IN ({numbers}) AND b NOT in\n(  {texts} )AND c IN (1)");
    let short = shortened(&text).unwrap();
    assert_eq!(
        short,
        format!("SELECT \"in\" FROM t WHERE a IN \"{numbers}\" AND b NOT in\n\"  {texts} \"AND c IN (1)")
    );
}

#[test]
fn other_lists_are_left_alone() {
    let numbers = list(MIN_LITERALS, number);
    for other in [
        list(MIN_LITERALS - 1, number),
        format!("{numbers}, NULL"),
        format!("{numbers}, 'a'"),
        format!("{numbers}, 1.5"),
        format!("{numbers}, 1e3"),
        format!("{numbers}, 9223372036854775807"),
        format!("{numbers}, 1::int"),
        format!("{numbers}, $1"),
        format!("{numbers},"),
        format!("{numbers}, 1 + 1"),
        format!("-- a comment\n{numbers}"),
        list(MIN_LITERALS, |item| format!("'\"{item}'")),
        list(MIN_LITERALS, |item| format!("E'{item}'")),
        format!("{}, 'open", list(MIN_LITERALS, |item| format!("'{item}'"))),
    ] {
        assert_eq!(shortened(&format!("SELECT * FROM t WHERE id IN ({other})")), None, "{other}");
    }
    assert_eq!(shortened(&format!("SELECT * FROM t WHERE id IN ({numbers}")), None);
    assert_eq!(shortened(&format!("SELECT ' IN ({numbers})'")), None);
    assert_eq!(shortened(&format!("INSERT INTO t VALUES ({numbers})")), None);
}

#[test]
fn the_literals_of_a_list_are_read() {
    let read = |text| literals(text).collect::<Option<Vec<_>>>();
    assert_eq!(read(" 1,-2 , 3"), Some([1, -2, 3].map(Literal::Integer).into()));
    assert_eq!(read("'it''s','',''''"), Some(["it's", "", "'"].map(|text| Literal::Text(text.into())).into()));
    for wrong in ["", "1,", "a", "1 2", "'a", "'a' 'b'", "--1"] {
        assert_eq!(read(wrong), None, "{wrong}");
    }
}
