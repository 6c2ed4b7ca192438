//! Which files import each other, directly or indirectly. Only in the server some do.

use super::{files, root};
use std::collections::{BTreeMap, BTreeSet};

/// The files that import each other today, by crate. A ratchet: a file that no longer does is
/// removed from the list, and none may be added.
const CIRCLES: [(&str, &[&str]); 13] = [
    ("engine", &[]),
    ("functions", &[]),
    ("json", &[]),
    ("statement", &[]),
    ("direct", &[]),
    ("plan", &[]),
    ("kept-plans", &[]),
    ("query", &[]),
    ("pg-catalog", &[]),
    ("postgres", &[]),
    ("server", &SERVER),
    ("python", &[]),
    ("c", &[]),
];
const SERVER: [&str; 11] = [
    "http",
    "line_sockets",
    "lines",
    "log",
    "options",
    "postgres",
    "postgres::connection",
    "postgres::copy_in",
    "postgres::cursors",
    "postgres::wire",
    "server",
];

/// The paths in a `use` or in a path in the code: `a::{b, c::d}` gives `a::b` and `a::c::d`.
fn expand(prefix: &str, text: &str, found: &mut Vec<String>) {
    let Some((before, rest)) = text.split_once('{') else {
        let path = text.split(" as ").next().unwrap_or_default();
        found.push(format!("{prefix}{}", path.trim()));
        return;
    };
    let (prefix, inner) = (format!("{prefix}{}", before.trim()), &rest[..rest.rfind('}').unwrap_or(rest.len())]);
    let (mut depth, mut start) = (0, 0);
    for (at, letter) in inner.char_indices().chain([(inner.len(), ',')]) {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                if !inner[start..at].trim().is_empty() {
                    expand(&prefix, &inner[start..at], found);
                }
                start = at + 1;
            }
            _ => {}
        }
    }
}

/// The paths within the crate that a file names, in a `use` or in the code.
fn paths(source: &str) -> Vec<String> {
    let code: Vec<&str> = source.lines().map(|line| line.split("//").next().unwrap_or_default()).collect();
    let code = code.join("\n");
    let mut found = Vec::new();
    for start in ["crate::", "super::"] {
        for (at, _) in code.match_indices(start) {
            let is_inside =
                code[..at].ends_with(|before: char| before.is_alphanumeric() || before == ':' || before == '_');
            let is_use = code[..at].trim_end().ends_with("use");
            let rest = &code[at..];
            let end = if is_use {
                rest.find(';')
            } else {
                rest.find(|letter: char| !letter.is_alphanumeric() && letter != ':' && letter != '_')
            };
            if !is_inside {
                expand("", &rest[..end.unwrap_or(rest.len())], &mut found);
            }
        }
    }
    found
}

/// The module that a path refers to from within `module`: the longest prefix that is a file.
fn target(modules: &BTreeSet<String>, module: &str, path: &str) -> Option<String> {
    let mut base: Vec<&str> = module.split("::").collect();
    let mut parts = path.split("::").map(str::trim).peekable();
    while parts.next_if_eq(&"super").is_some() {
        base.pop();
    }
    if parts.next_if_eq(&"crate").is_some() {
        base.clear();
    }
    let whole: Vec<&str> = base.into_iter().chain(parts).collect();
    (1..=whole.len()).rev().map(|len| whole[..len].join("::")).find(|name| modules.contains(name))
}

/// The modules reachable from `module` through one or more imports.
fn reached(imports: &BTreeMap<String, BTreeSet<String>>, module: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut next: Vec<&String> = imports[module].iter().collect();
    while let Some(module) = next.pop() {
        if found.insert(module.clone()) {
            next.extend(imports.get(module).into_iter().flatten());
        }
    }
    found
}

#[test]
fn no_file_imports_itself_by_way_of_others() {
    for (name, known) in CIRCLES {
        let source = root().join("crates").join(name).join("src");
        let mut sources = Vec::new();
        files(&source, ".rs", &mut sources);
        let texts: BTreeMap<String, String> = sources
            .iter()
            .filter(|file| !file.to_str().unwrap().ends_with("_tests.rs"))
            .map(|file| {
                let relative = file.strip_prefix(&source).unwrap().with_extension("");
                let module = relative.to_str().unwrap().replace('/', "::");
                let module = module.strip_suffix("::mod").unwrap_or(&module).to_owned();
                (module, std::fs::read_to_string(file).unwrap())
            })
            .filter(|(module, _)| module != "lib")
            .collect();
        let modules: BTreeSet<String> = texts.keys().cloned().collect();
        let imports: BTreeMap<String, BTreeSet<String>> = texts
            .iter()
            .map(|(module, text)| {
                let named = paths(text).into_iter().filter_map(|path| target(&modules, module, &path));
                (module.clone(), named.filter(|named| named != module).collect())
            })
            .collect();
        assert!(imports.values().map(BTreeSet::len).sum::<usize>() > modules.len(), "{name}: imports are not found");
        let circle = modules.iter().filter(|module| reached(&imports, module).contains(*module));
        let circle: Vec<&str> = circle.map(String::as_str).collect();
        assert_eq!(circle, known, "crates/{name}: the files that import each other; the list may only get shorter");
    }
}
