//! MongoDB at a URL, and FerretDB, which speaks its protocol on top of SQLite and is started here.
//!
//! A row is a document of a plain collection whose `_id` is the key as text. Times are integers of
//! nanoseconds, since a date has only milliseconds. There is an index on the key's columns. The
//! documents of a request are not one transaction.

use crate::process::{Instance, Process, free_port, program};
use crate::tsbs::NO_TEXT;
use arrow::array::RecordBatch;
use fleetdb_bench_core::Outcome;
use fleetdb_bench_core::answer::{AnswerBuilder, Cell, cells};
use fleetdb_bench_core::query::{Key, Query};
use fleetdb_bench_core::table::{ColumnType, Table};
use fleetdb_bench_core::target::{Connection, Entry, Info, Start, Target, Tier};
use fleetdb_bench_core::workload::cpu::FIELDS;
use mongodb::bson::{Bson, Document, doc};
use mongodb::options::ClientOptions;
use mongodb::{Client, Database};
use std::process::Command;
use tokio::runtime::Runtime;

/// MongoDB's entry in the list of targets.
pub const MONGODB: Entry = Entry {
    name: "mongodb",
    about: "MongoDB",
    missing: None,
    url: Some("mongodb://host:port/database"),
    start: mongodb,
};

/// FerretDB's entry in the list of targets.
pub const FERRETDB: Entry = Entry {
    name: "ferretdb",
    about: "FerretDB 1 with SQLite behind it",
    missing: Some(missing),
    url: Some("mongodb://host:port/database"),
    start: ferretdb,
};

const DATABASE: &str = "bench";
/// The error code for an existing `_id`.
const DUPLICATE: i32 = 11_000;
/// Documents per batch; FerretDB allocates room for that many in advance.
const BATCH: i32 = 10_000;
const HOUR_NS: i64 = 3_600_000_000_000;
const MINUTE_NS: i64 = 60_000_000_000;

fn missing() -> Option<String> {
    let how = "FerretDB 1 is not installed (go mod download github.com/FerretDB/FerretDB@v1.24.0, then go build ./cmd/ferretdb)";
    program(&["ferretdb"]).is_none().then(|| how.to_owned())
}

struct Mongo {
    instance: Instance,
    version: String,
    /// The queries it cannot answer, with the reason.
    unsupported: fn(&Query) -> Option<&'static str>,
    /// The tables to remove at a URL.
    tables: Vec<&'static str>,
}

fn mongodb(start: &Start<'_>) -> Outcome<Box<dyn Target>> {
    let mut instance = Instance::at(start.url.ok_or("it is available by URL only")?);
    instance.settings.push("journaled writes".to_owned());
    connected(instance, "version", mongodb_unsupported)
}

fn ferretdb(start: &Start<'_>) -> Outcome<Box<dyn Target>> {
    let instance = start.url.map_or_else(|| started(start), |url| Ok(Instance::at(url)))?;
    connected(instance, "ferretdbVersion", ferretdb_unsupported)
}

fn connected(
    mut instance: Instance,
    version: &str,
    unsupported: fn(&Query) -> Option<&'static str>,
) -> Outcome<Box<dyn Target>> {
    let build = Collections::connect(&instance.address)?.run(doc! { "buildInfo": 1 })?;
    instance.settings.push("documents of a request are no transaction".to_owned());
    Ok(Box::new(Mongo { instance, version: build.get_str(version)?.to_owned(), unsupported, tables: Vec::new() }))
}

fn mongodb_unsupported(query: &Query) -> Option<&'static str> {
    matches!(query, Query::Tsbs(_)).then_some(NO_TEXT)
}

fn ferretdb_unsupported(query: &Query) -> Option<&'static str> {
    match query {
        Query::HourlyMaxima { .. } | Query::MinuteMaxima { .. } => Some("FerretDB 1's $group has no $max"),
        Query::LastOfAll => Some("FerretDB 1's $group has no $first"),
        _ => mongodb_unsupported(query),
    }
}

fn started(start: &Start<'_>) -> Outcome<Instance> {
    let directory = start.directory.canonicalize()?;
    let (data, port) = (directory.join("data"), free_port()?);
    std::fs::create_dir_all(&data)?;
    let mut command = Command::new("ferretdb");
    command.args(["--handler=sqlite", "--telemetry=disable", "--debug-addr=-", "--log-level=error"]);
    command.arg(format!("--sqlite-url=file:{}/", data.display()));
    command.arg(format!("--state-dir={}", directory.display()));
    command.arg(format!("--listen-addr=127.0.0.1:{port}"));
    let url = format!("mongodb://127.0.0.1:{port}/{DATABASE}");
    let (process, ()) = Process::start(&mut command, &directory.join("log"), || {
        // Its driver would wait for half a minute.
        std::net::TcpStream::connect(("127.0.0.1", port))?;
        Ok(())
    })?;
    Ok(Instance::started(url, process, data, Vec::new()))
}

impl Target for Mongo {
    fn info(&self) -> Info {
        let (version, settings) = (self.version.clone(), self.instance.settings.clone());
        Info { version, tier: Tier::T3, settings }
    }

    fn create(&mut self, tables: &[Table]) -> Outcome<()> {
        let mut connection = Collections::connect(&self.instance.address)?;
        for table in tables {
            let known = connection.run(doc! { "listCollections": 1, "filter": { "name": table.name } })?;
            let is_there = !known.get_document("cursor")?.get_array("firstBatch")?.is_empty();
            if is_there && !self.instance.is_ours() {
                return Err(format!("the collection {} already exists; use a database without it", table.name).into());
            }
            let key: Document = table.key.iter().map(|name| ((*name).to_owned(), Bson::Int32(1))).collect();
            let index = doc! { "createIndexes": table.name, "indexes": [{ "key": key, "name": "key" }] };
            connection.run(index)?;
            self.tables.push(table.name);
        }
        Ok(())
    }

    fn remove(&mut self) -> Outcome<()> {
        let mut connection = Collections::connect(&self.instance.address)?;
        self.tables.iter().try_for_each(|table| connection.run(doc! { "drop": *table }).map(|_| ()))
    }

    fn connect(&self) -> Outcome<Box<dyn Connection>> {
        Ok(Box::new(Collections::connect(&self.instance.address)?))
    }

    /// It offers nothing to wait for.
    fn settle(&mut self) -> Outcome<()> {
        Ok(())
    }

    fn disk_bytes(&self) -> Outcome<u64> {
        self.instance.disk_bytes()
    }

    fn processes(&self) -> Vec<u32> {
        self.instance.processes()
    }

    fn unsupported(&self, query: &Query) -> Option<&'static str> {
        (self.unsupported)(query)
    }
}

/// A connection, with a runtime for its thread.
struct Collections {
    database: Database,
    // Dropped after the client, which lives in it.
    runtime: Runtime,
}

impl Collections {
    fn connect(url: &str) -> Outcome<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let database = runtime.block_on(async {
            let mut options = ClientOptions::parse(url).await?;
            options.max_pool_size = Some(1);
            let client = Client::with_options(options)?;
            let database = client.default_database().unwrap_or_else(|| client.database(DATABASE));
            database.run_command(doc! { "ping": 1 }).await?;
            Ok::<_, mongodb::error::Error>(database)
        })?;
        Ok(Self { database, runtime })
    }

    fn run(&mut self, command: Document) -> Outcome<Document> {
        Ok(self.runtime.block_on(self.database.run_command(command).into_future())?)
    }

    /// Runs a write and returns the errors of single documents.
    fn run_write(&mut self, mut command: Document) -> Outcome<Vec<Bson>> {
        command.insert("ordered", false);
        command.insert("writeConcern", doc! { "w": 1, "j": true });
        let mut answer = self.run(command)?;
        match answer.remove("writeErrors") {
            Some(Bson::Array(errors)) => Ok(errors),
            _ => Ok(Vec::new()),
        }
    }

    /// Replaces or adds documents.
    fn replace(&mut self, table: &Table, documents: impl Iterator<Item = Document>) -> Outcome<()> {
        let updates = documents.map(|document| {
            let id = document.get("_id").cloned().unwrap_or(Bson::Null);
            Bson::Document(doc! { "q": { "_id": id }, "u": document, "upsert": true })
        });
        let updates: Vec<Bson> = updates.collect();
        match self.run_write(doc! { "update": table.name, "updates": updates })?.first() {
            Some(error) => Err(error.to_string().into()),
            None => Ok(()),
        }
    }

    /// Adds documents and replaces those that exist.
    fn insert(&mut self, table: &Table, documents: Vec<Document>) -> Outcome<()> {
        let all: Vec<Bson> = documents.iter().cloned().map(Bson::Document).collect();
        let mut known = Vec::new();
        for error in self.run_write(doc! { "insert": table.name, "documents": all })? {
            match error.as_document().map(|error| (error.get_i32("code"), error.get_i32("index"))) {
                Some((Ok(DUPLICATE), Ok(index))) => known.push(documents[usize::try_from(index)?].clone()),
                _ => return Err(error.to_string().into()),
            }
        }
        if known.is_empty() { Ok(()) } else { self.replace(table, known.into_iter()) }
    }

    /// All documents of a cursor.
    fn all(&mut self, command: Document, collection: &str) -> Outcome<Vec<Document>> {
        let mut answer = self.run(command)?;
        let mut documents = Vec::new();
        loop {
            let cursor = answer.get_document_mut("cursor")?;
            let batch = cursor.remove("firstBatch").or_else(|| cursor.remove("nextBatch"));
            let Some(Bson::Array(batch)) = batch else { return Err("a cursor has no batch".into()) };
            documents.extend(batch.into_iter().filter_map(|document| match document {
                Bson::Document(document) => Some(document),
                _ => None,
            }));
            let id = cursor.get_i64("id")?;
            if id == 0 {
                return Ok(documents);
            }
            answer = self.run(doc! { "getMore": id, "collection": collection })?;
        }
    }
}

/// Converts a row to a document.
fn document(table: &Table, rows: &RecordBatch, row: usize) -> Outcome<Document> {
    let mut document = Document::new();
    let mut id = String::new();
    for ((name, kind), cell) in table.columns.iter().zip(cells(rows, row)) {
        let value = match cell {
            Cell::Null => continue,
            Cell::Int(value) | Cell::Time(value) => Bson::Int64(value),
            Cell::Float(value) => Bson::Double(value),
            Cell::Text(text) if *kind == ColumnType::Json => serde_json::from_str(text)?,
            Cell::Text(text) => Bson::String(text.to_owned()),
        };
        if table.key.contains(name) {
            if !id.is_empty() {
                id.push('/');
            }
            id += &value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        }
        document.insert(*name, value);
    }
    document.insert("_id", id);
    Ok(document)
}

/// The command that answers a query, and its collection.
fn command(query: &Query) -> Outcome<(Document, &'static str)> {
    let within = |(from, to): &(i64, i64)| doc! { "$gte": *from, "$lt": *to };
    let find = |table: &'static str, filter: Document, order: i32| {
        (doc! { "find": table, "filter": filter, "sort": { "ts": order }, "batchSize": BATCH }, table)
    };
    let aggregate = |table: &'static str, stages: Vec<Document>| {
        let command = doc! { "aggregate": table, "pipeline": stages, "cursor": { "batchSize": BATCH } };
        (command, table)
    };
    // The start of a row's bucket, and the maxima in the bucket.
    let maxima = |hosts: Bson, window_ns: &(i64, i64), width_ns: i64, fields: &[&str]| {
        let start = doc! { "$subtract": ["$ts", { "$mod": ["$ts", width_ns] }] };
        let mut group = doc! { "_id": start };
        fields.iter().for_each(|field| drop(group.insert(*field, doc! { "$max": format!("${field}") })));
        let filter = doc! { "hostname": hosts, "ts": within(window_ns) };
        aggregate("cpu", vec![doc! { "$match": filter }, doc! { "$group": group }, doc! { "$sort": { "_id": 1 } }])
    };
    Ok(match query {
        Query::Count(table) => (doc! { "count": *table }, table),
        Query::Bill { meter, window_ns } => {
            let filter = doc! { "meter_id": *meter, "ts": within(window_ns) };
            let group = doc! { "_id": null, "sum": { "$sum": "$usage_since_read" } };
            aggregate("meter_reads", vec![doc! { "$match": filter }, doc! { "$group": group }])
        }
        Query::Rows { of, key, window_ns } => find(of.name, doc! { of.key[0]: value(key), "ts": within(window_ns) }, 1),
        Query::Last { of, key } => {
            let (mut command, table) = find(of.name, doc! { of.key[0]: value(key) }, -1);
            command.insert("limit", 1);
            (command, table)
        }
        Query::HourlyMaxima { hosts, window_ns } => {
            let hosts = doc! { "$in": hosts.as_slice() };
            maxima(Bson::Document(hosts), window_ns, HOUR_NS, &FIELDS)
        }
        Query::MinuteMaxima { host, window_ns } => {
            maxima(Bson::String(host.clone()), window_ns, MINUTE_NS, &FIELDS[..1])
        }
        Query::LastOfAll => {
            let newest = doc! { "$group": { "_id": "$hostname", "newest": { "$first": "$$ROOT" } } };
            let order = doc! { "$sort": { "hostname": 1, "ts": -1 } };
            aggregate("cpu", vec![order, newest, doc! { "$replaceRoot": { "newRoot": "$newest" } }])
        }
        Query::Tsbs(_) => return Err(NO_TEXT.into()),
    })
}

fn value(key: &Key) -> Bson {
    match key {
        Key::Int(number) => Bson::Int64(*number),
        Key::Text(name) => Bson::String(name.clone()),
    }
}

impl Connection for Collections {
    fn write(&mut self, writes: &[(&Table, RecordBatch)]) -> Outcome<()> {
        for (table, rows) in writes {
            let documents = (0..rows.num_rows()).map(|row| document(table, rows, row)).collect::<Outcome<Vec<_>>>()?;
            // A row without a time usually exists already; a reading does not.
            if table.key.contains(&"ts") {
                self.insert(table, documents)?;
            } else {
                self.replace(table, documents.into_iter())?;
            }
        }
        Ok(())
    }

    fn query(&mut self, query: &Query) -> Outcome<RecordBatch> {
        let (command, collection) = command(query)?;
        let mut builder = AnswerBuilder::new(&query.columns());
        if let Query::Count(_) = query {
            push(&mut builder, self.run(command)?.get("n"))?;
            return builder.finish();
        }
        for document in self.all(command, collection)? {
            for (name, kind) in query.columns() {
                // The time of a group is its `_id`.
                let is_bucket = kind == ColumnType::Time && !document.contains_key(name);
                push(&mut builder, document.get(if is_bucket { "_id" } else { name }))?;
            }
        }
        builder.finish()
    }
}

fn push(builder: &mut AnswerBuilder, value: Option<&Bson>) -> Outcome<()> {
    builder.push(match value {
        None | Some(Bson::Null) => Cell::Null,
        Some(Bson::Int32(value)) => Cell::Int(i64::from(*value)),
        Some(Bson::Int64(value)) => Cell::Int(*value),
        Some(Bson::Double(value)) => Cell::Float(*value),
        Some(Bson::String(text)) => Cell::Text(text),
        Some(json) if builder.expects() == ColumnType::Json => {
            return builder.push(Cell::Text(&serde_json::to_string(json)?));
        }
        Some(other) => return Err(format!("unexpected value {other}").into()),
    })
}
