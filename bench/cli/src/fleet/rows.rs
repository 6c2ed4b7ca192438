//! The rows of E2, as the vehicles write them and the server must have them.

use super::side::Place;
use arrow::array::{AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use fleetdb_bench_core::Outcome;
use fleetdb_bench_core::workload::cpu::Cpu;
use fleetdb_engine::io::Io;
use fleetdb_engine::{ColumnDefinition, ColumnType};
use fleetdb_engine::{Reader, ScanRequest, Settings, TableDefinition, Unit};
use std::hash::{DefaultHasher, Hash, Hasher};

/// A row each ten seconds.
pub const ROWS_AN_HOUR: u64 = 360;
pub const TABLE: &str = "cpu";

/// The rows of all hosts, in batches of one row of each.
pub fn all(seed: u64, hosts: u64) -> Cpu {
    Cpu::part(seed, 0..hosts as usize, hosts as usize)
}

/// The table of the vehicles and of the server.
pub fn table(batch: &RecordBatch) -> TableDefinition {
    let mut table = TableDefinition::new(TABLE).key("hostname", ColumnType::Utf8).time("ts", Unit::Nanosecond);
    for field in batch.schema_ref().fields().iter().filter(|field| !["hostname", "ts"].contains(&field.name().as_str()))
    {
        let column_type = if field.data_type() == &DataType::Int64 { ColumnType::Int64 } else { ColumnType::Utf8 };
        let name = field.name().clone();
        table.columns.push(ColumnDefinition { name, column_type, nullable: true, default: None });
    }
    table
}

/// A number of rows and a sum over them that does not depend on their order.
#[derive(Debug, Default, PartialEq)]
struct Sum {
    rows: u64,
    hash: u64,
}

impl Sum {
    fn add(&mut self, batch: &RecordBatch, names: &[String]) -> Outcome<()> {
        let mut hashers = vec![DefaultHasher::new(); batch.num_rows()];
        for name in names {
            let column = batch.column_by_name(name).ok_or_else(|| format!("there is no column {name}"))?;
            if matches!(column.data_type(), DataType::Int64 | DataType::Timestamp(..)) {
                let numbers = cast(column, &DataType::Int64)?;
                let numbers = numbers.as_primitive::<Int64Type>().values();
                hashers.iter_mut().zip(numbers).for_each(|(hasher, number)| number.hash(hasher));
            } else {
                let texts = cast(column, &DataType::Utf8)?;
                let texts = texts.as_string::<i32>();
                hashers.iter_mut().zip(texts).for_each(|(hasher, text)| text.hash(hasher));
            }
        }
        self.rows += hashers.len() as u64;
        self.hash = hashers.iter().fold(self.hash, |sum, hasher| sum.wrapping_add(hasher.finish()));
        Ok(())
    }
}

/// What the server has that differs from what was generated.
pub fn difference(place: &Place, rows: u64) -> Outcome<Option<String>> {
    let mut cpu = all(place.seed, place.hosts);
    let (mut wanted, mut names) = (Sum::default(), Vec::new());
    while wanted.rows < rows {
        let batch = cpu.batch()?;
        if names.is_empty() {
            names = batch.schema_ref().fields().iter().map(|field| field.name().clone()).collect();
        }
        wanted.add(&batch, &names)?;
    }
    let reader = Reader::open(Io::files(place.directory().join("server")), Settings::default())?;
    let mut found = Sum::default();
    for batch in reader.view().table(TABLE)?.scan(&ScanRequest::all())? {
        found.add(&batch?, &names)?;
    }
    Ok((wanted != found).then(|| format!("the server has {found:?}, but the vehicles wrote {wanted:?}")))
}
