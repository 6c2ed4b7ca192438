//! Runs the suite as a person would: each experiment at a tiny size with every target that can
//! start here, with all answers verified; and what remains after Ctrl-C.
#![allow(clippy::unwrap_used, reason = "a test")]

use fleetdb_bench_core::report;
use fleetdb_bench_core::results::{Phase, Results};
use fleetdb_bench_core::target::Tier;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

fn bench() -> Command {
    Command::new(env!("CARGO_BIN_EXE_fleetdb-bench"))
}

/// Runs an experiment once; every target must finish, and every phase must be verified.
fn run(experiment: &str, arguments: &[&str]) -> Results {
    let directory = tempfile::tempdir().unwrap();
    for entry in fleetdb_bench_targets::all() {
        if let Some(missing) = entry.missing.and_then(|missing| missing()) {
            println!("skipped: {experiment} with {}: {missing}", entry.name);
        }
    }
    let mut command = bench();
    command.args(["run", experiment, "--repetitions", "1"]).args(arguments);
    command.arg("--directory").arg(directory.path()).arg("--out").arg(directory.path().join("out"));
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let results = Results::read(&directory.path().join("out/results.json")).unwrap();
    for file in ["report.html", "report.md"] {
        let report = std::fs::read_to_string(directory.path().join("out").join(file)).unwrap();
        assert!(results.targets().iter().all(|target| report.contains(target)), "{file}");
    }
    let left: Vec<_> = std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["out"], "what a run makes it removes");
    results
}

/// Like [`run`], but FerretDB, whose queries scan everything, gets fewer rows.
fn run_with_fewer_for_ferretdb(experiment: &str, rows: &str, fewer: &str, arguments: &[&str]) -> Vec<Results> {
    let is_slow = |name: &str| name == "ferretdb";
    let all: Vec<_> = fleetdb_bench_targets::all().into_iter().filter(|entry| entry.lacking().is_none()).collect();
    let of = |rows: &str, wanted: bool| {
        let names: Vec<&str> = all.iter().map(|entry| entry.name).filter(|name| is_slow(name) == wanted).collect();
        let targets = names.join(",");
        let arguments = [&["--rows", rows, "--targets", &targets], arguments].concat();
        (!names.is_empty()).then(|| run(experiment, &arguments))
    };
    [of(rows, false), of(fewer, true)].into_iter().flatten().collect()
}

fn phases<'a>(results: &'a Results, name: &str) -> Vec<&'a Phase> {
    let phases = results.runs.iter().flat_map(|run| &run.phases);
    phases.filter(|phase| phase.name == name && phase.lacking.is_none()).collect()
}

#[test]
fn every_target_bills_its_meters_right() {
    let results = run("billing", &["--meters", "6", "--hours", "750", "--connections", "3", "--seconds", "1"]);
    for phase in phases(&results, "bill") {
        assert_eq!((phase.verified, phase.driven.operations), (6, 6));
    }
    for (run, phase) in results.runs.iter().zip(phases(&results, "ingest")) {
        assert_eq!(phase.verified, 2, "{}: readings and meters are counted", run.target);
        assert!(phase.driven.operations > 0 && phase.disk_bytes > 0 && phase.driven.latency.p50_us > 0.0);
        assert!(phase.metered.client.processor_s > 0.0, "{}", run.target);
        let is_served = !["fleetdb", "fleetdb-api", "sqlite"].contains(&run.target.as_str());
        assert_eq!(phase.metered.server.peak_bytes > 0, is_served);
        assert_eq!(run.idle.as_ref().unwrap().server.resident_bytes > 0, is_served);
    }
}

#[test]
fn several_numbers_of_connections_have_a_phase_each() {
    let size = ["--meters", "4", "--hours", "750", "--connections", "1,3", "--seconds", "1"];
    let mut targets = vec!["fleetdb-wire", "fleetdb-partial", "fleetdb-partial-t2"];
    let mariadb = fleetdb_bench_targets::named("mariadb-transactions").unwrap();
    match mariadb.lacking() {
        Some(missing) => println!("skipped: {}: {missing}", mariadb.name),
        None => targets.push(mariadb.name),
    }
    let results = run("billing", &[&["--targets", &targets.join(",")], &size[..]].concat());
    assert_eq!(results.phases(), ["ingest, connections: 1", "ingest, connections: 3", "bill"]);
    for phase in phases(&results, "ingest, connections: 1") {
        assert!(phase.driven.operations > 0);
    }
    // Every meter of both phases is there once, with all its readings.
    assert!(phases(&results, "ingest, connections: 3").iter().all(|phase| phase.verified == 2));
    assert!(phases(&results, "bill").iter().all(|phase| phase.verified == 8));
}

#[test]
fn a_floor_takes_writes_and_is_no_database() {
    let targets = ["--targets", "fleetdb-wire,floor-bytes,floor-log"];
    let size = ["--meters", "2", "--hours", "750", "--connections", "2", "--seconds", "1"];
    let billing = run("billing", &[targets.as_slice(), &size].concat());
    let size = ["--rows", "3000", "--hosts", "100", "--asked", "1", "--rate-seconds", "1"];
    let edge = run("edge", &[targets.as_slice(), &size].concat());
    let size = ["--records", "400", "--connections", "2", "--reads", "4", "--rate-seconds", "1"];
    let scale = run("scale", &[targets.as_slice(), &size].concat());
    let acquisition = run("acquisition", &[targets.as_slice(), &["--seconds", "1"]].concat());
    for (results, writes, asked) in [
        (billing, "ingest", "bill"),
        (edge, "ingest", "COUNT"),
        (scale, "write", "read"),
        (acquisition, "single", "a datapoint by its time"),
    ] {
        for (target, tier) in [("floor-bytes", Tier::T0), ("floor-log", Tier::T3)] {
            assert!(results.is_floor(target) && results.info(target).unwrap().tier == tier);
            let phase = results.valid(target, writes)[0];
            assert!(phase.driven.operations > 0 && phase.verified == 0, "{target}");
            // The log of a floor does not grow, and E4 counts what a phase adds.
            assert_eq!(phase.disk_bytes > 0, tier == Tier::T3 && writes != "single");
            assert!(results.valid(target, asked).is_empty());
            assert!(results.repetitions(target, asked)[0].lacking.is_some());
        }
        assert!(!results.is_floor("fleetdb-wire") && results.valid("fleetdb-wire", asked)[0].verified > 0);
        let report = report::markdown(&results);
        assert!(report.lines().any(|line| line.starts_with("| floor-log | T3") && line.ends_with("| floor |")));
        assert!(!report.contains("## Leaders"), "FleetDB is the only database:\n{report}");
    }
}

#[test]
fn what_warms_up_is_written_and_not_measured() {
    // Without syncs everything is done long before the time ends, and a hundred operations within a
    // tenth of it.
    let size = ["--meters", "2", "--hours", "750", "--connections", "2", "--seconds", "20"];
    let results = run("billing", &[&["--targets", "sqlite", "--profile", "published"], &size[..]].concat());
    let ingest = phases(&results, "ingest")[0];
    assert_eq!((ingest.driven.operations, ingest.verified), (2 * (750 - 100), 2));
}

#[test]
fn every_target_answers_the_seven_queries_right() {
    let arguments = ["--hosts", "100", "--asked", "3", "--rate-seconds", "1"];
    for results in run_with_fewer_for_ferretdb("edge", "20000", "1000", &arguments) {
        let queries: Vec<&str> = results.phases().into_iter().filter(|name| name.to_uppercase() == *name).collect();
        assert_eq!(queries.len(), 7);
        for query in queries {
            for phase in phases(&results, query) {
                assert_eq!(phase.verified, 3, "{query}");
            }
        }
        assert!(phases(&results, "43,000 rows/s while asked").iter().all(|phase| phase.verified == 1));
        assert!(phases(&results, "FIVE_MINUTE_1 while written").iter().all(|phase| phase.verified > 0));
    }
}

#[test]
fn lines_and_the_lean_client_give_the_same_rows() {
    let arguments = ["--rows", "20000", "--hosts", "100", "--asked", "3", "--rate-seconds", "1"];
    let results = run("edge", &[&["--targets", "fleetdb-lines,fleetdb-wire"], arguments.as_slice()].concat());
    for query in ["FIVE_MINUTE_1", "COUNT", "CPU_MAX_ALL_8", "SINGLE_GROUP_BY_1_1_1", "LAST_POINT_ALL"] {
        let phases = phases(&results, query);
        assert!(phases.len() == 2 && phases.iter().all(|phase| phase.verified == 3), "{query}");
    }
}

#[test]
fn the_edge_profile_is_measured_when_it_is_named() {
    let arguments = ["--rows", "20000", "--hosts", "100", "--asked", "2", "--rate-seconds", "1"];
    let results = run("edge", &[&["--targets", "fleetdb-edge,sqlite"], arguments.as_slice()].concat());
    assert_eq!(results.targets(), ["fleetdb-edge", "sqlite"]);
    let settings = &results.info("fleetdb-edge").unwrap().settings;
    assert!(settings.contains(&"memory_limit = 33554432".to_owned()), "{settings:?}");
    let ingest = results.valid("fleetdb-edge", "ingest")[0];
    let metered = &ingest.metered;
    assert!(metered.client_median_bytes() > 0.0 && metered.client.peak_bytes > 0 && metered.written_bytes() > 0);
    assert!(metered.client.peak_bytes as f64 >= metered.client_median_bytes());
    assert!(phases(&results, "LAST_POINT_ALL").iter().all(|phase| phase.verified == 2));
}

#[test]
fn the_container_api_answers_what_it_has_calls_for() {
    let sizes = ["--meters", "4", "--hours", "750", "--connections", "2", "--seconds", "1"];
    let results = run("billing", &[&["--targets", "fleetdb-api"], &sizes[..]].concat());
    assert_eq!(phases(&results, "bill")[0].verified, 4);
    let sizes = ["--rows", "20000", "--hosts", "100", "--asked", "3", "--rate-seconds", "1"];
    let results = run("edge", &[&["--targets", "fleetdb-api"], &sizes[..]].concat());
    for query in ["FIVE_MINUTE_1", "COUNT", "LAST_POINT_ALL", "LAST_POINT_ONE"] {
        assert_eq!(phases(&results, query)[0].verified, 3, "{query}");
    }
    let lacking = results.runs[0].phases.iter().filter(|phase| phase.lacking.is_some());
    let lacking: Vec<&str> = lacking.map(|phase| phase.name.as_str()).collect();
    assert_eq!(lacking, ["CPU_MAX_ALL_1", "CPU_MAX_ALL_8", "SINGLE_GROUP_BY_1_1_1"]);
}

#[test]
fn everyday_statements_have_the_same_answers_everywhere() {
    let sizes = ["--meters", "30", "--connections", "2", "--milliseconds", "20"];
    let results = run("statements", &sizes);
    let takes = ["fleetdb", "fleetdb-server", "sqlite", "mariadb", "postgres"];
    for form in fleetdb_bench_core::forms::FORMS {
        for name in ["", ", 2 connections", ", unprepared"].map(|way| format!("{}{way}", form.name)) {
            let measured = phases(&results, &name);
            assert!(measured.iter().all(|phase| phase.driven.operations > 0), "{name}");
            let targets = results.runs.iter().filter(|run| takes.contains(&run.target.as_str()));
            assert_eq!(measured.len(), targets.count(), "{name}");
        }
    }
}

/// Enough epochs of trucks for long drives and for fuel that runs low.
const TRUCK_ROWS: &str = "200000";

#[test]
fn the_queries_of_tsbs_are_answered_right() {
    let targets = ["fleetdb", "fleetdb-server", "sqlite", "duckdb", "mariadb", "postgres"];
    let all = fleetdb_bench_targets::all().into_iter().filter(|entry| entry.lacking().is_none());
    let targets: Vec<&str> = all.map(|entry| entry.name).filter(|name| targets.contains(name)).collect();
    let sizes = ["--rows", "20000", "--hosts", "40", "--truck-rows", TRUCK_ROWS, "--asked", "4"];
    let results = run("tsbs", &[&["--targets", &targets.join(",")], &sizes[..]].concat());
    let queries: Vec<&str> = results.phases().into_iter().filter(|name| !name.starts_with("ingest")).collect();
    assert_eq!(queries.len(), 25);
    for query in queries {
        let asked = phases(&results, query);
        assert_eq!(asked.len(), targets.len(), "{query}");
        assert!(asked.iter().all(|phase| phase.verified == 4), "{query}");
        // No truck drives for ten hours in so little time, few stand still, and few hosts are busy.
        let may_be_empty = ["long-daily-sessions", "stationary-trucks", "high-cpu-1"].contains(&query);
        assert!(may_be_empty || asked.iter().all(|phase| phase.driven.rows > 0), "{query} has no rows");
    }
    assert!(phases(&results, "ingest, hosts").iter().all(|phase| phase.verified == 1));
    assert!(phases(&results, "ingest, trucks").iter().all(|phase| phase.verified == 2));
}

#[test]
fn every_target_answers_right_when_rows_come_late_and_twice() {
    for results in run_with_fewer_for_ferretdb("edge", "20000", "1000", &["--hosts", "100", "--asked", "2", "--late"]) {
        let written = |phase: &Phase| phase.verified == 1 && !phase.driven.rows.is_multiple_of(1_000);
        assert!(phases(&results, "ingest").into_iter().all(written));
        assert!(phases(&results, "LAST_POINT_ONE").iter().all(|phase| phase.verified == 2));
    }
}

#[test]
fn every_target_keeps_what_it_acknowledged_when_it_is_killed() {
    let results = run("durability", &["--seconds", "1", "--connections", "2"]);
    for phase in phases(&results, "write until killed") {
        assert!(phase.verified > 0 && phase.lost == Some(0), "{phase:?}");
    }
}

#[test]
fn the_published_settings_are_less_durable_and_give_the_same_answers() {
    let arguments = ["--rows", "20000", "--hosts", "100", "--asked", "2", "--rate-seconds", "1"];
    let targets = ["--profile", "published", "--targets", "fleetdb,fleetdb-server,sqlite"];
    let results = run("edge", &[targets.as_slice(), &arguments].concat());
    let tiers: Vec<Tier> = results.runs.iter().map(|run| run.info.as_ref().unwrap().tier).collect();
    assert_eq!(tiers, [Tier::T1, Tier::T1, Tier::T0]);
    assert!(phases(&results, "CPU_MAX_ALL_8").iter().all(|phase| phase.verified == 2));
}

#[test]
fn every_target_gives_back_datapoints_written_as_they_were_published() {
    let results = run("acquisition", &["--profile", "published", "--rate", "100", "--seconds", "2"]);
    for run in &results.runs {
        // Over UDP nothing is acknowledged, and a document for a second does not fit into a
        // datagram.
        let is_udp = run.target == "influxdb";
        assert_eq!(run.info.as_ref().unwrap().tier == Tier::T0, is_udp || run.target == "sqlite");
        let phase = |name: &str| run.phases.iter().find(|phase| phase.name == name).unwrap();
        assert_eq!(phase("bulk").lacking.is_some(), is_udp, "{}", run.target);
        assert_eq!(phase("everything read back").verified, 2 - usize::from(is_udp), "{}", run.target);
        assert!(phase("a datapoint by its time").verified >= 100, "{}", run.target);
    }
}

#[test]
fn every_target_takes_a_users_own_rows() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let csv = (0..600).map(|row| {
        // Devices report in turn, one of them has a name that needs quoting, and some values are
        // missing.
        let device = ["pump 1", "it's, \"valve\"", "c=3"][row % 3].replace('"', "\"\"");
        let speed = if row % 7 == 0 { String::new() } else { format!("{}.5", row % 90) };
        format!("2026-03-01T{:02}:{:02}:00Z,\"{device}\",{speed},{row},{}\n", row / 60, row % 60, row % 2 == 0)
    });
    let csv = file("rows.csv", &("When,device,speed,Order,is on\n".to_owned() + &csv.collect::<String>()));
    let lines =
        (0..300).map(|row| format!("engine,truck=t{} rpm={}i,note=\"n {row}\" {}\n", row % 4, row * 10, 1_000 + row));
    let lines = file("rows.lp", &lines.collect::<String>());
    for (data, mapping, rows) in [
        (csv, "key = 'device'\ntime = 'When'\n", 600),
        (lines, "key = 'truck'\ntime = 'time'\ntime_unit = 's'\nmeasurement = 'engine'\n", 300),
    ] {
        let mapping = file("mapping.toml", mapping);
        let results = run("own", &["--data", &data, "--mapping", &mapping, "--asked", "4"]);
        for (ingest, last) in phases(&results, "ingest").iter().zip(phases(&results, "LAST")) {
            assert_eq!((ingest.driven.rows, ingest.verified, last.verified), (rows, 1, 4));
        }
        assert!(phases(&results, "ROWS").iter().all(|phase| phase.verified == 4));
    }
}

#[test]
fn a_year_in_fast_motion_matches_its_model() {
    let results = run("soak", &["year", "--meters", "64", "--hours", "600", "--seed", "7"]);
    assert_eq!(results.experiment, "soak-year");
    let ingest = phases(&results, "ingest")[0];
    // Four comparisons with the model, each of three meters, the rows of all, and the last meter.
    assert_eq!((ingest.driven.operations, ingest.verified), (600, 4 * 5));
    // Late rows are missing until they arrive; some rows arrive twice.
    assert!((64 * 580..64 * 620).contains(&(ingest.driven.rows as i64)) && ingest.driven.rows != 64 * 600);
    let figures = &results.runs[0].figures;
    let value = |name: &str| figures.iter().find(|figure| figure.name == name).unwrap().value;
    assert!(value("backups: linked") > 0.0 && value("restored segments") > 0.0 && value("peak memory") < 256.0);
}

#[test]
fn many_containers_are_written_and_read() {
    let results = run("soak", &["many", "--containers", "15000"]);
    let ingest = phases(&results, "ingest")[0];
    assert_eq!((ingest.driven.operations, ingest.driven.rows, ingest.verified), (20, 150_000, 4_001));
    let names: Vec<&str> = results.runs[0].figures.iter().map(|figure| figure.name.as_str()).collect();
    assert!(names.contains(&"its memory for a container") && names.contains(&"first read of a container, median"));
}

#[test]
fn bills_by_local_time_are_those_of_python() {
    let results = run("soak", &["bills", "--meters", "3"]);
    let bills = phases(&results, "bills of a month")[0];
    assert_eq!((bills.driven.operations, bills.driven.rows, bills.verified), (12, 36, 36));
    assert_eq!(results.runs[0].figures[0].at_most, Some(1_000.0));
}

#[test]
fn a_soak_test_has_no_other_targets() {
    let output = bench().args(["run", "soak", "many", "--targets", "sqlite"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("without --targets"), "{said}");
}

/// A server that is killed when the test ends.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

#[test]
fn a_server_at_a_url_is_measured_and_left_as_it_was() {
    let directory = tempfile::tempdir().unwrap();
    let mut command = bench();
    command.args(["serve-fleetdb", "--durability", "sync", "--directory"]).arg(directory.path());
    let _server = Server(command.spawn().unwrap());
    let begin = Instant::now();
    let port = loop {
        if let Ok(port) = std::fs::read_to_string(directory.path().join("port")) {
            break port;
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "the server did not start");
        std::thread::yield_now();
    };
    let url = format!("fleetdb-server=postgres://bench@127.0.0.1:{port}/fleetdb");
    let arguments = ["--records", "400", "--connections", "2", "--reads", "4", "--rate-seconds", "1"];
    // Twice: the first run must leave nothing behind that the second would find.
    for _ in 0..2 {
        let results = run("scale", &[&["--targets", "fleetdb-server", "--url", &url], arguments.as_slice()].concat());
        assert_eq!(phases(&results, "read")[0].verified, 4);
        assert_eq!(results.runs[0].info.as_ref().unwrap().settings, ["as at its URL"]);
    }
}

#[test]
fn every_target_gives_back_the_records_it_took() {
    let arguments = ["--records", "4000", "--connections", "2", "--reads", "20", "--rate-seconds", "1"];
    let results = run("scale", &arguments);
    for (write, read) in phases(&results, "write at half the rate").iter().zip(phases(&results, "read")) {
        assert_eq!((write.verified, read.verified), (1, 20));
    }
    assert!(phases(&results, "write").iter().all(|phase| phase.driven.rows == 4_000));
}

#[test]
fn every_target_keeps_up_with_a_board() {
    let results = run("acquisition", &["--seconds", "1"]);
    for way in ["single", "batched"] {
        for phase in phases(&results, way) {
            // A slow target may lose some datapoints, but those it took must be there.
            assert!(phase.lost.is_some_and(|lost| lost + phase.driven.rows == 1_000), "{way}: {phase:?}");
        }
    }
    for phase in phases(&results, "everything read back") {
        assert_eq!(phase.verified, 2);
    }
}

fn processes_in(directory: &Path) -> Vec<String> {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = all.filter_map(|entry| std::fs::read_to_string(entry.path().join("cmdline")).ok());
    lines.filter(|line| line.contains(directory.to_str().unwrap())).collect()
}

#[test]
fn what_is_broken_off_is_marked_and_leaves_nothing_running() {
    // Like Ctrl-C in a terminal: to the whole process group.
    break_off(|id| ["-INT".to_owned(), format!("-{id}")]);
    // Like a service manager: only to the process it started.
    break_off(|id| ["-TERM".to_owned(), id.to_string()]);
}

fn break_off(signal: impl Fn(u32) -> [String; 2]) {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("out");
    let mut command = bench();
    command.args(["run", "billing", "--targets", "fleetdb-server", "--seconds", "60", "--meters", "1000000"]);
    command.arg("--directory").arg(directory.path()).arg("--out").arg(&out);
    let mut child = command.process_group(0).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let begin = Instant::now();
    let wal = |path: &Path| std::fs::read_dir(path).is_ok_and(|mut files| files.next().is_some());
    let is_writing = |path: &Path| {
        // fleetdb-bench-A/fleetdb-bench-B/data/wal
        let below = |path: &Path| std::fs::read_dir(path).ok().and_then(|mut all| Some(all.next()?.ok()?.path()));
        below(path).and_then(|run| below(&run)).is_some_and(|run| wal(&run.join("data/wal")))
    };
    while !is_writing(directory.path()) {
        assert!(begin.elapsed() < Duration::from_secs(60), "the server did not start");
        std::thread::yield_now();
    }
    let [signal, whom] = signal(child.id());
    let killed = Command::new("kill").args([&signal, "--", &whom]).status().unwrap();
    assert!(killed.success());
    assert!(!child.wait().unwrap().success());
    let results = Results::read(&out.join("results.json")).unwrap();
    assert_eq!(results.runs.len(), 1);
    assert!(!results.runs[0].is_complete);
    assert_eq!(processes_in(directory.path()), Vec::<String>::new());
}
