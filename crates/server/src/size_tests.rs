use super::*;
use crate::Options;

#[test]
fn sizes_have_units_in_flags_and_in_the_file() {
    let sizes =
        [("1KiB", 1_024), ("1.5 mib", 3 << 19), ("2GB", 2_000_000_000), (" 7 ", 7), ("3 B", 3), ("1tib", 1 << 40)];
    for (text, bytes) in sizes {
        assert_eq!(text.parse(), Ok(Size(bytes)), "{text}");
    }
    for text in ["", "GiB", "4 gigs", "-1", "4Gi B", "1e9", "99999999999GiB", "1.2.3 MB"] {
        assert!(text.parse::<Size>().is_err(), "{text}");
    }
    let file = |text: &str| toml::from_str::<Options>(text);
    let options = file("memory_limit = \"4GiB\"\nmax_body_bytes = 1000").unwrap();
    assert_eq!((options.memory_limit, options.max_body_bytes), (Some(Size(4 << 30)), Some(Size(1_000))));
    let error = file("memory_limit = \"4 gigs\"").unwrap_err().to_string();
    assert!(error.contains("invalid size '4 gigs'") && error.contains("line 1"), "{error}");
}
