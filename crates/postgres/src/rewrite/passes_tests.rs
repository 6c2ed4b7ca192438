use super::{COLUMNS_OF_JOINS, Marks, PASSES, Pass};
use datafusion::sql::sqlparser::ast::Statement;
use datafusion::sql::sqlparser::parser::Parser;
use fleetdb_engine::Result;
use fleetdb_statement::grammar::Grammar;
use std::path::Path;

fn parsed(text: &str) -> Vec<Statement> {
    Parser::parse_sql(&Grammar::of(text), text).unwrap_or_else(|e| panic!("{text}: {e}"))
}

fn all() -> impl Iterator<Item = &'static Pass> {
    [&COLUMNS_OF_JOINS].into_iter().chain(&PASSES)
}

/// A statement after all passes, or after all but one.
fn rewritten(text: &str, without: Option<&str>) -> Result<Statement> {
    let (marks, mut statement) = (Marks::of(text), parsed(text).remove(0));
    let mut passes = all().filter(|pass| marks.call_for(pass) && Some(pass.name) != without);
    let done = passes.try_for_each(|pass| (pass.run)(&mut statement));
    done.map(|()| statement)
}

#[test]
fn each_pass_is_needed_by_its_example() {
    for pass in all() {
        assert!(!pass.obsolete_when.is_empty());
        let (with, without) = (rewritten(pass.example, None), rewritten(pass.example, Some(pass.name)));
        let differ = match (&with, &without) {
            (Ok(with), Ok(without)) => with != without,
            (Err(_), Ok(_)) => true,
            _ => false,
        };
        assert!(differ, "{}: {with:?} is {without:?}", pass.name);
    }
}

/// The statements that a real PostgreSQL answers as well.
fn statements() -> Vec<String> {
    let crate_root = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it");
    let root = Path::new(&crate_root).join("../../tests/postgres");
    let files = ["same.sql", "zones.sql", "mixed_times.sql"];
    let texts = files.map(|file| std::fs::read_to_string(root.join(file)).unwrap());
    let all = texts.iter().flat_map(|text| text.split(";\n")).map(str::trim);
    all.filter(|text| Parser::parse_sql(&Grammar::of(text), text).is_ok_and(|all| all.len() == 1))
        .map(str::to_owned)
        .collect()
}

#[test]
fn a_pass_changes_nothing_the_second_time() {
    let statements = statements();
    assert!(statements.len() > 500, "{}", statements.len());
    let mut changed = Vec::new();
    for text in statements.iter().map(String::as_str).chain(all().map(|pass| pass.example)) {
        let (marks, mut statement) = (Marks::of(text), parsed(text).remove(0));
        for pass in all().filter(|pass| marks.call_for(pass)) {
            if (pass.run)(&mut statement).is_err() {
                break;
            }
            let once = statement.clone();
            if (pass.run)(&mut statement).is_err() || statement != once {
                changed.push(format!("{}: {text}\n  once:  {once}\n  twice: {statement}", pass.name));
                statement = once;
            }
        }
    }
    assert!(changed.is_empty(), "{}", changed.join("\n"));
}
