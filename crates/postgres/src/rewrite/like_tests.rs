use super::{regex_of, text_with_backslashes};

#[test]
fn patterns_are_written_with_backslashes() {
    for (pattern, escape, with_backslashes) in [
        ("pg/_%", Some('/'), r"pg\_%"),
        ("a//b", Some('/'), "a/b"),
        (r"a\b", Some('/'), r"a\\b"),
        (r"100\%", None, r"100\\%"),
        ("50!%!!", Some('!'), r"50\%!"),
    ] {
        assert_eq!(text_with_backslashes(pattern, escape), with_backslashes, "{pattern}");
    }
}

#[test]
fn similar_patterns_are_regular_expressions_of_the_whole_text() {
    for (pattern, regex) in [
        ("%b_", "^(?s:.*b.)$"),
        ("(a|b)+", "^(?s:(a|b)+)$"),
        ("1.5^$", r"^(?s:1\.5\^\$)$"),
        ("[%_.]%", "^(?s:[%_.].*)$"),
        (r"100\%\", r"^(?s:100\%\\)$"),
    ] {
        assert_eq!(regex_of(pattern), regex, "{pattern}");
    }
}
