use super::*;

#[test]
fn addresses_and_known_names_are_hosts() {
    let hosts = ["db.example.com".to_owned()];
    for host in ["127.0.0.1", "127.0.0.1:8086", "[::1]:8086", "[::1]", "localhost:8086", "LOCALHOST", "a.localhost"] {
        assert!(is_known(&[], host_of(host)), "{host}");
    }
    assert!(is_known(&hosts, host_of("DB.example.com:8086")));
    for host in
        ["", "x", "example.com:8086", "127.0.0.1.example.com", "localhost.example.com", "db.example.com.evil", ":80"]
    {
        assert!(!is_known(&hosts, host_of(host)), "{host}");
    }
}
