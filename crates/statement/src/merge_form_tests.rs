use super::does_nothing;
use crate::grammar::Grammar;
use datafusion::sql::sqlparser::ast::{MergeAction, MergeInsertKind, Statement};
use datafusion::sql::sqlparser::parser::{Parser, ParserError};

fn parsed(text: &str) -> Result<Vec<MergeAction>, ParserError> {
    let mut statements = Parser::parse_sql(&Grammar::of(text), text)?;
    let Some(Statement::Merge(merge)) = statements.pop() else { panic!("{text} is no MERGE") };
    Ok(merge.clauses.into_iter().map(|clause| clause.action).collect())
}

#[test]
fn do_nothing_and_default_values_are_told_from_the_others() {
    let actions = parsed(
        "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED AND s.v = 1 THEN DO NOTHING WHEN MATCHED THEN UPDATE SET v = 2
         WHEN NOT MATCHED AND s.v = 3 THEN DO NOTHING WHEN NOT MATCHED BY TARGET THEN INSERT DEFAULT VALUES",
    )
    .unwrap();
    assert_eq!(actions.iter().map(does_nothing).collect::<Vec<_>>(), [true, false, true, false]);
    let MergeAction::Insert(insert) = &actions[3] else { panic!("{:?}", actions[3]) };
    assert!(matches!(&insert.kind, MergeInsertKind::Values(values) if values.rows.is_empty()));
}

#[test]
fn forms_of_other_databases_are_refused() {
    let on = "MERGE INTO t USING s ON t.id = s.id";
    for wrong in [
        "MERGE t USING s ON t.id = s.id WHEN MATCHED THEN DELETE".to_owned(),
        on.to_owned(),
        format!("{on} WHEN MATCHED THEN INSERT VALUES (1)"),
        format!("{on} WHEN NOT MATCHED THEN DELETE"),
        format!("{on} WHEN NOT MATCHED THEN INSERT ROW"),
        format!("{on} WHEN NOT MATCHED THEN INSERT VALUES (1), (2)"),
        format!("{on} WHEN NOT MATCHED THEN INSERT VALUES ()"),
        format!("{on} WHEN MATCHED THEN UPDATE SET v = 1 WHERE true"),
        format!("{on} WHEN MATCHED THEN UPDATE SET"),
        format!("{on} WHEN MATCHED THEN DELETE RETURNING *"),
    ] {
        assert!(parsed(&wrong).is_err(), "{wrong}");
    }
}
