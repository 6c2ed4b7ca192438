use super::*;

fn formatted(template: &str, values: &[Option<&str>]) -> std::result::Result<String, String> {
    let values: Vec<StringArray> = values.iter().map(|value| StringArray::from(vec![*value])).collect();
    let mut out = String::new();
    Template { rest: template, values: &values, row: 0, next: 0 }.put(&mut out).map_err(|e| e.to_string())?;
    Ok(out)
}

#[test]
fn values_stand_where_the_template_says() {
    for (template, values, expected) in [
        ("%s, %s", &[Some("a"), Some("b")][..], "a, b"),
        ("%2$s %1$s %s", &[Some("a"), Some("b")], "b a b"),
        ("100%%", &[], "100%"),
        ("[%5s|%-5s|%*s]", &[Some("a"), Some("b"), Some("-3"), Some("c")], "[    a|b    |c  ]"),
        ("%I.%I", &[Some("a b"), Some("c")], "\"a b\".c"),
        ("%L %L", &[Some("it's"), None], "'it''s' NULL"),
        ("<%s>", &[None], "<>"),
    ] {
        assert_eq!(formatted(template, values), Ok(expected.to_owned()), "{template}");
    }
}

#[test]
fn wrong_templates_are_errors_without_a_panic() {
    for (template, reason) in [
        ("%s", "too few arguments"),
        ("%", "unterminated"),
        ("%x", "unrecognized"),
        ("%0$s", "numbered from 1"),
        ("%99999999999999999999s", "out of range"),
        ("%ä", "unrecognized"),
    ] {
        let values: &[Option<&str>] = if template == "%s" { &[] } else { &[Some("a")] };
        let error = formatted(template, values).unwrap_err();
        assert!(error.contains(reason), "{template}: {error}");
    }
    let values = vec![StringArray::from(vec![Some("a")])];
    let wide = Template { rest: "%3000000000s", values: &values, row: 0, next: 0 };
    assert!(wide.put(&mut Counted(0.0)).unwrap_err().to_string().contains("2 GiB"));
}
