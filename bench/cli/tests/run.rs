//! The suite as a person runs it: each experiment at a tiny size against every target that can start here, all answers
//! verified; what Ctrl-C leaves.
#![allow(clippy::unwrap_used, reason = "a test")]

use fleetdb_bench_core::results::{Phase, Results};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn bench() -> Command {
    Command::new(env!("CARGO_BIN_EXE_fleetdb-bench"))
}

/// Runs an experiment once; every target must be complete, and every phase verified.
fn run(experiment: &str, arguments: &[&str]) -> Results {
    let directory = tempfile::tempdir().unwrap();
    for entry in fleetdb_bench_targets::all() {
        if let Some(missing) = (entry.missing)() {
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
        assert_eq!(phase.metered.server.peak_bytes > 0, !["fleetdb", "sqlite"].contains(&run.target.as_str()));
    }
}

#[test]
fn every_target_answers_the_seven_queries_right() {
    let results = run("edge", &["--rows", "20000", "--hosts", "100", "--asked", "3", "--rate-seconds", "1"]);
    let queries: Vec<&str> = results.phases().into_iter().filter(|name| name.to_uppercase() == *name).collect();
    assert_eq!(queries.len(), 7);
    for query in queries {
        for phase in phases(&results, query) {
            assert_eq!(phase.verified, 3, "{query}");
        }
    }
    assert!(phases(&results, "43,000 rows/s").iter().all(|phase| phase.verified == 1));
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
            // A slow target loses some, and what it has taken is there.
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
    // As a terminal's Ctrl-C: to the whole group.
    let killed = Command::new("kill").args(["-INT", "--", &format!("-{}", child.id())]).status().unwrap();
    assert!(killed.success());
    assert!(!child.wait().unwrap().success());
    let results = Results::read(&out.join("results.json")).unwrap();
    assert_eq!(results.runs.len(), 1);
    assert!(!results.runs[0].is_complete);
    assert_eq!(processes_in(directory.path()), Vec::<String>::new());
}
