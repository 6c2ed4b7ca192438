use super::pretty;

/// The expected texts are PostgreSQL 15's.
#[test]
fn sizes_are_written_as_postgres_does() {
    for (bytes, text) in [
        (0, "0 bytes"),
        (10_239, "10239 bytes"),
        (10_240, "10 kB"),
        (1 << 20, "1024 kB"),
        (123_456_789, "118 MB"),
        (-20_000, "-20 kB"),
        (1 << 40, "1024 GB"),
    ] {
        assert_eq!(pretty(bytes), text);
    }
}
