//! Rows that are written over HTTP as Arrow IPC streams.

use crate::http::{request, sql};
use crate::process::Server;
use arrow::array::{
    ArrayRef, FixedSizeListArray, Float64Array, Int64Array, NullArray, RecordBatch, StringArray,
    TimestampMillisecondArray,
};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::ipc::writer::StreamWriter;
use std::sync::Arc;

/// A stream of these rows; the metadata of its schema name the table.
fn stream(table: Option<&str>, columns: Vec<(&str, ArrayRef)>) -> Vec<u8> {
    let rows = RecordBatch::try_from_iter(columns).unwrap();
    let metadata = table.map(|table| ("fleetdb.table".to_owned(), table.to_owned())).into_iter().collect();
    let schema = Schema::clone(&rows.schema()).with_metadata(metadata);
    let mut writer = StreamWriter::try_new(Vec::new(), &schema).unwrap();
    writer.write(&RecordBatch::try_new(Arc::new(schema), rows.columns().to_vec()).unwrap()).unwrap();
    writer.into_inner().unwrap()
}

fn readings(table: Option<&str>, meter: i64) -> Vec<u8> {
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("meter", Arc::new(Int64Array::from(vec![meter, meter]))),
        ("ts", Arc::new(TimestampMillisecondArray::from(vec![-1, 1_000]))),
        ("kwh", Arc::new(Float64Array::from(vec![Some(0.5), None]))),
    ];
    stream(table, columns)
}

#[test]
fn arrow_streams_of_several_tables_are_one_batch() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), &[]);
    let http = server.address("http");
    let reads = "CREATE TABLE reads (meter BIGINT, ts TIMESTAMP(3), kwh DOUBLE, note TEXT, PRIMARY KEY (meter, ts))";
    sql(http, reads, "json");
    sql(http, "CREATE TABLE meters (meter BIGINT PRIMARY KEY, city TEXT NOT NULL)", "json");
    let written = request(http, "POST", "/api/v1/insert?table=reads", "", &readings(None, 7)).unwrap();
    assert_eq!(written.status, 200, "{}", written.body);
    assert!(written.head.contains("x-fleetdb-durability: sync (T3)"), "{}", written.head);
    let said: serde_json::Value = serde_json::from_str(&written.body).unwrap();
    assert_eq!((said["rows"].as_u64(), said["durability"].as_str()), (Some(2), Some("sync")));
    assert!(said["sequence"].is_u64());
    let header = "X-FleetDB-Durability: os\r\n";
    let city = |city: Option<&str>| {
        let columns: Vec<(&str, ArrayRef)> =
            vec![("meter", Arc::new(Int64Array::from(vec![8]))), ("city", Arc::new(StringArray::from(vec![city])))];
        stream(Some("meters"), columns)
    };
    let both = [readings(Some("reads"), 8), city(Some("Kiel"))].concat();
    let written = request(http, "POST", "/api/v1/insert", header, &both).unwrap();
    assert_eq!(written.status, 200, "{}", written.body);
    assert!(written.body.contains(r#""rows":3"#) && written.body.contains(r#""durability":"os""#), "{}", written.body);
    let rows = "SELECT meter, ts, kwh, note FROM reads ORDER BY meter, ts";
    assert_eq!(
        sql(http, rows, "csv"),
        "meter,ts,kwh,note\n7,1969-12-31T23:59:59.999,0.5,\n7,1970-01-01T00:00:01,,\n\
         8,1969-12-31T23:59:59.999,0.5,\n8,1970-01-01T00:00:01,,\n"
    );
    assert_eq!(sql(http, "SELECT city FROM meters", "csv"), "city\nKiel\n");
    // A batch that one table refuses is not written to the other.
    let refused = [readings(Some("reads"), 9), city(None)].concat();
    let answer = request(http, "POST", "/api/v1/insert", "", &refused).unwrap();
    let said: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!((answer.status, said["code"].as_str()), (400, Some("23502")), "{}", answer.body);
    assert_eq!(sql(http, "SELECT count(*) AS n FROM reads", "csv"), "n\n4\n");
    for (path, body, code) in [
        ("/api/v1/insert", readings(None, 1), "42000"),
        ("/api/v1/insert?table=nope", readings(None, 1), "42P01"),
        ("/api/v1/insert?table=reads", b"no stream".to_vec(), "22P04"),
        ("/api/v1/insert?table=reads", Vec::new(), "22P04"),
    ] {
        let answer = request(http, "POST", path, "", &body).unwrap();
        let said: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
        assert_eq!((answer.status, said["code"].as_str()), (400, Some(code)), "{path}: {}", answer.body);
    }
    // Lists of NULL take no bytes: their number is only claimed.
    let element = Arc::new(Field::new_list_field(DataType::Null, true));
    let many = FixedSizeListArray::new(element, 1 << 28, Arc::new(NullArray::new(1 << 28)), None);
    let many = stream(None, vec![("kwh", Arc::new(many))]);
    let answer = request(http, "POST", "/api/v1/insert?table=reads", "", &many).unwrap();
    assert!(answer.status == 400 && answer.body.contains("268435456 elements"), "{}", answer.body);
    // Each cut and each changed byte is an error or other rows, and the server goes on.
    let whole = readings(None, 1);
    for at in 0..whole.len() {
        let mut changed = whole.clone();
        changed[at] ^= 0x55;
        for body in [&whole[..at], &changed] {
            let answer = request(http, "POST", "/api/v1/insert?table=reads", "", body).unwrap();
            assert!([200, 400].contains(&answer.status), "byte {at}: {} {}", answer.status, answer.body);
        }
    }
    crate::access::add_token(data.path(), "agent", "read");
    assert_eq!(request(http, "POST", "/api/v1/insert?table=reads", "", &whole).unwrap().status, 401);
    assert!(server.terminate());
}
