use super::create;
use fleetdb_bench_core::workload::{cpu, meters};

#[test]
fn tags_and_time_are_the_key_and_other_keys_are_refused() {
    let text = create(&cpu::cpu_table()).unwrap();
    let key = "PRIMARY KEY (hostname, region, datacenter, rack, os, arch, team, service, service_version, \
               service_environment, ts))";
    assert!(text.starts_with("CREATE TABLE IF NOT EXISTS cpu (hostname TEXT, ") && text.ends_with(key), "{text}");
    for table in meters::tables() {
        let error = create(&table).unwrap_err().to_string();
        assert!(error.starts_with(table.name), "{error}");
    }
}
