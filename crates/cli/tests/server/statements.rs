//! Answers to wrong statements. `tests/wrong/statements.txt` has the statements with their complete
//! answers, and PostgreSQL's answer where its code differs. FLEETDB_BLESS=1 writes the current
//! answers.

use crate::answers::{Postgres, connect};
use crate::process::Server;
use std::path::{Path, PathBuf};
use tokio_postgres::Client;
use tokio_postgres::error::ErrorPosition;

/// The prefix of an answer's lines.
const ANSWER: &str = "| ";
/// The prefix of the line with PostgreSQL's answer.
const THEIRS: &str = "| PostgreSQL ";

/// Names of libraries and of internal types, which users need not know.
const INSIDE: [&str; 46] = [
    "ast node",
    "Arrow",
    "arrow",
    "AST",
    "Binary,",
    "BinaryExpr",
    "Boolean",
    "Candidate functions",
    "coerc",
    "CreateView",
    "DataFusion",
    "DataType",
    "Date32",
    "Ddl",
    "Decimal128",
    "Decimal256",
    "Did you mean",
    "Duration(",
    "Error during planning",
    "Execution error",
    "Expr",
    "External error",
    "Field ",
    "Float32",
    "Float64",
    "fleetdb.public",
    "Int16",
    "Int32",
    "Int64",
    "Int8",
    "Internal error",
    "Interval(",
    "Line: ",
    "List(",
    "LogicalPlan",
    "Optimizer",
    "optimizer",
    "physical",
    "Physical",
    "Schema error",
    "sqlparser",
    "Time64",
    "Timestamp(",
    "type_coercion",
    "Unsupported",
    "Utf8",
];

fn file() -> PathBuf {
    Path::new(&std::env::var_os("CARGO_MANIFEST_DIR").unwrap()).join("../../tests/wrong/statements.txt")
}

/// An answer as psql shows it, with a prefix on each line.
async fn answer(client: &Client, statement: &str) -> (Option<String>, String) {
    let error = match client.simple_query(statement).await {
        Ok(_) => return (None, format!("{ANSWER}ok")),
        Err(error) => error,
    };
    let Some(said) = error.as_db_error() else { panic!("{statement}: {error}") };
    let mut lines = vec![format!("{} {}: {}", said.severity(), said.code().code(), said.message())];
    if let Some(ErrorPosition::Original(position)) = said.position() {
        lines.extend(marked(statement, *position as usize));
    }
    for (name, text) in [("DETAIL", said.detail()), ("HINT", said.hint())] {
        lines.extend(text.map(|text| format!("{name}: {text}")));
    }
    let lines = lines.join("\n").lines().map(|line| format!("{ANSWER}{line}")).collect::<Vec<_>>();
    (Some(said.code().code().to_owned()), lines.join("\n"))
}

/// The line that contains a position, and a line with a mark below it.
fn marked(text: &str, position: usize) -> [String; 2] {
    let before: String = text.chars().take(position.saturating_sub(1)).collect();
    let number = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count();
    let head = format!("LINE {number}: ");
    let mark = format!("{}^", " ".repeat(head.len() + column));
    [format!("{head}{}", text.lines().nth(number - 1).unwrap_or_default()), mark]
}

/// PostgreSQL's answer, as one line.
async fn theirs(client: &Client, statement: &str, is_in_order: bool) -> (Option<String>, String) {
    if !is_in_order {
        client.simple_query("BEGIN").await.unwrap();
    }
    let (code, said) = answer(client, statement).await;
    if !is_in_order {
        client.simple_query("ROLLBACK").await.unwrap();
    }
    let said = said.lines().next().unwrap_or_default().trim_start_matches(ANSWER).to_owned();
    (code, format!("{THEIRS}{}", said.trim_start_matches("ERROR ")))
}

#[test]
fn wrong_statements_are_answered_in_words_of_sql() {
    let directory = tempfile::tempdir().unwrap();
    let postgres = Postgres::start(directory.path());
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), &[]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let before = std::fs::read_to_string(file()).unwrap();
    let after = runtime.block_on(async {
        let ours = connect(server.port("postgres")).await;
        let other = match &postgres {
            Some(postgres) => Some(connect(&postgres.port.to_string()).await),
            None => None,
        };
        let (mut after, mut is_in_order) = (Vec::new(), false);
        for paragraph in before.trim_end().split("\n\n") {
            if paragraph.starts_with('#') {
                is_in_order = paragraph.contains("(in order)");
                after.push(paragraph.to_owned());
                continue;
            }
            let (statement, written): (Vec<_>, Vec<_>) =
                paragraph.lines().partition(|line| !line.starts_with(ANSWER.trim_end()));
            let statement = statement.join("\n");
            let (code, answer) = answer(&ours, &statement).await;
            let theirs = match &other {
                Some(client) => {
                    let (their_code, said) = theirs(client, &statement, is_in_order).await;
                    (code != their_code).then_some(said)
                }
                // Without PostgreSQL, the file's line is kept.
                None => written.iter().find(|line| line.starts_with(THEIRS)).map(|&line| line.to_owned()),
            };
            after.push([Some(statement), Some(answer), theirs].into_iter().flatten().collect::<Vec<_>>().join("\n"));
        }
        after
    });
    assert!(server.terminate());
    let inside: Vec<_> = after.iter().filter(|paragraph| speaks_from_inside(paragraph)).collect();
    let text = after.join("\n\n") + "\n";
    if std::env::var_os("FLEETDB_BLESS").is_some() {
        std::fs::write(file(), &text).unwrap();
    } else {
        let differ: Vec<_> = after.iter().filter(|paragraph| !before.contains(paragraph.as_str())).collect();
        assert!(differ.is_empty(), "answers that are not in {}: {differ:#?}", file().display());
        assert!(text == before, "{} has statements in another form", file().display());
    }
    assert!(inside.is_empty(), "{} answers speak of what is inside: {inside:#?}", inside.len());
}

/// Whether FleetDB's answer contains an internal word that the statement does not contain.
fn speaks_from_inside(paragraph: &str) -> bool {
    let (answer, statement): (Vec<_>, Vec<_>) = paragraph.lines().partition(|line| line.starts_with(ANSWER));
    let statement = statement.join("\n");
    let answer = answer.into_iter().filter(|line| !line.starts_with(THEIRS)).collect::<Vec<_>>().join("\n");
    !paragraph.starts_with('#') && INSIDE.iter().any(|word| answer.contains(word) && !statement.contains(word))
}
