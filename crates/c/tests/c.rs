//! Compiles C programs against the library and runs them: the example, and one that uses every function.
//! Each runs plainly, with AddressSanitizer, and under valgrind.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use common::{put_library, root, said};
use std::path::Path;
use std::process::Command;

const WARNINGS: [&str; 4] = ["-std=c11", "-Wall", "-Wextra", "-Werror"];

fn compiles(source: &Path, folder: &Path, options: &[&str], program: &Path) {
    let mut compiler = Command::new("cc");
    compiler.args(WARNINGS).args(options).arg(source).arg("-o").arg(program);
    compiler.arg("-I").arg(root().join("include")).arg("-L").arg(folder).args(["-lfleetdb", "-lpthread"]);
    let output = compiler.arg(format!("-Wl,-rpath,{}", folder.display())).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
}

fn is_there(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// Runs a program plainly, with AddressSanitizer and under valgrind; gives what it said plainly. `arguments`
/// are those behind its directory.
fn runs_everywhere(source: &Path, arguments: &[&str]) -> Option<String> {
    if !is_there("cc") {
        println!("skipped: cc is not installed (Debian: apt-get install gcc libc6-dev)");
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    put_library(folder.path());
    let (plain, checked) = (folder.path().join("plain"), folder.path().join("checked"));
    let run = |command: &mut Command, data: &str| {
        let output = command.arg(folder.path().join(data)).args(arguments).output().unwrap();
        assert!(output.status.success(), "{data}: {}", said(&output));
        said(&output)
    };
    compiles(source, folder.path(), &["-g"], &plain);
    let plainly = run(&mut Command::new(&plain), "data");
    compiles(source, folder.path(), &["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"], &checked);
    // Valgrind looks for leaks.
    run(Command::new(&checked).env("ASAN_OPTIONS", "detect_leaks=0"), "data-checked");
    if is_there("valgrind") {
        let mut valgrind = Command::new("valgrind");
        valgrind.args(["--quiet", "--error-exitcode=9", "--leak-check=full", "--errors-for-leak-kinds=definite"]);
        run(valgrind.arg(&plain), "data-valgrind");
    } else {
        println!("skipped: valgrind is not installed (Debian: apt-get install valgrind)");
    }
    Some(plainly)
}

#[test]
fn every_function_does_what_the_header_says() {
    if let Some(said) = runs_everywhere(&root().join("tests/program.c"), &[]) {
        assert!(said.contains("all is well"), "{said}");
    }
}

#[test]
fn the_example_builds_with_one_line_and_samples() {
    let source = root().join("../../examples/c/sampler.c");
    let text = std::fs::read_to_string(&source).unwrap();
    assert!(text.contains("cc sampler.c -lfleetdb -o sampler"), "the line that builds it");
    if let Some(said) = runs_everywhere(&source, &["1000"]) {
        assert!(said.contains("newest celsius: 29.9\n1000 samples, 20.0 to 29.9, mean 24.950\n"), "{said}");
    }
}
