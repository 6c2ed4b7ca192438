use super::*;
use crate::column_type::ColumnType;
use crate::db::Database;
use crate::io::{Io, MemoryStorage};
use crate::scan::Projection;
use crate::schema::TableDefinition;
use crate::settings::Settings;
use crate::write::batch::{Batch, Rows};
use crate::write::from_arrow::rows_of;
use arrow::array::{AsArray, BooleanArray};
use arrow::datatypes::Int64Type;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::sync::Arc;

const PLACES: [usize; 3] = [2, 1, 0];

/// Rows that a scan yields, in the order of [`PLACES`].
fn values(table: &TableView, request: &ScanRequest, condition: Option<RowCondition>) -> Vec<Vec<Value>> {
    let request = request.clone().columns(Projection::Places(PLACES.to_vec()));
    let scan = match condition {
        None => table.scan(&request).unwrap(),
        Some(condition) => table.scan_where(&request, condition).unwrap(),
    };
    let mut rows = Vec::new();
    for batch in scan {
        let batch = batch.unwrap();
        let in_order = batch.project(&[2, 1, 0]).unwrap();
        rows.extend(rows_of(table.schema(), &in_order).unwrap());
    }
    rows
}

#[test]
fn rows_in_memory_are_those_of_a_merge() {
    let mut in_memory = 0;
    for seed in 0..300 {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let db = Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
        let definition = TableDefinition::new("t").key("id", ColumnType::Int64);
        let definition = definition.field("n", ColumnType::Int64).field("text", ColumnType::Utf8);
        let schema = db.create_table(&definition).unwrap();
        for _ in 0..random.random_range(1..6) {
            let mut rows = Rows::new(&schema);
            for _ in 0..random.random_range(1..12) {
                let number = match random.random_bool(0.2) {
                    true => Value::Null,
                    false => Value::Int(random.random_range(0..100)),
                };
                let text = Value::Text(format!("text {}", random.random_range(0..5)));
                rows.push(&[Value::Int(random.random_range(0..12)), number, text]).unwrap();
            }
            db.commit(Batch::new().with_rows(rows)).unwrap();
            if random.random_bool(0.4) {
                let id = Value::Int(random.random_range(0..12));
                db.commit(Batch::new().delete("t", Some(&[id]), i64::MIN..=i64::MAX)).unwrap();
            }
            if random.random_bool(0.2) {
                db.flush().unwrap();
            }
        }
        let view = db.view();
        let table = view.table("t").unwrap();
        let all = values(table, &ScanRequest::all(), None);
        for _ in 0..10 {
            let ids: Vec<i64> = (0..random.random_range(1..4)).map(|_| random.random_range(0..12)).collect();
            let request = ids.iter().fold(ScanRequest::all(), |request, id| request.container(&[Value::Int(*id)]));
            let limit = random.random_bool(0.3).then(|| random.random_range(1..4));
            let request = ScanRequest { limit, newest_first: random.random_bool(0.1), ..request };
            let bounds = table.bounds(&request).unwrap();
            in_memory += usize::from(table.scan_in_memory(&request, &bounds, &PLACES, None).unwrap().is_some());
            let mut expected: Vec<_> = all.clone();
            expected.retain(|row| ids.iter().any(|id| row[0] == Value::Int(*id)));
            expected.truncate(limit.unwrap_or(usize::MAX));
            assert_eq!(values(table, &request, None), expected, "seed {seed}");
            let least = *[10, 50, 90].choose(&mut random).unwrap();
            let test = move |rows: &RecordBatch| {
                let numbers = rows.column(0).as_primitive::<Int64Type>().iter();
                Ok(numbers.map(|number| number.map(|number| number >= least)).collect::<BooleanArray>())
            };
            let condition = RowCondition { places: vec![1], test: Arc::new(test), stack_bytes: 0 };
            expected.retain(|row| matches!(row[1], Value::Int(number) if number >= least));
            assert_eq!(values(table, &request, Some(condition)), expected, "seed {seed}");
        }
    }
    assert!(in_memory > 100, "{in_memory}");
}
