//! House rules as tests: import order, file length, banned words, links in documents.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test that reads the sources")]

mod dependencies;
mod imports;

use std::path::{Path, PathBuf};

/// The engine's modules from the bottom up. A module imports only from its own row and the rows
/// above it.
const ORDER: [&[&str]; 15] = [
    &["ids", "error", "settings", "sums"],
    &["io", "memory", "shipping", "sharing"],
    &["decimal", "column_type", "check", "constraints", "schema", "defining", "key", "lane", "pool", "array", "column"],
    &["write"],
    &["wal", "memtable", "segment", "manifest", "deletes"],
    &["flush", "scan", "compaction"],
    &["catalog"],
    &["state", "status"],
    &["recovery", "listing"],
    &["flusher", "compactor"],
    &["backpressure"],
    &["commit"],
    &["db"],
    &["checkpoint", "log_copy"],
    &[
        "alter",
        "update",
        "delete_rows",
        "backup",
        "reader",
        "inspect",
        "line_protocol",
        "handle",
        "numbers",
        "stored_queries",
    ],
];
/// Maximum lines of a file. A ratchet: it only gets smaller.
const MAX_LINES: usize = 750;
/// Words that the project does not use; CONTRIBUTING.md lists those that it does.
const BANNED: [&str; 3] = ["snapshot", "region of", "shard"];

/// Read at run time: a test binary from a shared cache may have been built in another checkout.
fn root() -> PathBuf {
    Path::new(&std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("../..")
}

fn files(directory: &Path, ending: &str, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() && !name.starts_with('.') && name != "target" {
            files(&path, ending, found);
        } else if name.ends_with(ending) {
            found.push(path);
        }
    }
}

fn rank(module: &str) -> Option<usize> {
    ORDER.iter().position(|row| row.contains(&module))
}

#[test]
fn modules_import_only_what_stands_below_them() {
    let source = root().join("crates/engine/src");
    let mut found = Vec::new();
    files(&source, ".rs", &mut found);
    let mut wrong = Vec::new();
    for file in found {
        let relative = file.strip_prefix(&source).unwrap().to_str().unwrap().to_owned();
        let module = relative.split(['/', '.']).next().unwrap().to_owned();
        if module == "lib" || relative.ends_with("_tests.rs") {
            continue;
        }
        let Some(own) = rank(&module) else { panic!("{relative}: give module {module} a place in ORDER") };
        let text = std::fs::read_to_string(&file).unwrap();
        for line in text.lines().filter(|line| !line.trim_start().starts_with("//")) {
            for import in line.split("crate::").skip(1) {
                let imported: String = import.chars().take_while(|c| c.is_ascii_lowercase() || *c == '_').collect();
                if rank(&imported).is_some_and(|rank| rank > own) {
                    wrong.push(format!("{relative} imports {imported}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn files_are_short_and_use_the_words() {
    let mut found = Vec::new();
    files(&root(), ".rs", &mut found);
    assert!(found.len() > 30);
    let mut wrong = Vec::new();
    for file in found {
        let text = std::fs::read_to_string(&file).unwrap();
        let lines = text.lines().count();
        if lines > MAX_LINES {
            wrong.push(format!("{} has {lines} lines, the most is {MAX_LINES}", file.display()));
        }
        if !text.starts_with("//!") && !file.to_str().unwrap().ends_with("_tests.rs") {
            wrong.push(format!("{} does not begin with what it owns", file.display()));
        }
        if !file.ends_with("house/main.rs") {
            for word in BANNED.into_iter().filter(|word| text.to_lowercase().contains(word)) {
                wrong.push(format!("{} says '{word}'", file.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn links_in_documents_lead_somewhere() {
    let mut found = Vec::new();
    files(&root(), ".md", &mut found);
    assert!(found.len() >= 6);
    for file in found {
        let text = std::fs::read_to_string(&file).unwrap();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let path = link.split('#').next().unwrap();
            if !path.is_empty() && !path.contains("://") {
                assert!(file.parent().unwrap().join(path).exists(), "{}: {link}", file.display());
            }
        }
    }
}

/// The only file that may, because some libraries give errors only as text.
const READS_MESSAGES: &str = "crates/functions/src/errors/";

#[test]
fn nobody_asks_a_message_what_it_contains() {
    let mut found = Vec::new();
    for part in ["crates", "bench"] {
        files(&root().join(part), ".rs", &mut found);
    }
    let asks = ["contains", "starts_with", "ends_with", "find", "split_once", "rsplit_once", "strip_prefix"];
    let texts = [
        "error.to_string()",
        "(e.to_string()",
        " e.to_string()",
        " message",
        "(message",
        "error.message()",
        "info.message",
    ];
    let asked: Vec<String> =
        texts.iter().flat_map(|text| asks.iter().map(move |ask| format!("{text}.{ask}("))).collect();
    let is_ours = |file: &&PathBuf| {
        let name = file.to_str().unwrap();
        name.contains("/src/") && !name.ends_with("_tests.rs") && !name.contains(READS_MESSAGES)
    };
    let mut wrong = Vec::new();
    for file in found.iter().filter(is_ours) {
        for line in std::fs::read_to_string(file).unwrap().lines().filter(|line| !line.trim_start().starts_with("//")) {
            if asked.iter().any(|asked| line.contains(asked.as_str())) {
                wrong.push(format!("{}: {}", file.display(), line.trim()));
            }
        }
    }
    assert!(wrong.is_empty(), "match on the error's code: {wrong:#?}");
}

#[test]
fn every_member_of_the_workspace_keeps_its_assertions() {
    let manifest = std::fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let daily = std::fs::read_to_string(root().join(".cargo/daily.toml")).unwrap();
    let mut found = Vec::new();
    for part in ["crates", "bench"] {
        files(&root().join(part), "Cargo.toml", &mut found);
    }
    assert!(found.len() >= 8);
    for file in found {
        let text = std::fs::read_to_string(&file).unwrap();
        let name = text.lines().find_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"')).unwrap();
        assert!(daily.contains(&format!("\n{name} = {{")), ".cargo/daily.toml lacks {name}");
        let section = manifest.split(&format!("[profile.dev.package.{name}]")).nth(1);
        let section = section.unwrap_or_else(|| panic!("Cargo.toml has no [profile.dev.package.{name}]"));
        let section = section.split("\n[").next().unwrap();
        for line in ["debug-assertions = true", "overflow-checks = true"] {
            assert!(section.contains(line), "[profile.dev.package.{name}] lacks {line}");
        }
    }
}

/// The most lines that a crate's source may have without tests. A crate that outgrows its number has
/// found a part that deserves a crate of its own.
const MAX_CRATE_LINES: [(&str, usize); 9] = [
    ("functions", 8_000),
    ("json", 4_000),
    ("statement", 4_000),
    ("direct", 3_000),
    ("plan", 8_000),
    ("kept-plans", 1_500),
    ("query", 10_000),
    ("pg-catalog", 4_000),
    ("postgres", 7_500),
];

#[test]
fn the_crates_of_sql_stay_of_a_size() {
    for (name, most) in MAX_CRATE_LINES {
        let mut found = Vec::new();
        files(&root().join("crates").join(name).join("src"), ".rs", &mut found);
        let sources = found.iter().filter(|file| !file.to_str().unwrap().ends_with("_tests.rs"));
        let lines: usize = sources.map(|file| std::fs::read_to_string(file).unwrap().lines().count()).sum();
        assert!((most / 2..=most).contains(&lines), "crates/{name} has {lines} lines; the most is {most}");
    }
}
