//! Tests the engine against a model: an ordered map from (key, time) to a row.
//!
//! Random writes, overwrites, late rows, deletes, deletes of many single rows, transactions,
//! flushes, compactions, column changes, reopens, power cuts and scans. A failing case prints its
//! seed. `FLEETDB_SEED=<seed>` repeats it; `FLEETDB_CASES=<n>` sets the number of cases.

#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "model/buckets.rs"]
mod buckets;
#[path = "model/long_runs.rs"]
mod long_runs;
#[path = "model/ranges.rs"]
mod ranges;

use arrow::array::RecordBatch;
use arrow::compute::filter_record_batch;
use fleetdb_engine::io::{Io, MemoryStorage};
use fleetdb_engine::{
    ArrayElement, ArrayValue, Batch, ColumnDefinition, ColumnType, Database, Durability, Error, Merge, Overlay,
    Projection, Role, RowCondition, Rows, Scan, ScanRequest, Settings, TableDefinition, TableView, Unit, Uuid, Value,
    View,
};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Decimal numbers, which segments store in 4 and in 8 bytes.
const SHORT: ColumnType = ColumnType::Decimal { precision: 3, scale: 1 };
const LONG: ColumnType = ColumnType::Decimal { precision: 12, scale: 1 };

type Key = (Option<String>, i64);
type Row = (Option<i64>, Option<f64>, Option<String>, Option<i64>);

/// The UUID of an item.
fn uuid(id: i64) -> Uuid {
    Uuid::from_u128((id as u128) << 100 | id as u128)
}

/// The item that has a UUID.
fn id_of(uuid: &[u8]) -> i64 {
    Uuid::from_slice(uuid).unwrap().as_u128() as u64 as i64
}

fn document(id: i64) -> String {
    format!("{{\"id\": {id}}}")
}

/// The array of an item; it may be empty.
fn burst(id: i64) -> Vec<Option<i64>> {
    (0..id % 4).map(|place| (place != 1).then_some(id * place)).collect()
}

/// A row of the items.
fn item(id: i64, name: Value) -> [Value; 5] {
    let burst: Vec<Value> = burst(id).into_iter().map(|value| value.map_or(Value::Null, Value::Int)).collect();
    let burst = Value::Array(ArrayValue::new(ArrayElement::Int64, &burst).unwrap());
    [Value::Uuid(uuid(id)), name, Value::Int(id), Value::Text(document(id)), burst]
}

struct Case {
    random: Xoshiro256PlusPlus,
    storage: Arc<MemoryStorage>,
    db: Option<Database>,
    series: BTreeMap<Key, Row>,
    items: BTreeMap<i64, Option<String>>,
    has_extra: bool,
    /// Whether a new row keeps the old row's values of fields that it lacks.
    merges_fields: bool,
    /// The batches of an open transaction, already applied to the model.
    open: Option<(Overlay, Batch)>,
}

fn settings(random: &mut Xoshiro256PlusPlus) -> Settings {
    Settings {
        memtable_bytes: 64 << 10,
        cache_bytes: if random.random_bool(0.5) { 0 } else { 1 << 20 },
        scan_batch_rows: random.random_range(1..2000),
        scan_threads: random.random_range(1..4),
        ..Settings::default()
    }
}

fn text(value: &Option<String>) -> Value {
    value.as_ref().map_or(Value::Null, |v| Value::Text(v.clone()))
}

impl Case {
    fn new(seed: u64) -> Self {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let storage = MemoryStorage::new();
        let db = Database::open_with(Io::memory(Arc::clone(&storage)), settings(&mut random)).unwrap();
        let series = TableDefinition::new("series")
            .key("device", ColumnType::Utf8)
            .time("ts", Unit::Second)
            .field("i", ColumnType::Int64)
            .field("f", ColumnType::Float64)
            .field("s", ColumnType::Utf8);
        let has_long_runs = random.random_bool(long_runs::SHARE);
        let partition_s = if has_long_runs { 1_000_000 } else { [100, 1_000][random.random_range(0..2)] };
        let series = TableDefinition { partition_seconds: Some(partition_s), ..series };
        let merges_fields = random.random_bool(0.5);
        let merge = if merges_fields { Merge::Fields } else { Merge::Rows };
        let series = TableDefinition { merge, ..series };
        db.create_table(&series).unwrap();
        let items = TableDefinition::new("items").key("id", ColumnType::Uuid).field("name", ColumnType::Utf8);
        let items = items.field("at", ColumnType::Time).field("doc", ColumnType::Jsonb);
        db.create_table(&items.field("burst", ColumnType::Array(ArrayElement::Int64))).unwrap();
        let (series, items) = (BTreeMap::new(), BTreeMap::new());
        let mut case =
            Self { random, storage, db: Some(db), series, items, has_extra: false, merges_fields, open: None };
        if has_long_runs {
            long_runs::write(&mut case);
        }
        case
    }

    fn db(&self) -> &Database {
        self.db.as_ref().unwrap()
    }

    /// The database as it is, or as the open transaction sees it.
    fn view(&self) -> View {
        let view = self.db().view();
        match &self.open {
            Some((overlay, _)) => overlay.over(view),
            None => view,
        }
    }

    fn begin(&mut self) {
        self.open = Some(Default::default());
    }

    fn commit(&mut self) {
        if let Some((_, batch)) = self.open.take() {
            self.db().commit(batch.with_durability(Durability::Sync)).unwrap();
        }
    }

    /// Commits a batch, or adds it to the open transaction.
    fn take(&mut self, batch: Batch) {
        let view = self.db().view();
        match &mut self.open {
            Some((overlay, gathered)) => {
                overlay.add(&batch, &view).unwrap();
                *gathered = std::mem::take(gathered).append(batch);
            }
            None => drop(self.db().commit(batch.with_durability(Durability::Sync)).unwrap()),
        }
    }

    fn write(&mut self) {
        let schemas = self.db().tables();
        let (mut series, mut items) = (Rows::new(&schemas[0]), Rows::new(&schemas[1]));
        let most = if self.random.random_bool(0.1) { 3000 } else { 50 };
        let devices = self.random.random_range(1..8);
        let start = self.random.random_range(-3_000..3_000i64);
        // Like a tag: the same text, or NULL, in all rows.
        let tag =
            self.random.random_bool(0.4).then(|| [None, Some("same"), Some("other")][self.random.random_range(0..3)]);
        let has = if self.merges_fields && self.random.random_bool(0.7) { 0.4 } else { 0.9 };
        for step in 0..self.random.random_range(1..most) {
            let device = self.random.random_range(0..=devices);
            let device = (device > 0).then(|| format!("dev\0{device}"));
            let late = if self.random.random_bool(0.1) { self.random.random_range(-500..500) } else { 0 };
            let wild = if self.random.random_bool(0.001) { 3_000_000_000 } else { 0 };
            let time = start + step + late + wild;
            let i = self.random.random_bool(has).then(|| self.random.random_range(-50..50));
            let f = self.random.random_bool(has).then(|| self.random.random_range(-1.0..1.0));
            let s = match tag {
                Some(tag) => tag.map(str::to_owned),
                None if self.random.random_bool(0.2) => None,
                None if self.random.random_bool(0.5) => Some("same".to_owned()),
                None => Some(format!("v{}", self.random.random::<u16>())),
            };
            let extra = (self.has_extra && self.random.random_bool(0.5)).then(|| self.random.random_range(0..9));
            let mut row = vec![
                text(&device),
                Value::Int(time),
                i.map_or(Value::Null, Value::Int),
                f.map_or(Value::Null, Value::Float),
                text(&s),
            ];
            if self.has_extra {
                row.push(extra.map_or(Value::Null, Value::Int));
            }
            series.push(&row).unwrap();
            let row = self.series.entry((device, time)).or_default();
            let old = if self.merges_fields { std::mem::take(row) } else { Row::default() };
            *row = (i.or(old.0), f.or(old.1), s.or(old.2), extra.or(old.3));
            if self.random.random_bool(0.3) {
                let id = self.random.random_range(0..1500);
                let name = self.random.random_bool(0.9).then(|| format!("n{}", self.random.random::<u8>()));
                items.push(&item(id, text(&name))).unwrap();
                self.items.insert(id, name);
            }
        }
        let batch = if self.random.random_bool(0.5) {
            Batch::new().with_rows(series).with_rows(items)
        } else {
            Batch::new().with("series", series.finish().unwrap()).with("items", items.finish().unwrap())
        };
        self.take(batch);
    }

    fn delete(&mut self) {
        // A batch deletes only rows written before it.
        if self.open.as_ref().is_some_and(|(_, batch)| batch.rows() > 0) {
            return;
        }
        let device = self.random.random_range(0..8);
        let device = (device > 0).then(|| format!("dev\0{device}"));
        let all = self.random.random_bool(0.2);
        let from = self.random.random_range(-4_000..4_000);
        let span = if self.random.random_bool(0.1) {
            i64::MIN..=i64::MAX
        } else {
            from..=from + self.random.random_range(0..600)
        };
        let key = [text(&device)];
        let mut batch = Batch::new().delete("series", (!all).then_some(&key[..]), span.clone());
        self.series.retain(|(d, t), _| !((all || *d == device) && span.contains(t)));
        if self.random.random_bool(0.5) {
            let id = self.random.random_range(0..1500);
            batch = batch.delete("items", Some(&[Value::Uuid(uuid(id))]), ..);
            self.items.remove(&id);
            // A batch's rows come after its deletes.
            if self.random.random_bool(0.5) {
                let mut rows = Rows::new(&self.db().tables()[1]);
                rows.push(&item(id, Value::Text("again".into()))).unwrap();
                batch = batch.with_rows(rows);
                self.items.insert(id, Some("again".into()));
            }
        }
        self.take(batch);
    }

    /// Sets columns, possibly to NULL, of a container's rows within a time span.
    fn update(&mut self) {
        self.commit();
        let device = self.random.random_range(0..8);
        let device = (device > 0).then(|| format!("dev\0{device}"));
        let from = self.random.random_range(-3_500..3_500);
        let to = from + self.random.random_range(0..100);
        let i = self.random.random_bool(0.5).then(|| self.random.random_range(-50..50));
        let sets_text = self.random.random_bool(0.3);
        let mut values = vec![("i", i.map_or(Value::Null, Value::Int))];
        if sets_text {
            values.push(("s", Value::Null));
        }
        let request = ScanRequest::all().container(&[text(&device)]).from_time(from).to_time(to);
        let (count, _) = self.db().update("series", &request, &values).unwrap();
        let mut changed = 0;
        for (_, row) in self.series.iter_mut().filter(|((d, t), _)| *d == device && (from..=to).contains(t)) {
            row.0 = i;
            if sets_text {
                row.2 = None;
            }
            changed += 1;
        }
        assert_eq!(count, changed);
    }

    /// Deletes single rows all over the table by rewriting segments.
    fn delete_rows(&mut self) {
        use arrow::array::{AsArray, BooleanArray};
        use arrow::datatypes::Int64Type;
        self.commit();
        let (divisor, rest) = (self.random.random_range(1..5), self.random.random_range(0..3));
        let hit = move |i: Option<i64>| i.is_some_and(|i| i.rem_euclid(divisor) == rest);
        let stopped = self.random.random_bool(0.1);
        let go_on = || if stopped { Err(Error::invalid("stopped")) } else { Ok(()) };
        if self.random.random_bool(0.3) {
            let found = self.db().delete_rows(
                "items",
                |view, delete| {
                    view.table("items")?.scan(&ScanRequest::all())?.try_for_each(|rows| {
                        let rows = rows?;
                        let ids = rows.column(0).as_fixed_size_binary().iter();
                        let hits: BooleanArray = ids.map(|id| Some(hit(id.map(id_of)))).collect();
                        delete(&filter_record_batch(&rows, &hits)?)
                    })
                },
                || Ok(()),
            );
            let before = self.items.len();
            self.items.retain(|id, _| !hit(Some(*id)));
            assert_eq!(found.unwrap(), (before - self.items.len()) as u64);
            return;
        }
        let found = self.db().delete_rows(
            "series",
            |view, delete| {
                view.table("series")?.scan(&ScanRequest::all())?.try_for_each(|rows| {
                    let rows = rows?;
                    let hits: BooleanArray =
                        rows.column(2).as_primitive::<Int64Type>().iter().map(|i| Some(hit(i))).collect();
                    delete(&filter_record_batch(&rows, &hits)?)
                })
            },
            go_on,
        );
        let count = self.series.values().filter(|row| hit(row.0)).count() as u64;
        match found {
            Ok(found) => assert_eq!(found, count),
            // It stops before it writes anything, if there is anything to write.
            Err(_) => return assert!(stopped && count > 0),
        }
        self.series.retain(|_, row| !hit(row.0));
    }

    /// Adds, drops or widens a column.
    fn alter(&mut self) {
        self.commit();
        if self.has_extra && self.random.random_bool(0.5) {
            self.db().drop_column("series", "extra").unwrap();
            self.has_extra = false;
            self.series.values_mut().for_each(|row| row.3 = None);
        } else if !self.has_extra {
            let column_type = [ColumnType::Int64, ColumnType::Int16, SHORT][self.random.random_range(0..3)];
            let column = ColumnDefinition { name: "extra".into(), column_type, nullable: true, default: None };
            self.db().add_column("series", &column, Role::Field).unwrap();
            self.has_extra = true;
        } else {
            let wider = match self.db().tables()[0].columns[5].column_type {
                ColumnType::Int16 => ColumnType::Int64,
                SHORT => LONG,
                _ => return,
            };
            self.db().widen_column("series", "extra", wider).unwrap();
        }
    }

    fn check_last(&self) {
        use arrow::array::{Array, AsArray};
        use arrow::datatypes::{Int64Type, TimestampSecondType};
        let mut expected: BTreeMap<Option<String>, (i64, Option<i64>, Option<String>)> = BTreeMap::new();
        for ((device, time), row) in &self.series {
            expected.insert(device.clone(), (*time, row.0, row.2.clone()));
        }
        let view = self.view();
        let mut found = BTreeMap::new();
        for batch in view.table("series").unwrap().last_rows(&ScanRequest::all()).unwrap() {
            let batch = batch.unwrap();
            let (device, s) = (batch.column(0).as_string::<i32>(), batch.column(4).as_string::<i32>());
            let (ts, i) =
                (batch.column(1).as_primitive::<TimestampSecondType>(), batch.column(2).as_primitive::<Int64Type>());
            for row in 0..batch.num_rows() {
                let string = |a: &arrow::array::StringArray| (!a.is_null(row)).then(|| a.value(row).to_owned());
                let value = (ts.value(row), (!i.is_null(row)).then(|| i.value(row)), string(s));
                assert!(found.insert(string(device), value).is_none());
            }
        }
        assert_eq!(found, expected);
        let text = |text: &Option<String>| text.clone().map_or(Value::Null, Value::Text);
        let middle = self.series.keys().nth(self.series.len() / 2).map_or(0, |(_, time)| *time);
        for until in [i64::MAX, middle] {
            let request = ScanRequest::all().to_time(until);
            let found = view.table("series").unwrap().last_times(&request).unwrap().map(|found| found.unwrap());
            let found: Vec<_> = found.map(|found| (found.key[0].clone(), found.times.1)).collect();
            let mut last = BTreeMap::new();
            last.extend(self.series.keys().filter(|key| key.1 <= until).map(|(device, time)| (device, *time)));
            let last: Vec<_> = last.into_iter().map(|(device, time)| (text(device), time)).collect();
            assert_eq!(found, last);
        }
        for (device, (time, i, s)) in &expected {
            let series = view.table("series").unwrap();
            let row = series.container(&[text(device)]).unwrap().last_row().unwrap().unwrap();
            assert_eq!(
                [&row[0], &row[1], &row[2], &row[4]],
                [&text(device), &Value::Int(*time), &i.map_or(Value::Null, Value::Int), &text(s)]
            );
        }
    }

    fn reopen(&mut self, crash: bool) {
        self.commit();
        if crash {
            let keep = self.random.random_range(0..100);
            let after = self.storage.crash_keeping(|_, unsynced| unsynced * keep / 100);
            std::mem::forget(self.db.take());
            self.storage = after;
        } else {
            self.db.take().unwrap().close().unwrap();
        }
        let settings = settings(&mut self.random);
        self.db = Some(Database::open_with(Io::memory(Arc::clone(&self.storage)), settings).unwrap());
    }

    fn check_all(&self) {
        let view = self.view();
        let rows = read(view.table("series").unwrap(), &ScanRequest::all());
        let expected: Vec<_> = self.series.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
        assert_eq!(rows, expected);
        assert_eq!(view.table("series").unwrap().count().unwrap(), expected.len() as u64);
        let mut items = BTreeMap::new();
        for batch in view.table("items").unwrap().scan(&ScanRequest::all()).unwrap() {
            let batch = batch.unwrap();
            use arrow::array::{Array, AsArray};
            let names = batch.column(1).as_string::<i32>();
            let ids = batch.column(0).as_fixed_size_binary();
            let times = batch.column(2).as_primitive::<arrow::datatypes::Time64MicrosecondType>();
            let (docs, bursts) = (batch.column(3).as_string::<i32>(), batch.column(4).as_list::<i32>());
            for row in 0..batch.num_rows() {
                let name = (!names.is_null(row)).then(|| names.value(row).to_owned());
                let id = id_of(ids.value(row));
                assert_eq!((times.value(row), docs.value(row)), (id, document(id).as_str()));
                let array = bursts.value(row);
                let array: Vec<Option<i64>> = array.as_primitive::<arrow::datatypes::Int64Type>().iter().collect();
                assert_eq!(array, burst(id));
                assert!(items.insert(id, name).is_none(), "each key once");
            }
        }
        assert_eq!(items, self.items);
    }

    /// Scans the items whose names are not above a bound.
    fn check_items(&mut self, items: &TableView) {
        use arrow::array::AsArray;
        let bound = format!("n{}", self.random.random::<u8>());
        let expected = self.items.iter().filter(|(_, name)| name.as_ref().is_some_and(|name| *name <= bound));
        let expected: Vec<_> = expected.map(|(id, name)| (name.clone().unwrap(), *id)).collect();
        let test = move |rows: &RecordBatch| {
            Ok(rows.column(0).as_string::<i32>().iter().map(|name| name.map(|name| name <= bound.as_str())).collect())
        };
        let condition = RowCondition { places: vec![1], test: Arc::new(test), stack_bytes: 0 };
        let request = ScanRequest::all().columns(Projection::Places(vec![1, 0]));
        let mut found = Vec::new();
        for rows in items.scan_where(&request, condition).unwrap() {
            let rows = rows.unwrap();
            let (names, ids) = (rows.column(0).as_string::<i32>(), rows.column(1).as_fixed_size_binary());
            found.extend((0..rows.num_rows()).map(|row| (names.value(row).to_owned(), id_of(ids.value(row)))));
        }
        assert_eq!(found, expected);
    }

    fn check_some(&mut self) {
        let view = self.view();
        let items = view.table("items").unwrap();
        for _ in 0..20 {
            let id = self.random.random_range(0..1500);
            let row = items.container(&[Value::Uuid(uuid(id))]).unwrap().last_row().unwrap();
            assert_eq!(row, self.items.get(&id).map(|name| item(id, text(name)).to_vec()), "item {id}");
        }
        self.check_items(items);
        ranges::check_items(&mut self.random, items, &self.items);
        let table = view.table("series").unwrap();
        ranges::check_series(&mut self.random, table, &self.series);
        let device = self.random.random_range(0..8);
        let device = (device > 0).then(|| format!("dev\0{device}"));
        let from = self.random.random_range(-4_000..4_000);
        let to = from + self.random.random_range(0..2_000);
        let expected: Vec<_> = self
            .series
            .iter()
            .filter(|((d, t), _)| *d == device && (from..=to).contains(t))
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect();
        let request = ScanRequest::all().container(&[text(&device)]).from_time(from).to_time(to);
        assert_eq!(read(table, &request), expected);
        self.check_where(table, &request, &expected);
        let limit = self.random.random_range(0..20);
        let newest_first: Vec<_> = expected.iter().rev().cloned().collect();
        assert_eq!(read(table, &request.clone().newest_first()), newest_first);
        let few = limit.min(expected.len());
        assert_eq!(read(table, &request.clone().newest_first().limit(limit)), newest_first[..few]);
        assert_eq!(read(table, &request.limit(limit)), expected[..few]);
        let container = table.container(&[text(&device)]).unwrap();
        let sums = container.aggregate("i", from, to).unwrap();
        let values: Vec<i64> = expected.iter().filter_map(|(_, row)| row.0).collect();
        assert_eq!(sums.count, values.len() as u64);
        assert_eq!(sums.sum, (!values.is_empty()).then(|| values.iter().sum::<i64>() as f64));
        assert_eq!(sums.min, values.iter().min().map(|&v| v as f64));
        assert_eq!(sums.max, values.iter().max().map(|&v| v as f64));
        let all = container.aggregate("f", i64::MIN, i64::MAX).unwrap();
        let floats: Vec<f64> =
            self.series.iter().filter(|((d, _), _)| *d == device).filter_map(|(_, row)| row.1).collect();
        assert_eq!(all.count, floats.len() as u64);
        assert!((all.sum.unwrap_or(0.0) - floats.iter().sum::<f64>()).abs() < 1e-6);
        let newest = self.series.keys().filter(|(d, _)| *d == device).map(|(_, t)| *t).max();
        let last = container.last().unwrap().map(|batch| {
            use arrow::array::AsArray;
            batch.column(1).as_primitive::<arrow::datatypes::TimestampSecondType>().value(0)
        });
        assert_eq!(last, newest);
        let within = ScanRequest::all().from_time(from).to_time(to);
        let of_all: Vec<_> = self.series.iter().filter(|((_, t), _)| (from..=to).contains(t)).collect();
        let of_all: Vec<_> = of_all.into_iter().map(|(key, row)| (key.clone(), row.clone())).collect();
        self.check_where(table, &within, &of_all);
        let width = self.random.random_range(1..1_500);
        buckets::check(table, &within, width, self.random.random_bool(0.5), &of_all);
        let rows = table
            .scan(&ScanRequest::all().columns(Projection::Names(vec!["ts".into()])).from_time(from).to_time(to))
            .unwrap();
        let count: usize = rows.map(|batch| batch.unwrap().num_rows()).sum();
        assert_eq!(count, self.series.keys().filter(|(_, t)| (from..=to).contains(t)).count());
    }

    /// A condition evaluated during the scan returns exactly the rows that satisfy it.
    fn check_where(&self, table: &TableView, request: &ScanRequest, expected: &[(Key, Row)]) {
        use arrow::array::{Array, AsArray, BooleanArray};
        let divisor = [1, 2, 7, 1_000_000][expected.len() % 4];
        let holds = move |i: i64| i.rem_euclid(divisor) == 0;
        let test = move |rows: &RecordBatch| {
            let i = rows.column(0).as_primitive::<arrow::datatypes::Int64Type>();
            Ok((0..i.len()).map(|row| i.is_valid(row).then(|| holds(i.value(row)))).collect::<BooleanArray>())
        };
        let place = table.schema().column_index("i").unwrap();
        let condition = RowCondition { places: vec![place], test: Arc::new(test), stack_bytes: 0 };
        let of_i: Vec<_> = expected.iter().filter(|(_, row)| row.0.is_some_and(holds)).cloned().collect();
        assert_eq!(rows_of(table.scan_where(request, condition).unwrap()), of_i);
        // Conditions on texts, which may repeat in many rows, and on a key column.
        for (column, text) in [("s", "same"), ("device", "dev\x001")] {
            let test = move |rows: &RecordBatch| {
                let texts = rows.column(0).as_string::<i32>().iter();
                Ok(texts.map(|found| found.map(|found| found == text)).collect::<BooleanArray>())
            };
            let place = table.schema().column_index(column).unwrap();
            let condition = RowCondition { places: vec![place], test: Arc::new(test), stack_bytes: 0 };
            let holds = |(key, row): &&(Key, Row)| if column == "s" { &row.2 } else { &key.0 }.as_deref() == Some(text);
            let expected: Vec<_> = expected.iter().filter(holds).cloned().collect();
            assert_eq!(rows_of(table.scan_where(request, condition).unwrap()), expected);
        }
    }

    fn run(&mut self) {
        for _ in 0..self.random.random_range(3..25) {
            match self.random.random_range(0..32) {
                0..10 => self.write(),
                10..12 => self.db().flush().unwrap(),
                12 => self.reopen(false),
                13..15 => self.reopen(true),
                15 => self.alter(),
                16..19 => self.check_some(),
                19 => self.check_all(),
                20..23 => self.delete(),
                23 => self.check_last(),
                24 => self.db().compact().unwrap(),
                25..27 => self.update(),
                27..29 => self.delete_rows(),
                _ if self.open.is_none() => self.begin(),
                _ => self.commit(),
            }
        }
        self.check_all();
        self.reopen(true);
        self.check_all();
        self.check_last();
    }
}

fn read(table: &TableView, request: &ScanRequest) -> Vec<(Key, Row)> {
    rows_of(table.scan(request).unwrap())
}

fn rows_of(scan: Scan) -> Vec<(Key, Row)> {
    use arrow::array::{Array, AsArray};
    use arrow::datatypes::{Float64Type, Int64Type, TimestampSecondType};
    let mut rows = Vec::new();
    for batch in scan {
        let batch = batch.unwrap();
        let (device, s) = (batch.column(0).as_string::<i32>(), batch.column(4).as_string::<i32>());
        let ts = batch.column(1).as_primitive::<TimestampSecondType>();
        let (i, f) = (batch.column(2).as_primitive::<Int64Type>(), batch.column(3).as_primitive::<Float64Type>());
        let extra =
            batch.columns().get(5).map(|c| arrow::compute::cast(c, &arrow::datatypes::DataType::Int64).unwrap());
        let extra = extra.as_ref().map(|column| column.as_primitive::<Int64Type>());
        for row in 0..batch.num_rows() {
            let string = |a: &arrow::array::StringArray| (!a.is_null(row)).then(|| a.value(row).to_owned());
            rows.push((
                (string(device), ts.value(row)),
                (
                    (!i.is_null(row)).then(|| i.value(row)),
                    (!f.is_null(row)).then(|| f.value(row)),
                    string(s),
                    extra.and_then(|e| (!e.is_null(row)).then(|| e.value(row))),
                ),
            ));
        }
    }
    rows
}

#[test]
fn the_engine_agrees_with_an_ordered_map() {
    let number = |name: &str| std::env::var(name).ok().and_then(|v| v.parse::<u64>().ok());
    let cases = number("FLEETDB_CASES").unwrap_or(2_000);
    let seeds: Vec<u64> = number("FLEETDB_SEED").map_or((0..cases).collect(), |seed| vec![seed]);
    for seed in seeds {
        let outcome = std::panic::catch_unwind(|| Case::new(seed).run());
        if outcome.is_err() {
            panic!("case failed: repeat it with FLEETDB_SEED={seed}");
        }
    }
}
