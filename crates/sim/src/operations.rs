//! Operations on a database in use: schema changes, retention, backups.
//!
//! The series' column `extra` is added, widened and dropped; `text` is renamed. After a failed
//! schema change, both the old and the new schema are valid, so the model takes what the engine has
//! after the next open. Rows that retention ever hid may or may not be there ([`Forgotten`]).

use crate::model::{Change, Items, Row, Series};
use crate::run::Run;
use arrow::array::{Array, AsArray, BooleanArray, RecordBatch};
use arrow::compute::{cast, filter_record_batch};
use arrow::datatypes::{DataType, Decimal128Type, Int64Type, TimestampSecondType};
use fleetdb_engine::backup::restore;
use fleetdb_engine::inspect::check;
use fleetdb_engine::io::{Clock, MemoryStorage, Storage};
use fleetdb_engine::{
    Batch, Column, ColumnDefinition, ColumnType, Database, Decimal, ErrorKind, Result, Role, ScanRequest, Settings,
    TableSchema, Uuid, View,
};
use rand::Rng;
use std::sync::Arc;

/// The latest time that retention ever hid. A longer retention may or may not bring those rows
/// back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Forgotten(i64);

impl Default for Forgotten {
    fn default() -> Self {
        Self(i64::MIN)
    }
}

impl Forgotten {
    fn note(&mut self, expired: Option<i64>) {
        self.0 = self.0.max(expired.unwrap_or(i64::MIN));
    }

    /// The rows that were never hidden.
    pub(crate) fn leave_out(self, mut series: Series) -> Series {
        series.retain(|(_, time), _| *time > self.0);
        series
    }
}

impl Run {
    /// The latest second that the series' retention hides now. Records it as forgotten.
    pub(crate) fn expired(&mut self) -> Option<i64> {
        let retention_s = self.db().tables()[0].retention_seconds?;
        let expired = self.bound(retention_s);
        self.forgotten.note(Some(expired));
        Some(expired)
    }

    fn bound(&self, retention_s: i64) -> i64 {
        self.clock.wall_ns().div_euclid(1_000_000_000) - retention_s - 1
    }

    /// The rows that must be there: those never hidden, with the current extra column only.
    pub(crate) fn visible(&mut self) -> (Series, Items) {
        // The clock has advanced since the rows were read.
        self.expired();
        let column = extra(&self.db().tables()[0]).map(|column| column.id.0);
        let (series, items) = self.model.rows();
        let mut series = self.forgotten.leave_out(series.clone());
        for row in series.values_mut() {
            row.extra = row.extra.filter(|(of, _)| Some(*of) == column);
        }
        (series, items.clone())
    }

    /// Makes a random change to the series' schema.
    pub(crate) fn alter(&mut self) {
        let schema = self.db().tables().swap_remove(0);
        let extra = extra(&schema);
        let choice = self.random.random_range(0..4);
        let db = self.db();
        // A change that returns an error on a failing disk may or may not have happened.
        let _ = match (choice, extra) {
            (0, _) => {
                let renamed = if schema.find("text").is_some() { ("text", "words") } else { ("words", "text") };
                db.rename_column("series", renamed.0, renamed.1)
            }
            (_, None) => {
                let column = ColumnDefinition {
                    name: "extra".to_owned(),
                    column_type: ColumnType::Int32,
                    nullable: true,
                    default: None,
                };
                db.add_column("series", &column, Role::Field)
            }
            (1, Some(column)) if column.column_type == ColumnType::Int32 => {
                db.widen_column("series", "extra", ColumnType::Int64)
            }
            _ => db.drop_column("series", "extra"),
        };
    }

    /// Sets a random retention, or none, and lets some time pass.
    pub(crate) fn retain(&mut self) {
        self.expired();
        let seconds = self.random.random_bool(0.7).then(|| self.random.random_range(1..2_000));
        // Recorded first: a crash leaves either the old or the new one.
        self.forgotten.note(seconds.map(|seconds| self.bound(seconds) + 1));
        self.db().set_retention("series", seconds).ok();
        self.clock.advance(self.random.random_range(0..20) * 1_000_000_000);
    }

    /// Deletes single rows all over the series by rewriting its segments.
    pub(crate) fn delete_values(&mut self) {
        let divisor = self.random.random_range(1..4);
        let delete = Change::DeleteValues(divisor, self.random.random_range(0..divisor));
        self.expired();
        let find = |view: &View, found: &mut dyn FnMut(&RecordBatch) -> Result<()>| {
            view.table("series")?.scan(&ScanRequest::all())?.try_for_each(|rows| {
                let rows = rows?;
                let values = rows.column(2).as_primitive::<Int64Type>().values();
                let hits: BooleanArray = values.iter().map(|value| Some(delete.hits(*value))).collect();
                found(&filter_record_batch(&rows, &hits).expect("as many as there are rows"))
            })
        };
        let outcome = self.db().delete_rows("series", find, || Ok(()));
        self.expired();
        match outcome {
            Ok(_) => self.model.delete_values(delete),
            Err(_) => {
                // While the log accepts batches, or will once there is room, the outcome is known:
                // nothing happened.
                let refused = self.db().commit(Batch::new()).err();
                let is_known = refused.is_none_or(|error| error.kind() == ErrorKind::Retry);
                self.model.doubt((!is_known).then_some(delete));
            }
        }
    }

    /// Decides from the rows read whether a delete that returned an error is done.
    pub(crate) fn settle(&mut self, found: &Series) {
        let column = extra(&self.db().tables()[0]).map(|column| column.id.0);
        let forgotten = self.forgotten;
        let found = forgotten.leave_out(found.clone());
        self.model.settle(|series| {
            let mut series = forgotten.leave_out(series.clone());
            for row in series.values_mut() {
                row.extra = row.extra.filter(|(of, _)| Some(*of) == column);
            }
            series == found
        });
    }

    /// Backs up the database on top of older backups, and opens the copy.
    pub(crate) fn back_up(&mut self) {
        let destination = self.io_over(Arc::clone(&self.backup) as Arc<dyn Storage>);
        match self.db().backup(&destination, |_, _| ()) {
            Ok(report) => {
                self.model.all_durable();
                assert_eq!(report.sequence, self.model.sequence(), "a backup without the last batches");
                let to = self.io_over(MemoryStorage::new());
                restore(&destination, &to, |_, _| ()).expect("a backup that was made is restored");
                let db = Database::open_with(to, Settings::default()).expect("a restored backup opens");
                let (series, items) = read(&db);
                let (expected_series, expected_items) = self.visible();
                assert!(
                    self.forgotten.leave_out(series) == expected_series,
                    "the rows of the series in the backup differ"
                );
                assert!(items == expected_items, "the rows of the collection in the backup differ");
            }
            Err(_) => {
                // Without an older backup there is no manifest to check.
                if let Ok(report) = check(&destination, |_, _| ()) {
                    assert!(
                        report.problems.is_empty(),
                        "a failed backup damaged the previous one: {:?}",
                        report.problems
                    );
                }
            }
        }
    }
}

/// The series' column that comes and goes.
fn extra(series: &TableSchema) -> Option<&Column> {
    series.columns.iter().find(|column| column.name == "extra")
}

/// All rows of a database.
pub(crate) fn read(db: &Database) -> (Series, Items) {
    let view = db.view();
    let (mut series, mut items) = (Series::new(), Items::new());
    let table = view.table("series").expect("it exists");
    let extra = extra(table.schema()).map(|column| column.id.0);
    for batch in table.scan(&ScanRequest::all()).expect("it reads") {
        let batch = batch.expect("it reads");
        let times = batch.column(1).as_primitive::<TimestampSecondType>();
        let numbers = |place: usize| batch.column(place).as_primitive::<Int64Type>();
        let text = batch.column(3).as_string::<i32>();
        let extras = extra.map(|id| (id, cast(batch.column(4), &DataType::Int64).expect("an integer is one")));
        for row in 0..batch.num_rows() {
            let known = extras.as_ref().filter(|(_, values)| values.is_valid(row));
            let extra = known.map(|(id, values)| (*id, values.as_primitive::<Int64Type>().value(row)));
            let (value, text) = (numbers(2).value(row), text.value(row).to_owned());
            series.insert((numbers(0).value(row), times.value(row)), Row { value, text, extra });
        }
    }
    for batch in view.table("items").expect("it exists").scan(&ScanRequest::all()).expect("it reads") {
        let batch = batch.expect("it reads");
        let numbers = |place: usize| batch.column(place).as_primitive::<Int64Type>();
        let prices = batch.column(2).as_primitive::<Decimal128Type>();
        let (tags, docs) = (batch.column(3).as_fixed_size_binary(), batch.column(4).as_string::<i32>());
        let bursts = batch.column(5).as_list::<i32>();
        for row in 0..batch.num_rows() {
            let value = numbers(1).value(row);
            assert_eq!(prices.value(row), price(value).unscaled.into(), "the price of {value}");
            assert_eq!((tags.value(row), docs.value(row)), (&tag(value).as_bytes()[..], doc(value).as_str()));
            let array = bursts.value(row);
            let array: Vec<&str> = array.as_string::<i32>().iter().flatten().collect();
            assert_eq!(array, burst(value));
            items.insert(numbers(0).value(row), value);
        }
    }
    (series, items)
}

/// The number of digits of a price, and that of those after the decimal point.
pub(crate) const PRICE_DIGITS: (u8, u8) = (12, 3);

/// The UUID of an item with this value.
pub(crate) fn tag(value: i64) -> Uuid {
    Uuid::from_u128(u128::from(value as u64) << 64 | u128::from(value as u64))
}

/// The JSON of an item with this value.
pub(crate) fn doc(value: i64) -> String {
    format!("{{\"value\": {value}}}")
}

/// The array of an item with this value; it may be empty.
pub(crate) fn burst(value: i64) -> Vec<String> {
    (0..value.rem_euclid(4)).map(|place| format!("{}", value % (place + 7))).collect()
}

/// The price of an item with this value.
pub(crate) fn price(value: i64) -> Decimal {
    Decimal { unscaled: value % 1_000_000_000_000, scale: PRICE_DIGITS.1 }
}
