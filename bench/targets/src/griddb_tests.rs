use super::{Address, Client, Stored, tier};
use crate::griddb_program::{Program, Request, Speaker, missing};
use arrow::array::RecordBatch;
use fleetdb_bench_core::answer::{AnswerBuilder, Cell, cells};
use fleetdb_bench_core::query::{Key, Query};
use fleetdb_bench_core::table::{Column, ColumnType, Table};
use fleetdb_bench_core::target::{Connection, Tier};
use fleetdb_bench_core::workload::series::Series;
use fleetdb_bench_core::workload::{cpu, meters};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// What the suite asks (`>`) and the Java program answers (`<`) when [`experiments`] run.
const CONVERSATION: &str = include_str!("griddb_conversation.txt");
/// The URL of a server without the tables of the experiments. With `FLEETDB_BLESS=1`, what is said
/// with it becomes the conversation.
const SERVER: &str = "FLEETDB_GRIDDB";

const START_NS: i64 = 1_767_225_600_000_000_000;
const HOUR_NS: i64 = 3_600_000_000_000;

fn batch(columns: &[Column], rows: &[Vec<Cell<'_>>]) -> RecordBatch {
    let mut builder = AnswerBuilder::new(columns);
    rows.iter().flatten().for_each(|cell| builder.push(*cell).unwrap());
    builder.finish().unwrap()
}

fn reading(hour: i64, usage: f64) -> Vec<Cell<'static>> {
    let key = [Cell::Int(7), Cell::Time(START_NS + hour * HOUR_NS), Cell::Float(usage)];
    key.into_iter().chain([Cell::Float(0.5); 6]).chain([Cell::Int(0), Cell::Null]).collect()
}

fn host(name: &str, second: i64, usage: i64) -> Vec<Cell<'_>> {
    let tags = [Cell::Text(name)].into_iter().chain([Cell::Text("t"); 9]);
    tags.chain([Cell::Time(START_NS + second * 1_000_000_000)]).chain([Cell::Int(usage); 10]).collect()
}

/// Rows and queries of all experiments, and what they must give.
fn experiments(program: Speaker, address: &Address) {
    let [meters, reads] = meters::tables();
    let (records, points) = (Series::Records.table(), Series::Datapoints.table());
    let cpu = cpu::cpu_table();
    let tables = [&meters, &reads, &records, &points, &cpu].map(|table| Stored::of(table).unwrap());
    let mut client = Client::open(program, address, &tables, &Arc::default()).unwrap();
    client.make_sure_of_none().unwrap();
    let is = |client: &mut Client, query: &Query, rows: &[Vec<Cell<'_>>]| {
        assert_eq!(client.query(query).unwrap(), batch(&query.columns(), rows), "{query:?}");
    };
    let write = |client: &mut Client, writes: &[(&Table, &[Vec<Cell<'_>>])]| {
        let writes: Vec<_> = writes.iter().map(|(table, rows)| (*table, batch(&table.columns, rows))).collect();
        client.write(&writes).unwrap();
    };

    let mut meter = vec![Cell::Int(7), Cell::Text("It's \\ a\ttab")];
    meter.extend([Cell::Text(""); 6].into_iter().chain([Cell::Time(START_NS), Cell::Float(52.5), Cell::Null]));
    let meter = [meter];
    write(&mut client, &[(&meters, &meter), (&reads, &[reading(0, 1.5)])]);
    write(&mut client, &[(&meters, &meter), (&reads, &[reading(1, 2.0)])]);
    write(&mut client, &[(&reads, &[reading(1, 2.25), reading(2, 0.25)])]);
    is(&mut client, &Query::Count("meters"), &[vec![Cell::Int(1)]]);
    is(&mut client, &Query::Count("meter_reads"), &[vec![Cell::Int(3)]]);
    let window_ns = (START_NS, START_NS + 2 * HOUR_NS);
    is(&mut client, &Query::Bill { meter: 7, window_ns }, &[vec![Cell::Float(3.75)]]);
    let of = Arc::new(reads.clone());
    is(&mut client, &Query::Rows { of, key: Key::Int(7), window_ns }, &[reading(0, 1.5), reading(1, 2.25)]);
    let refused = batch(&reads.columns, &[reading(3, 1.0), reading(-500_000, 1.0)]);
    let error = client.write(&[(&reads, refused)]).unwrap_err();
    assert!(error.to_string().contains("out of range"), "{error}");
    is(&mut client, &Query::Count("meter_reads"), &[vec![Cell::Int(3)]]);
    let infinite = [reading(3, f64::INFINITY), reading(4, f64::NEG_INFINITY)];
    write(&mut client, &[(&reads, &infinite)]);
    let (of, window_ns) = (Arc::new(reads.clone()), (START_NS + 3 * HOUR_NS, START_NS + 5 * HOUR_NS));
    is(&mut client, &Query::Rows { of, key: Key::Int(7), window_ns }, &infinite);
    let window_ns = (START_NS + 5 * HOUR_NS, START_NS + 6 * HOUR_NS);
    is(&mut client, &Query::Bill { meter: 7, window_ns }, &[vec![Cell::Null]]);
    is(&mut client, &Query::Bill { meter: 8, window_ns }, &[vec![Cell::Null]]);

    let hosts = [host("host_1", 0, 3), host("host_2", 0, 4), host("host_1", 60, 9), host("host_2", 60, 1)];
    write(&mut client, &[(&cpu, &hosts)]);
    is(&mut client, &Query::LastOfAll, &[host("host_1", 60, 9), host("host_2", 60, 1)]);
    let of = Arc::new(cpu.clone());
    is(&mut client, &Query::Last { of, key: Key::Text("host_2".to_owned()) }, &[host("host_2", 60, 1)]);
    let window_ns = (START_NS, START_NS + 180_000_000_000);
    let minute = |place: i64, usage| vec![Cell::Time(START_NS + place * 60_000_000_000), Cell::Int(usage)];
    let query = Query::MinuteMaxima { host: "host_1".to_owned(), window_ns };
    is(&mut client, &query, &[minute(0, 3), minute(1, 9)]);
    let query = Query::HourlyMaxima { hosts: ["host_1", "host_2"].map(str::to_owned).to_vec(), window_ns };
    let hour = [Cell::Time(START_NS)].into_iter().chain([Cell::Int(9); 10]).collect();
    is(&mut client, &query, &[hour]);

    let record = |place: i64, text| vec![Cell::Int(3), Cell::Time(START_NS + place * 1_000_000), Cell::Text(text)];
    write(&mut client, &[(&records, &[record(0, "first"), record(1, "second\n")])]);
    let window_ns = (START_NS + 1, START_NS + 1_000_001);
    is(&mut client, &Query::Rows { of: Arc::new(records), key: Key::Int(3), window_ns }, &[record(1, "second\n")]);

    let point = |us: i64, m| [Cell::Int(1), Cell::Time(START_NS + us * 1_000)].into_iter().chain([Cell::Int(m); 5]);
    write(&mut client, &[(&points, &[point(1, 5).collect()])]);
    write(&mut client, &[(&points, &[point(2, 6).collect()])]);
    let window_ns = (START_NS + 1_000, START_NS + 2_000);
    let query = Query::Rows { of: Arc::new(points), key: Key::Int(1), window_ns };
    is(&mut client, &query, &[point(1, 5).collect()]);

    let error = client.program.ask(&Request::of(&["nonsense"])).unwrap_err();
    assert_eq!(error.to_string(), "unknown request nonsense");
    client.drop_all().unwrap();
    client.make_sure_of_none().unwrap();
}

/// A request or an answer.
fn message(from: &mut impl BufRead) -> Option<String> {
    let mut message = String::new();
    loop {
        let start = message.len();
        if from.read_line(&mut message).unwrap() == 0 {
            return None;
        }
        if message[start..] == *"\\.\n" || message[start..].starts_with("\\!") {
            return Some(message);
        }
    }
}

/// A request as it is written down: without the address and the password.
fn shown(request: &str) -> &str {
    if request.starts_with("open\n") { "open\n\\.\n" } else { request }
}

/// Runs the experiments with a program that answers like this, and returns what was said.
fn conversation(address: &Address, mut answer: impl FnMut(&str) -> String + Send + 'static) -> String {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let answering = std::thread::spawn(move || {
        let mut requests = BufReader::new(theirs.try_clone().unwrap());
        let mut said = String::new();
        while let Some(request) = message(&mut requests) {
            let answer = answer(&request);
            theirs.write_all(answer.as_bytes()).unwrap();
            shown(&request).lines().for_each(|line| said += &format!("> {line}\n"));
            answer.lines().for_each(|line| said += &format!("< {line}\n"));
        }
        said
    });
    experiments(Speaker::new(ours), address);
    answering.join().unwrap()
}

/// The lines of one side, from the first one on as long as it speaks.
fn side(lines: &mut std::iter::Peekable<std::str::Lines<'_>>, mark: &str) -> String {
    let mut said = String::new();
    while let Some(line) = lines.next_if(|line| line.starts_with(mark)) {
        said += &line[mark.len()..];
        said.push('\n');
    }
    said
}

#[test]
fn the_answers_of_a_conversation_are_the_rows_of_the_experiments() {
    let address = Address::of("griddb://user:word@host:10001/cluster").unwrap();
    let mut lines = CONVERSATION.lines().peekable();
    let said = conversation(&address, move |request| {
        let (expected, answer) = (side(&mut lines, "> "), side(&mut lines, "< "));
        if shown(request) == expected { answer } else { format!("\\!{request:?} instead of {expected:?}\n") }
    });
    assert_eq!(said, CONVERSATION, "the conversation goes on");
}

#[test]
fn a_server_gives_the_same_rows() {
    let Ok(url) = std::env::var(SERVER) else { return };
    let directory = tempfile::tempdir().unwrap();
    let program = Program::start(directory.path()).unwrap();
    let mut asked = program.connect().unwrap();
    let mut answers = BufReader::new(asked.try_clone().unwrap());
    let said = conversation(&Address::of(&url).unwrap(), move |request| {
        asked.write_all(request.as_bytes()).unwrap();
        message(&mut answers).unwrap()
    });
    if std::env::var_os("FLEETDB_BLESS").is_some() {
        std::fs::write("src/griddb_conversation.txt", said).unwrap();
    }
}

#[test]
fn the_java_program_compiles_and_says_what_it_cannot_do() {
    if let Some(missing) = missing() {
        println!("skipped: GridDB's Java program: {missing}");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let program = Program::start(directory.path()).unwrap();
    let mut speaker = Speaker::new(program.connect().unwrap());
    let mut error = |words: &[&str]| speaker.ask(&Request::of(words)).unwrap_err().to_string();
    assert_eq!(error(&["a\tword \\"]), "unknown request a\tword \\");
    assert_eq!(error(&["list"]), "nothing was opened");
    assert_eq!(error(&["rows", "cpu"]), "unknown table cpu");
    let mut other = Speaker::new(program.connect().unwrap());
    assert!(other.ask(&Request::of(&["list"])).is_err(), "it serves several connections");
}

#[test]
fn a_url_names_the_cluster_and_says_how_durable_it_is() {
    let address = Address::of("griddb://admin:a@b@10.0.0.1:10001/cluster").unwrap();
    assert_eq!((address.password.as_str(), address.host.as_str(), address.port.as_str()), ("a@b", "10.0.0.1", "10001"));
    let mode = |url: &str| Address::of(url).unwrap().log_write_mode().0;
    assert_eq!(tier(mode("griddb://u:p@h:1/c")), Tier::T2, "GridDB's default is a second");
    assert_eq!(tier(mode("griddb://u:p@h:1/c?log_write_mode=0")), Tier::T3);
    assert_eq!(tier(mode("griddb://u:p@h:1/c?database=mine&log_write_mode=-1")), Tier::T3);
    assert_eq!(Address::of("griddb://u:p@h:1/c?version=5.9.0").unwrap().version(), "5.9.0");
    let wrong =
        ["http://u:p@h:1/c", "griddb://h:1/c", "griddb://u:p@h/c", "griddb://u:p@h:1", "griddb://u:p@h:1/c?tls"];
    for url in wrong.into_iter().chain(["griddb://u:p@h:1/c?log_write_mode=x"]) {
        let error = Address::of(url).unwrap_err().to_string();
        assert!(error.starts_with(url), "{error}");
    }
}

#[test]
fn keys_name_containers_and_other_keys_are_refused() {
    let stored = Stored::of(&cpu::cpu_table()).unwrap();
    assert_eq!(stored.container(Cell::Text("host_1")).unwrap(), "cpu_host_1");
    assert_eq!(stored.container(Cell::Text("Ä b-")).unwrap(), "cpu_-c3-84-20b-2d");
    assert_eq!(stored.container(Cell::Int(-4)).unwrap(), "cpu_-4");
    assert!(stored.container(Cell::Null).is_err());
    let columns = vec![("a", ColumnType::Int), ("b", ColumnType::Int)];
    let table = Table { name: "pairs", columns, key: &["a", "b"] };
    let error = Stored::of(&table).err().map(|error| error.to_string()).unwrap_or_default();
    assert!(error.starts_with("pairs: its key (a, b) is neither"), "{error}");
    let row = batch(&cpu::cpu_columns(), &[host("host_1", 0, 1)]);
    let first = cells(&row, 0).nth(stored.places[0]).unwrap();
    assert_eq!(first, Cell::Time(START_NS), "a container's row key comes first");
}
