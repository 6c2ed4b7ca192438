use super::super::{PgCatalog, Shown};
use super::{PATTERNS, Pattern, replaced, replaced_by};
use crate::advisory::HeldLocks;
use crate::clients::EmbeddedClient;
use arrow::array::ArrayRef;
use arrow::util::display::array_value_to_string;
use datafusion::error::Result as PlanResult;
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::AnalyzerRule;
use datafusion::sql::parser::Statement as ParsedStatement;
use datafusion::sql::sqlparser::ast::Statement;
use fleetdb_engine::io::{Io, MemoryStorage};
use fleetdb_engine::{Database, Result, Settings};
use fleetdb_postgres::Postgres;
use fleetdb_query::{CurrentZone, Dialect, Session, SessionParts, Zone};
use fleetdb_statement::depth::Links;
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

/// Statements of clients, shortened to what still needs the fragments.
const EXAMPLES: &[&str] = &[
    // ActiveRecord and Ruby's pg load types.
    "SELECT t.typname FROM pg_type AS t WHERE t.typinput = 'array_in(cstring,oid,integer)'::regprocedure ORDER BY 1",
    "SELECT t.typname, ti.proname AS typinput FROM pg_type AS t JOIN pg_proc AS ti ON ti.oid = t.typinput ORDER BY 1",
    // Django's get_constraints.
    "SELECT c.conname, array(
            SELECT attname FROM unnest(c.conkey) WITH ORDINALITY cols(colid, arridx)
            JOIN pg_attribute AS ca ON cols.colid = ca.attnum WHERE ca.attrelid = c.conrelid ORDER BY cols.arridx
        ) FROM pg_constraint AS c",
    "SELECT c2.relname, idx.key, idx.arridx FROM (
            SELECT * FROM pg_index i, unnest(i.indkey, i.indoption) WITH ORDINALITY koi(key, option, arridx)
        ) idx LEFT JOIN pg_class c2 ON idx.indexrelid = c2.oid ORDER BY idx.arridx",
    // Grafana's list of tables.
    r#"SELECT table_name FROM information_schema.tables WHERE table_schema IN (
            SELECT CASE WHEN trim(s[i]) = '"$user"' THEN user ELSE trim(s[i]) END
            FROM generate_series(array_lower(string_to_array(current_setting('search_path'),','),1),
                array_upper(string_to_array(current_setting('search_path'),','),1)) as i,
            string_to_array(current_setting('search_path'),',') s)"#,
    // pgAdmin: the connection, a table's dependents, default privileges, columns, the columns
    // that an index includes, the search path.
    "SELECT CASE WHEN 'pg_signal_backend'=ANY(ARRAY(WITH RECURSIVE cte AS (
            SELECT pg_roles.oid,pg_roles.rolname FROM pg_catalog.pg_roles WHERE pg_roles.oid = roles.oid
            UNION ALL
            SELECT m.roleid,pgr.rolname FROM cte cte_1
                JOIN pg_catalog.pg_auth_members m ON m.member = cte_1.oid
                JOIN pg_catalog.pg_roles pgr ON pgr.oid = m.roleid)
            SELECT rolname  FROM cte)) THEN True ELSE False END as can_signal_backend
        FROM pg_catalog.pg_roles as roles WHERE rolname = current_user",
    "SELECT ref.relname AS refname, d2.refclassid, dep.deptype AS deptype FROM pg_catalog.pg_depend dep
        LEFT JOIN pg_catalog.pg_depend d2 ON dep.objid=d2.objid AND dep.refobjid != d2.refobjid
        LEFT JOIN pg_catalog.pg_class ref ON ref.oid=d2.refobjid
        WHERE dep.refobjid NOT IN (SELECT d3.refobjid FROM pg_catalog.pg_depend d3 WHERE d3.objid=d2.refobjid)",
    "SELECT CASE (a.deftype) WHEN 'r' THEN 'deftblacl' END AS deftype, g.rolname AS grantor
        FROM (SELECT (acl).grantee as grantee, (acl).grantor AS grantor, defaclobjtype as deftype
            FROM (SELECT defaclobjtype, pg_catalog.aclexplode(defaclacl) as acl FROM pg_catalog.pg_default_acl) d) a
        LEFT JOIN pg_catalog.pg_roles g ON (a.grantor = g.oid) LEFT JOIN pg_catalog.pg_roles gt ON (a.grantee = gt.oid)
        GROUP BY g.rolname, gt.rolname, a.deftype ORDER BY a.deftype",
    "SELECT DISTINCT ON (att.attnum) att.attname,
            (SELECT count(1) FROM pg_catalog.pg_type t2 WHERE t2.typname=ty.typname) > 1 AS isdup
        FROM pg_catalog.pg_attribute att LEFT JOIN pg_catalog.pg_type ty ON ty.oid=att.atttypid
        JOIN pg_catalog.pg_class rel ON rel.oid = att.attrelid WHERE rel.relname = 'reads' ORDER BY att.attnum",
    "SELECT att.attname, EXISTS(SELECT 1 FROM pg_catalog.pg_constraint
                WHERE conrelid=att.attrelid AND contype='f' AND att.attnum=ANY(conkey)) As is_fk
        FROM pg_catalog.pg_attribute att JOIN pg_catalog.pg_type ty ON ty.oid=att.atttypid
        JOIN pg_catalog.pg_class rel ON rel.oid = att.attrelid WHERE rel.relname = 'reads' ORDER BY att.attnum",
    "SELECT a.attname as colname FROM (SELECT i.indnkeyatts, i.indrelid, pg_catalog.unnest(indkey) AS table_colnum,
            pg_catalog.unnest(ARRAY(SELECT pg_catalog.generate_series(1, i.indnatts) AS n)) attnum
            FROM pg_catalog.pg_index i
        ) i JOIN pg_catalog.pg_attribute a ON (a.attrelid = i.indrelid AND i.table_colnum = a.attnum)
        ORDER BY i.attnum",
    "SELECT * FROM pg_catalog.unnest(current_schemas(true)) AS schema",
    // psql's \d+.
    "SELECT c.relname,
            pg_catalog.array_to_string(c.reloptions || array(
                select 'toast.' || x from pg_catalog.unnest(tc.reloptions) x), ', ')
        FROM pg_catalog.pg_class c LEFT JOIN pg_catalog.pg_class tc ON (c.reltoastrelid = tc.oid)
        WHERE c.relname = 'reads'",
];

/// Statements of clients that need no fragments, with their answers.
const UNAIDED: &[(&str, &[&str])] = &[
    // JDBC's getBestRowIdentifier, getIndexInfo and getPrimaryKeys.
    (
        "SELECT a.attname FROM pg_catalog.pg_attribute a JOIN (
                SELECT i.indexrelid, i.indrelid, i.indisprimary, information_schema._pg_expandarray(i.indkey) AS keys
                FROM pg_catalog.pg_index i
            ) i ON (a.attnum = (i.keys).x AND a.attrelid = i.indrelid) WHERE i.indisprimary ORDER BY a.attnum",
        &["id", "ts"],
    ),
    (
        "SELECT tmp.INDEX_NAME, tmp.ORDINAL_POSITION,
                CASE tmp.I_INDOPTION[tmp.ORDINAL_POSITION - 1] & 1::smallint WHEN 1 THEN 'D' ELSE 'A' END AS ASC_OR_DESC
            FROM (SELECT ci.relname AS INDEX_NAME, (information_schema._pg_expandarray(i.indkey)).n AS ORDINAL_POSITION,
                    i.indoption AS I_INDOPTION
                FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class ci ON (ci.oid = i.indexrelid)) AS tmp
            ORDER BY ORDINAL_POSITION",
        &["reads_pkey|1|A", "reads_pkey|2|A"],
    ),
    (
        "SELECT result.COLUMN_NAME, result.KEY_SEQ FROM (
                SELECT a.attname AS COLUMN_NAME, (information_schema._pg_expandarray(i.indkey)).n AS KEY_SEQ,
                    information_schema._pg_expandarray(i.indkey) AS KEYS, a.attnum AS A_ATTNUM
                FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_index i ON (a.attrelid = i.indrelid)
                WHERE i.indisprimary
            ) result WHERE result.A_ATTNUM = (result.KEYS).x ORDER BY result.key_seq",
        &["id|1", "ts|2"],
    ),
    // pgAdmin's properties of a table.
    (
        r"SELECT rel.relname, (SELECT ARRAY(SELECT CASE WHEN (nspname NOT LIKE 'pg\_%') THEN
                    pg_catalog.quote_ident(nspname)||'.'||pg_catalog.quote_ident(c.relname)
                    ELSE pg_catalog.quote_ident(c.relname) END AS inherited_tables
                FROM pg_catalog.pg_inherits i JOIN pg_catalog.pg_class c ON c.oid = i.inhparent
                JOIN pg_catalog.pg_namespace n ON n.oid=c.relnamespace WHERE i.inhrelid = rel.oid ORDER BY inhseqno))
                AS coll_inherits
            FROM pg_catalog.pg_class rel WHERE rel.relname = 'reads'",
        &["reads|[]"],
    ),
    // psql's \dT and \dp.
    (
        "SELECT t.typname FROM pg_catalog.pg_type t WHERE (t.typrelid = 0 OR (SELECT c.relkind = 'c'
            FROM pg_catalog.pg_class c WHERE c.oid = t.typrelid)) AND t.typname LIKE 'int_' ORDER BY 1",
        &["int2", "int4", "int8"],
    ),
    (
        r"SELECT c.relname, pg_catalog.array_to_string(ARRAY(SELECT polname || CASE WHEN polroles <> '{0}' THEN
                    E'\n  to: ' || pg_catalog.array_to_string(ARRAY(
                        SELECT rolname FROM pg_catalog.pg_roles WHERE oid = ANY (polroles) ORDER BY 1), E', ')
                ELSE E'' END FROM pg_catalog.pg_policy pol WHERE polrelid = c.oid), E'\n') AS policies
            FROM pg_catalog.pg_class c WHERE c.relname = 'reads'",
        &["reads|"],
    ),
];

/// A dialect that does not replace one fragment.
struct Without {
    postgres: Arc<Postgres>,
    catalog: PgCatalog,
    shown: Shown,
    session: OnceLock<SessionParts>,
    pattern: &'static Pattern,
}

impl Without {
    fn new(pattern: &'static Pattern) -> Arc<Self> {
        let shown = Shown {
            locks: Arc::new(HeldLocks::new(Arc::default())),
            clients: Arc::new(EmbeddedClient(SystemTime::now())),
            session_user: Arc::default(),
            cursors: Arc::default(),
        };
        Arc::new(Self {
            postgres: Postgres::new(),
            catalog: PgCatalog::default(),
            shown,
            session: OnceLock::new(),
            pattern,
        })
    }
}

impl Dialect for Without {
    fn register(&self, session: SessionParts) -> PlanResult<()> {
        self.session.set(session.clone()).ok();
        self.postgres.register(session)
    }

    fn analyzer_rules(&self, zone: &CurrentZone) -> Vec<Arc<dyn AnalyzerRule + Send + Sync>> {
        self.postgres.analyzer_rules(zone)
    }

    fn has_parser_for(&self, text: &str) -> bool {
        self.postgres.has_parser_for(text)
    }

    fn parse(&self, text: &str, _links: Links) -> Result<Vec<ParsedStatement>> {
        self.catalog.parse_replaced(&self.shown, self.session.get().unwrap(), without(text, self.pattern))
    }

    fn rewrite(&self, text: Option<&str>, statements: &mut [&mut Statement]) -> Result<()> {
        self.postgres.rewrite(text, statements)
    }

    fn typed(&self, plan: LogicalPlan, zone: Zone, functions: &dyn FunctionRegistry) -> PlanResult<LogicalPlan> {
        self.postgres.typed(plan, zone, functions)
    }

    fn setting(&self, name: &str) -> Option<(&'static str, &'static str)> {
        self.postgres.setting(name)
    }
}

/// The text with all fragments replaced but one.
fn without(text: &str, pattern: &Pattern) -> String {
    replaced_by(text, PATTERNS.iter().filter(|other| !std::ptr::eq(*other, pattern)))
}

/// The values of a query's answer, on a database with a table.
fn answer(dialect: Arc<dyn Dialect>, sql: &str) -> Result<Vec<String>> {
    let db = Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
    let session = Session::new(db.into(), dialect).unwrap();
    session.sql("CREATE TABLE reads (v DOUBLE PRECISION, id BIGINT, ts TIMESTAMP, PRIMARY KEY (id, ts))").unwrap();
    let mut values = Vec::new();
    for rows in session.sql(sql)?.collect()? {
        let value = |column: &ArrayRef, row| array_value_to_string(column, row).unwrap();
        let row = |row| rows.columns().iter().map(|column| value(column, row)).collect::<Vec<_>>().join("|");
        values.extend((0..rows.num_rows()).map(row));
    }
    Ok(values)
}

#[test]
fn each_fragment_is_needed_by_an_example() {
    let mut wrong = Vec::new();
    for pattern in PATTERNS.iter() {
        let fragment = pattern.fragment;
        assert!(!fragment.blocked_by.is_empty() && !fragment.remove_when.is_empty(), "{}", fragment.text);
        assert!(fragment.text.to_ascii_lowercase().contains(&pattern.word), "{}: {}", fragment.text, pattern.word);
        let Some(example) = EXAMPLES.iter().find(|example| replaced(example) != without(example, pattern)) else {
            wrong.push(format!("{}: there is no example", fragment.text));
            continue;
        };
        let with = answer(Postgres::new(), example);
        let unaided = answer(Without::new(pattern), example);
        match (with, unaided) {
            (Err(error), _) => wrong.push(format!("{}: {error}", fragment.text)),
            (Ok(with), Ok(unaided)) if with == unaided => {
                wrong.push(format!("{}: remove it, its example is answered without it", fragment.text));
            }
            _ => {}
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_clients_have_in_common_needs_no_fragments() {
    for (sql, expected) in UNAIDED {
        assert_eq!(replaced(sql), *sql);
        assert_eq!(answer(Postgres::new(), sql).unwrap_or_else(|error| panic!("{sql}: {error}")), *expected);
    }
}

#[test]
fn a_replacement_contains_no_fragment() {
    for text in PATTERNS.iter().map(|pattern| pattern.fragment.text).chain(EXAMPLES.iter().copied()) {
        let once = replaced(text);
        assert_eq!(replaced(&once), once);
    }
}

#[test]
fn fragments_are_found_however_they_are_spaced() {
    let text = r#"SELECT a WHERE  s IN (SELECT
        CASE WHEN trim(s[i]) = '"$user"' THEN user ELSE trim( s[i] ) END FROM generate_series(
        array_lower(string_to_array(current_setting('search_path'),','),1),
        array_upper(string_to_array(current_setting('search_path'),','),1)) as i,
        string_to_array(current_setting('search_path'),',') s)"#;
    assert_eq!(replaced(text), "SELECT a WHERE s IN ( 'public' )");
    assert_eq!(replaced("SELECT 1 on TI.oid=t.TypInput  x"), "SELECT 1 ON ti.proname = t.typinput x");
    for same in [
        "SELECT  current_database()",
        "SELECT current_setting('a  b')",
        "SELECT 'open ON ti.oid = t.typinput",
        "SELECT  'ON ti.oid = t.typinput',1",
    ] {
        assert_eq!(replaced(same), same);
    }
    assert_eq!(
        replaced("SELECT 'a  ON ti.oid = t.typinput' ON ti.oid = t.typinput"),
        "SELECT 'a  ON ti.oid = t.typinput' ON ti.proname = t.typinput"
    );
}
