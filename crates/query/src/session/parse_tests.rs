use super::{as_fetch, in_other_words};
use crate::statement::words::first_word;

#[test]
fn the_first_word_is_behind_spaces_and_comments() {
    for (text, word) in [
        ("SELECT 1", "SELECT 1"),
        (" \n select", "select"),
        ("-- a\n-- b\r\nselect", "select"),
        ("/* a /* b */ ** / */ /**/select", "select"),
        ("/*/ */ select", "select"),
        ("- 1", "- 1"),
        ("/ 1", "/ 1"),
        ("é", "é"),
        ("/é", "/é"),
        ("-- no end", ""),
        ("/* é * no end", ""),
        ("/* a /* b */", ""),
        ("", ""),
    ] {
        assert_eq!(&text[first_word(text)..], word, "{text:?}");
    }
}

#[test]
fn what_postgres_alone_says_is_said_in_other_words() {
    assert_eq!(in_other_words("abort").as_deref(), Some("ROLLBACK"));
    assert_eq!(in_other_words("-- a\nTABLE t;").as_deref(), Some("-- a\nSELECT * FROM t;"));
    assert_eq!(in_other_words("tables"), None);
    let modes = "BEGIN ISOLATION LEVEL SERIALIZABLE, READ ONLY";
    for end in [" DEFERRABLE;", ", not deferrable ", " NOT DEFERRABLE"] {
        assert_eq!(in_other_words(&format!("{modes}{end}")).as_deref(), Some(modes));
    }
    for other in [modes, "SET CONSTRAINTS ALL DEFERRED", "SET a = 'DEFERRABLE'", "BEGIN", "BEGINDEFERRABLE"] {
        assert_eq!(in_other_words(other), None);
    }
    assert_eq!(as_fetch("/* a */ Move 3 IN c").as_deref(), Some("/* a */ FETCH 3 IN c"));
    assert_eq!(as_fetch("MOVED"), None);
}
