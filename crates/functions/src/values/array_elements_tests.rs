use super::elements;

#[test]
fn elements_are_read_as_postgres_writes_them() {
    let texts =
        |text| elements(text).unwrap().into_iter().map(|e| e.unwrap_or_else(|| "-".to_owned())).collect::<Vec<_>>();
    assert_eq!(texts("{}"), Vec::<String>::new());
    assert_eq!(texts("{1,2}"), ["1", "2"]);
    assert_eq!(texts(r#" { 1 , NULL,"NULL", "a, b" ,"q\"\\"} "#), ["1", "-", "NULL", "a, b", r#"q"\"#]);
    assert_eq!(texts(r"{a\,b,ö}"), ["a,b", "ö"]);
}

#[test]
fn what_is_no_array_says_why() {
    for (text, why) in [
        ("1,2", "braces"),
        ("{1", "braces"),
        ("{1,}", "missing"),
        ("{,1}", "missing"),
        (r#"{"a}"#, "closed"),
        (r#"{"a"b}"#, "commas"),
        ("{{1},{2}}", "arrays of arrays"),
        ("{a\\}", "backslash"),
    ] {
        let error = elements(text).unwrap_err().to_string();
        assert!(error.contains(why), "{text}: {error}");
    }
}
