use super::*;
use arrow::array::AsArray;
use fleetdb_engine::io::{Io, MemoryStorage};
use fleetdb_engine::{Database, Settings};
use fleetdb_query::Session;

#[test]
fn names_fit_patterns_as_with_like() {
    for (pattern, name, expected) in [
        (None, "reads", true),
        (Some("reads"), "reads", true),
        (Some("r%"), "reads", true),
        (Some("%d_"), "reads", true),
        (Some("_eads"), "reads", true),
        (Some("%"), "", true),
        (Some(""), "reads", false),
        (Some("read"), "reads", false),
        (Some("reads_"), "reads", false),
        (Some("%x%"), "reads", false),
    ] {
        assert_eq!(fits(pattern, name), expected, "{pattern:?} {name}");
    }
}

fn view() -> View {
    let db = Arc::new(Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap());
    let session = Session::new(Arc::clone(&db), fleetdb_postgres::Postgres::new()).unwrap();
    session.sql("CREATE TABLE sites (id BIGINT, name TEXT DEFAULT 'new', PRIMARY KEY (id))").unwrap();
    let reads = "CREATE TABLE reads (site BIGINT REFERENCES sites, ts TIMESTAMP(3), v DOUBLE, PRIMARY KEY (site, ts))";
    session.sql(reads).unwrap();
    session.sql("CREATE VIEW high AS SELECT site, v FROM reads WHERE v > 9").unwrap();
    session.view()
}

fn filter(depth: ObjectDepth) -> Filter<'static> {
    Filter { depth, catalog: None, db_schema: None, table_name: None, table_type: None, column_name: None }
}

fn tables_in(objects: &RecordBatch) -> StructArray {
    let schemas = objects.column(1).as_list::<i32>().value(0);
    schemas.as_struct().column(1).as_list::<i32>().value(0).as_struct().clone()
}

#[test]
fn tables_views_columns_and_keys_are_listed() {
    let objects = objects(&view(), &filter(ObjectDepth::All)).unwrap();
    let tables = tables_in(&objects);
    let names: Vec<_> = tables.column(0).as_string::<i32>().iter().flatten().map(str::to_owned).collect();
    assert_eq!(names, ["high", "reads", "sites"]);
    let columns = tables.column(2).as_list::<i32>().value(1);
    let columns = columns.as_struct();
    let types = columns.column_by_name("xdbc_type_name").unwrap().as_string::<i32>().clone();
    assert_eq!(types.iter().flatten().collect::<Vec<_>>(), ["BIGINT", "TIMESTAMP(3)", "DOUBLE PRECISION"]);
    let constraints = tables.column(3).as_list::<i32>().value(1);
    let constraints = constraints.as_struct();
    let kinds = constraints.column(1).as_string::<i32>().clone();
    assert_eq!(kinds.iter().flatten().collect::<Vec<_>>(), ["PRIMARY KEY", "FOREIGN KEY"]);
    let usage = constraints.column(3).as_list::<i32>().value(1);
    assert_eq!(usage.as_struct().column(2).as_string::<i32>().value(0), "sites");
}

#[test]
fn a_filter_takes_less() {
    let view = view();
    let catalogs = objects(&view, &filter(ObjectDepth::Catalogs)).unwrap();
    assert!(catalogs.column(1).is_null(0));
    let schemas = objects(&view, &filter(ObjectDepth::Schemas)).unwrap();
    assert!(schemas.column(1).as_list::<i32>().value(0).as_struct().column(1).is_null(0));
    let only_views = Filter { table_type: Some(vec![VIEW]), ..filter(ObjectDepth::Tables) };
    let only_views = tables_in(&objects(&view, &only_views).unwrap());
    assert_eq!(only_views.len(), 1);
    assert!(only_views.column(2).is_null(0));
    let elsewhere = Filter { catalog: Some("other"), ..filter(ObjectDepth::All) };
    assert_eq!(objects(&view, &elsewhere).unwrap().num_rows(), 0);
    let columns = Filter { column_name: Some("v"), table_name: Some("reads"), ..filter(ObjectDepth::All) };
    assert_eq!(tables_in(&objects(&view, &columns).unwrap()).column(2).as_list::<i32>().value(0).len(), 1);
}
