//! The list of rewriting passes, in their order.
//!
//! Searching a long INSERT for every form would be expensive. So a pass runs only if the text
//! contains its marks. A text may contain the marks without the form; then the pass changes nothing.
//! A pass that runs twice changes nothing the second time.

use super::{
    at_time_zone, calls, casts, coalesce, exists, intervals, json, lateral, latest, like, numeric, powers, quantified,
    refused, row_queries, series, substring, text_aggregates, tuples, unnest, using, writes,
};
use crate::column_names::name_derived;
use datafusion::sql::sqlparser::ast::Statement;
use fleetdb_engine::Result;
use fleetdb_statement::sequences::without_casts;
use std::collections::HashSet;
use std::sync::LazyLock;

/// What a text contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// A word that begins like this, ignoring case.
    Word(&'static str),
    /// This text.
    Text(&'static str),
    /// A comparison behind a closing parenthesis.
    ComparedParentheses,
}

/// A rewriting of one form.
#[cfg_attr(not(test), expect(dead_code, reason = "the documentation of a pass, which tests check"))]
pub(super) struct Pass {
    /// What it rewrites.
    pub(super) name: &'static str,
    /// It runs if a text has all the marks of one of these lists.
    pub(super) marks: &'static [&'static [Mark]],
    pub(super) run: fn(&mut Statement) -> Result<()>,
    /// The ability of DataFusion that makes the pass obsolete. The modules say more.
    pub(super) obsolete_when: &'static str,
    /// A statement that the pass changes.
    pub(super) example: &'static str,
}

use Mark::{ComparedParentheses, Text, Word};

const SELECT: Mark = Word("select");

/// A pass that never fails.
macro_rules! always {
    ($rewrite:expr) => {
        |statement| {
            $rewrite(statement);
            Ok(())
        }
    };
}

/// The pass that runs before the names of a query's columns are read, because it expands `*`.
pub(super) const COLUMNS_OF_JOINS: Pass = Pass {
    name: "USING columns",
    marks: &[&[Word("join")]],
    run: using::columns_by_table,
    obsolete_when: "its USING columns belong to neither table",
    example: "SELECT id, count(*) FROM meters LEFT JOIN reads USING (id) GROUP BY id",
};

/// The other passes, in order.
pub(super) const PASSES: [Pass; 28] = [
    // Before anything is rewritten, what would be answered wrongly.
    Pass {
        name: "refused forms",
        marks: &[&[SELECT]],
        run: |statement| refused::refuse(statement),
        obsolete_when: "it refuses TABLESAMPLE, and plans INTERSECT ALL and a subquery without columns",
        example: "SELECT v FROM reads TABLESAMPLE BERNOULLI (10)",
    },
    Pass {
        name: "names of derived columns",
        marks: &[&[SELECT]],
        run: always!(name_derived),
        obsolete_when: "it names columns as PostgreSQL does",
        example: "SELECT max(count) FROM (SELECT count(*) FROM reads GROUP BY id) AS counts",
    },
    Pass {
        name: "writes",
        marks: &[&[Word("update")]],
        run: always!(writes::in_planned_form),
        obsolete_when: "it plans UPDATE ... FROM and SET (a, b) = ...",
        example: "UPDATE reads SET v = 2 FROM meters m WHERE m.id = reads.id",
    },
    Pass {
        name: "names of sequences",
        marks: &[&[Word("nextval")], &[Word("setval")]],
        run: always!(without_casts),
        obsolete_when: "it casts a text to regclass",
        example: "SELECT nextval('meters_id_seq'::regclass)",
    },
    Pass {
        name: "VALUES with subqueries",
        marks: &[&[Word("values"), SELECT]],
        run: always!(row_queries::as_selects),
        obsolete_when: "it evaluates VALUES after their subqueries",
        example: "VALUES (1, (SELECT max(v) FROM reads)), (2, 0)",
    },
    // After the names of derived columns, which are those of the forms as they are written.
    Pass {
        name: "JSON",
        marks: &[&[Word("json")], &[Word("to_json")], &[Word("row_to_json")]],
        run: always!(json::as_calls),
        obsolete_when: "it has casts to JSON, aggregates of JSON, and functions that return rows",
        example: "SELECT json_agg(v ORDER BY ts) FROM reads",
    },
    Pass {
        name: "WITH before an INSERT",
        marks: &[&[Word("with"), Word("insert")]],
        run: always!(writes::with_in_query),
        obsolete_when: "it plans WITH before an INSERT",
        example: "WITH x AS (SELECT id FROM meters) INSERT INTO reads (id) SELECT id FROM x",
    },
    // After `with_in_query`, which gives an INSERT more queries.
    Pass {
        name: "VALUES in the query of an INSERT",
        marks: &[&[Word("insert"), Word("values"), SELECT]],
        run: always!(row_queries::within_inserts),
        obsolete_when: "only the rows of an INSERT take the types of its columns",
        example: "INSERT INTO reads (id, v) SELECT b, a FROM (VALUES (2.5, 3)) AS x (a, b)",
    },
    Pass {
        name: "LIKE ... ESCAPE",
        marks: &[&[Word("escape")]],
        run: like::escape_with_backslashes,
        obsolete_when: "it takes other escapes than the backslash",
        example: "SELECT id FROM meters WHERE name LIKE '50/%' ESCAPE '/'",
    },
    // After the pass for ESCAPE, which rewrites the patterns.
    Pass {
        name: "LIKE ANY",
        marks: &[&[Word("like"), Word("any")], &[Word("ilike"), Word("any")]],
        run: like::any_as_alternatives,
        obsolete_when: "it plans LIKE ANY of an array",
        example: "SELECT id FROM meters WHERE name LIKE ANY (ARRAY['a%', 'b%'])",
    },
    Pass {
        name: "SIMILAR TO",
        marks: &[&[Word("similar")]],
        run: like::similar_as_regex,
        obsolete_when: "it reads the pattern of SIMILAR TO as SQL's",
        example: "SELECT id FROM meters WHERE name SIMILAR TO 'a%'",
    },
    Pass {
        name: "texts of intervals",
        marks: &[&[Word("interval")]],
        run: always!(intervals::in_known_units),
        obsolete_when: "Arrow reads PostgreSQL's forms of intervals",
        example: "SELECT INTERVAL '1 day 02:00:00'",
    },
    Pass {
        name: "generate_series",
        marks: &[&[Word("generate_series")]],
        run: always!(series::as_rows),
        obsolete_when: "it plans functions that return rows in the SELECT list",
        example: "SELECT generate_series(1, 3)",
    },
    Pass {
        name: "unnest",
        marks: &[&[Word("unnest")]],
        run: always!(unnest::tell_arrays_apart),
        obsolete_when: "it names an unnested column by its alias",
        example: "SELECT x FROM unnest(ARRAY[1, 2]) AS x",
    },
    Pass {
        name: "substring by pattern",
        marks: &[&[Word("substring")]],
        run: always!(substring::patterns_as_matches),
        obsolete_when: "its substring takes a pattern",
        example: "SELECT substring(name FROM 'a+') FROM meters",
    },
    Pass {
        name: "functions and operators that DataFusion lacks",
        marks: &[
            &[Word("age")],
            &[Word("collate")],
            &[Word("date_trunc")],
            &[Word("div")],
            &[Word("localtime")],
            &[Word("make_interval")],
            &[Word("mod")],
            &[Word("num_")],
            &[Word("percentile_disc")],
            &[Word("to_date")],
            &[Word("to_timestamp")],
            &[Text("|")],
            &[Text("@")],
            &[Text("~")],
        ],
        run: always!(calls::in_known_calls),
        obsolete_when: "it has these functions",
        example: "SELECT mod(id, 60) FROM meters",
    },
    Pass {
        name: "coalesce within coalesce",
        marks: &[&[Word("coalesce")]],
        run: always!(coalesce::within_each_other),
        obsolete_when: "it evaluates coalesce without a CASE that has each argument twice",
        example: "SELECT coalesce(coalesce(v, 1), 2) FROM reads",
    },
    // After `calls`, which makes AT TIME ZONE of the zone of date_trunc.
    Pass {
        name: "AT TIME ZONE",
        marks: &[&[Word("zone")], &[Word("date_trunc")]],
        run: always!(at_time_zone::zones_as_calls),
        obsolete_when: "its AT TIME ZONE returns the zone's local time",
        example: "SELECT ts AT TIME ZONE 'Europe/Berlin' FROM reads",
    },
    Pass {
        name: "LIMIT in LATERAL",
        marks: &[&[Word("lateral")]],
        run: always!(lateral::limits_as_numbers),
        obsolete_when: "it plans correlated subqueries with LIMIT",
        example: "SELECT m.id, x.v FROM meters m, LATERAL (SELECT v FROM reads r WHERE r.id = m.id ORDER BY ts DESC LIMIT 3) x",
    },
    Pass {
        name: "LIMIT 1 in a correlated scalar subquery",
        marks: &[&[Word("limit")]],
        run: always!(latest::first_as_aggregate),
        obsolete_when: "it plans correlated scalar subqueries with LIMIT",
        example: "SELECT (SELECT v FROM reads r WHERE r.id = m.id ORDER BY ts DESC LIMIT 1) FROM meters m",
    },
    Pass {
        name: "= ANY and <> ALL of a subquery",
        marks: &[&[Word("any"), SELECT], &[Word("some"), SELECT], &[Word("all"), SELECT]],
        run: always!(quantified::as_in),
        obsolete_when: "it plans them as IN and NOT IN",
        example: "SELECT id FROM meters WHERE id = ANY (SELECT id FROM reads)",
    },
    // After `quantified`, which makes IN of ANY.
    Pass {
        name: "IN of a row and a subquery",
        marks: &[&[Word("in"), SELECT], &[Word("any"), SELECT], &[Word("some"), SELECT], &[Word("all"), SELECT]],
        run: always!(tuples::in_as_exists),
        obsolete_when: "it compares several columns with a subquery",
        example: "SELECT v FROM reads WHERE (id, ts) IN (SELECT id, max(ts) FROM reads GROUP BY id)",
    },
    // After `in_as_exists`.
    Pass {
        name: "EXISTS and IN outside of WHERE",
        marks: &[
            &[Word("exists")],
            &[Word("in"), SELECT],
            &[Word("any"), SELECT],
            &[Word("some"), SELECT],
            &[Word("all"), SELECT],
        ],
        run: exists::as_counts,
        obsolete_when: "it plans EXISTS and IN anywhere, with NULL apart from false",
        example: "SELECT EXISTS (SELECT 1 FROM reads WHERE id = 7)",
    },
    Pass {
        name: "string_agg in several orders",
        marks: &[&[Word("string_agg"), Word("order")]],
        run: always!(text_aggregates::sorted_apart),
        obsolete_when: "it plans string_agg in several orders in one SELECT",
        example: "SELECT string_agg(a, ',' ORDER BY a), string_agg(b, ',' ORDER BY b) FROM meters",
    },
    Pass {
        name: "digits of numeric",
        marks: &[&[Word("numeric")], &[Word("decimal")]],
        run: always!(numeric::limit_digits),
        obsolete_when: "its decimals have a thousand digits",
        example: "SELECT v::numeric(1000, 15) FROM reads",
    },
    // After `in_as_exists`, which leaves comparisons of rows.
    Pass {
        name: "comparisons of rows",
        marks: &[&[ComparedParentheses]],
        run: tuples::by_columns,
        obsolete_when: "it compares rows column by column",
        example: "SELECT v FROM reads WHERE (id, ts) > (7, '2026-01-01')",
    },
    Pass {
        name: "powers of negative numbers",
        marks: &[&[Text("^")]],
        run: always!(powers::of_negatives),
        obsolete_when: "sqlparser's unary minus binds tighter than the power",
        example: "SELECT -2 ^ 2",
    },
    Pass {
        name: "expressions that differ only in a cast",
        marks: &[&[Word("cast"), SELECT], &[Text("::"), SELECT]],
        run: always!(casts::tell_apart),
        obsolete_when: "its names of columns contain casts",
        example: "SELECT max(ts::date), max(ts::time) FROM reads",
    },
];

/// All words of the passes.
static WORDS: LazyLock<Vec<&str>> = LazyLock::new(|| {
    let marks = PASSES.iter().chain([&COLUMNS_OF_JOINS]).flat_map(|pass| pass.marks).copied().flatten();
    let words = marks.filter_map(|mark| if let Word(word) = mark { Some(*word) } else { None });
    words.collect::<HashSet<_>>().into_iter().collect()
});

/// The marks of a text.
pub(super) struct Marks<'a> {
    text: &'a str,
    words: HashSet<&'static str>,
    compares_parentheses: bool,
}

impl<'a> Marks<'a> {
    pub(super) fn of(text: &'a str) -> Self {
        let compares_parentheses =
            text.split(')').skip(1).any(|behind| behind.trim_start().starts_with(['<', '>', '=', '!']));
        Self { text, words: words_of(text), compares_parentheses }
    }

    fn has(&self, mark: Mark) -> bool {
        match mark {
            Word(word) => self.words.contains(word),
            Text(text) => self.text.contains(text),
            ComparedParentheses => self.compares_parentheses,
        }
    }

    /// Whether a pass is to run.
    pub(super) fn call_for(&self, pass: &Pass) -> bool {
        pass.marks.iter().any(|marks| marks.iter().all(|mark| self.has(*mark)))
    }
}

/// The words of the passes that begin a word of the text, ignoring case.
fn words_of(text: &str) -> HashSet<&'static str> {
    let text = text.as_bytes();
    let mut found = HashSet::new();
    let mut is_within = false;
    for (at, byte) in text.iter().enumerate() {
        let is_first = !is_within && byte.is_ascii_alphabetic();
        is_within = byte.is_ascii_alphanumeric() || *byte == b'_';
        if is_first {
            let is_here = |word: &&&str| {
                text.get(at..at + word.len()).is_some_and(|here| here.eq_ignore_ascii_case(word.as_bytes()))
            };
            found.extend(WORDS.iter().filter(is_here).copied());
        }
    }
    found
}

#[cfg(test)]
#[path = "passes_tests.rs"]
mod tests;
