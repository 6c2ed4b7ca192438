use super::text_with_backslashes;

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
