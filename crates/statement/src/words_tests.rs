use super::first_word;

#[test]
fn the_first_word_is_behind_spaces_and_comments() {
    for (text, word) in [
        ("SELECT 1", "SELECT 1"),
        (" \n select", "select"),
        ("-- a\n-- b\r\nselect", "select"),
        ("-- a\rselect", "select"),
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
