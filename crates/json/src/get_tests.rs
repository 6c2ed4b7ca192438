use super::{at_key, at_path, at_place};

fn path(steps: &[&str]) -> Vec<Option<String>> {
    steps.iter().map(|step| Some((*step).to_owned())).collect()
}

#[test]
fn keys_and_places_are_followed() {
    let text = r#"{"a": [1, {"b": "x"}], "a": [2, {"b": "y" }], "\u0062": 3}"#;
    assert_eq!(at_key(text, "a").unwrap(), Some(r#"[2, {"b": "y" }]"#));
    assert_eq!(at_key(text, "b").unwrap(), Some("3"));
    assert_eq!(at_key(text, "c").unwrap(), None);
    assert_eq!(at_key("[1]", "0").unwrap(), None);
    assert_eq!(at_place("[1,2,3]", 0).unwrap(), Some("1"));
    assert_eq!(at_place("[1,2,3]", -1).unwrap(), Some("3"));
    assert_eq!(at_place("[1,2,3]", -4).unwrap(), None);
    assert_eq!(at_place("[1,2,3]", i64::MIN).unwrap(), None);
    assert_eq!(at_place("{\"0\":1}", 0).unwrap(), None);
    assert!(at_key("{", "a").is_err());
}

#[test]
fn a_path_leads_through_objects_and_arrays() {
    let text = r#"{"a": [1, {"b": "x"}]}"#;
    for (steps, found) in [
        (&["a", "1", "b"][..], Some("\"x\"")),
        (&["a", "-2"], Some("1")),
        (&["a", "x"], None),
        (&["a", "0", "b"], None),
        (&[], Some(text)),
    ] {
        assert_eq!(at_path(text, &path(steps)).unwrap(), found, "{steps:?}");
    }
    assert_eq!(at_path(text, &[None]).unwrap(), None);
}
