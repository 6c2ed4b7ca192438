use super::{format_of, in_known_calls};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;

fn known(expr: &str) -> String {
    let mut statement = Parser::parse_sql(&PostgreSqlDialect {}, &format!("SELECT {expr}")).unwrap().remove(0);
    in_known_calls(&mut statement);
    statement.to_string().strip_prefix("SELECT ").unwrap().to_owned()
}

#[test]
fn calls_are_written_in_known_words() {
    for (of, words) in [
        ("mod(a, mod(b, 2))", "((a) % (((b) % (2))))"),
        (
            "make_interval(days => d, mins => 5)",
            "(INTERVAL '0 seconds' + (d) * INTERVAL '1 day' + (5) * INTERVAL '1 minute')",
        ),
        ("make_interval(1, 2)", "(INTERVAL '0 seconds' + (1) * INTERVAL '1 year' + (2) * INTERVAL '1 month')"),
        ("@ -5", "abs(-5)"),
        ("s COLLATE pg_catalog.\"C\"", "(s)"),
        ("to_date(s, 'DD.MM.YYYY')", "to_date(s, '%d.%m.%Y')"),
        ("date_trunc('Milliseconds', ts)", "date_trunc('millisecond', ts)"),
        ("to_timestamp(s, 'YYYY HH24')", "to_timestamp((s) || ' 0', '%Y %H %M')"),
        ("to_timestamp(s, 'YYYY HH24:MI')", "to_timestamp(s, '%Y %H:%M')"),
    ] {
        assert_eq!(known(of), words, "{of}");
    }
}

#[test]
fn what_is_not_known_is_left_alone() {
    for of in [
        "mod(a)",
        "s.mod(a, b)",
        "make_interval(fortnights => 2)",
        "percentile_disc(0.5)",
        "s COLLATE \"de_DE\"",
        "to_timestamp(s, '%Y')",
        "to_timestamp(s, t)",
        "date_trunc('day', ts)",
    ] {
        assert_eq!(known(of), of);
    }
}

#[test]
fn templates_become_formats() {
    for (template, format) in [
        ("YYYY-MM-DD HH24:MI:SS.US", Some("%Y-%m-%d %H:%M:%S.%6f")),
        ("yyyymmdd\"T\"hh12\"100%\"pm", Some("%Y%m%dT%I100%%%p")),
        ("Mon DD, YY", Some("%b %d, %y")),
        ("%Y", None),
        ("YYYY Q", None),
        ("YYYY\"T", None),
        ("äYYYY", None),
    ] {
        assert_eq!(format_of(template).as_deref(), format, "{template}");
    }
    let joined = "to_timestamp(s, 'YYYY-' || ('MM' || '-DD'))";
    assert_eq!(known(joined), "to_timestamp(s, '%Y-%m-%d')");
}
