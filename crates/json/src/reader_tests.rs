use super::{MAX_DEPTH, Malformed, elements, members, whole};

#[test]
fn whole_texts_are_read_as_they_are_written() {
    for text in
        ["1", "-0", "1.50", "1e5", "1E-05", "\"a\\u00e4\\n\"", "true", "null", "[]", "{}", "[1 , {\"a\" :\t[]}]"]
    {
        assert_eq!(whole(&format!(" {text}\n")), Ok(text));
    }
}

#[test]
fn what_is_no_json_is_refused_at_its_place() {
    for (text, at) in [
        ("", 0),
        (" ", 1),
        ("01", 1),
        ("1.", 2),
        (".5", 0),
        ("+1", 0),
        ("1e", 2),
        ("-", 1),
        ("nul", 0),
        ("nulls", 4),
        ("True", 0),
        ("'a'", 0),
        ("\"a", 2),
        ("\"a\nb\"", 2),
        ("\"\\x\"", 2),
        ("\"\\u12g4\"", 2),
        ("[1,]", 3),
        ("[,1]", 1),
        ("[1 2]", 3),
        ("[1", 2),
        ("{\"a\" 1}", 5),
        ("{a:1}", 1),
        ("{1:1}", 1),
        ("{\"a\":1,}", 7),
        ("1 2", 2),
        ("[1}", 2),
        ("1ä", 1),
        ("\u{a0}1", 0),
    ] {
        assert_eq!(whole(text), Err(Malformed::At(at)), "{text}");
    }
}

#[test]
fn depth_is_limited() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(whole(&nested(MAX_DEPTH)).is_ok());
    assert_eq!(whole(&nested(MAX_DEPTH + 1)), Err(Malformed::TooDeep));
    assert_eq!(whole(&"[".repeat(1_000_000)), Err(Malformed::TooDeep));
    assert_eq!(whole(&"{\"a\":".repeat(1_000_000)), Err(Malformed::TooDeep));
    assert!(whole(&format!("[{}1]", "[[]],".repeat(1_000))).is_ok());
}

#[test]
fn parts_are_found() {
    assert_eq!(elements("[1, \"a\" , [2]]").unwrap(), ["1", "\"a\"", "[2]"]);
    assert_eq!(elements("{\"a\":1}").unwrap(), Vec::<&str>::new());
    assert_eq!(members("{\"a\" : 1, \"a\":{}}").unwrap(), [("\"a\"", "1"), ("\"a\"", "{}")]);
    assert!(members("{\"a\" : 1} 2").is_err());
}

#[test]
fn any_bytes_are_read_without_a_panic() {
    let mut seed = 1_u64;
    let letters: Vec<char> = "{}[]\",:\\u0dE1e.-+ntfalsru ä\n".chars().collect();
    for _ in 0..20_000 {
        let mut text = String::new();
        for _ in 0..seed % 23 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            text.push(letters[(seed >> 33) as usize % letters.len()]);
        }
        seed = seed.wrapping_add(1);
        let read = whole(&text);
        let canonical = crate::canonical::canonical(&text);
        assert!(read.is_ok() || canonical.is_err(), "{text}");
        if let Ok(canonical) = canonical {
            assert_eq!(crate::canonical::canonical(&canonical).as_ref(), Ok(&canonical), "{text}");
        }
    }
}
