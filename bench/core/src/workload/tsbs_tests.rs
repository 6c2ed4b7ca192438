//! Compares generated rows with rows written by TSBS itself (seed 123; 100 hosts for an hour, 50
//! trucks for two hours).

use super::cpu::{Cpu, FIELDS, TAGS};
use super::trucks::{DIAGNOSTICS, READINGS, Trucks};
use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Float64Type, Int64Type, TimestampNanosecondType};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A line of the sample. Its only spaces, commas and quotes are those of the protocol.
struct Line {
    table: String,
    tags: BTreeMap<String, String>,
    fields: BTreeMap<String, f64>,
    time: i64,
}

fn sample(name: &str) -> Option<Vec<Line>> {
    let path = Path::new(&std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"))
        .join("../../../shared/data")
        .join(name);
    let Ok(file) = std::fs::File::open(&path) else {
        println!("skipped: there is no TSBS sample {}", path.display());
        return None;
    };
    let text = String::from_utf8(zstd::decode_all(file).unwrap()).unwrap();
    let pairs = |text: &str| {
        let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
        pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect::<BTreeMap<_, _>>()
    };
    let line = |line: &str| {
        let [tags, fields, time] = line.split(' ').collect::<Vec<_>>().try_into().unwrap();
        let fields =
            pairs(fields).into_iter().map(|(name, value)| (name, value.trim_end_matches('i').parse().unwrap()));
        Line {
            table: tags.split(',').next().unwrap().to_owned(),
            tags: pairs(tags),
            fields: fields.collect(),
            time: time.parse().unwrap(),
        }
    };
    Some(text.lines().map(line).collect())
}

/// Converts our rows to lines.
fn lines(table: &str, tags: &[&str], batches: &[RecordBatch]) -> Vec<Line> {
    let mut lines = Vec::new();
    for batch in batches {
        let schema = batch.schema();
        for row in 0..batch.num_rows() {
            let mut line = Line { table: table.to_owned(), tags: BTreeMap::new(), fields: BTreeMap::new(), time: 0 };
            for (field, column) in
                schema.fields().iter().zip(batch.columns()).filter(|(_, column)| !column.is_null(row))
            {
                let name = field.name().clone();
                match column.data_type() {
                    DataType::Utf8 => {
                        assert!(tags.contains(&name.as_str()));
                        line.tags.insert(name, column.as_string::<i32>().value(row).to_owned());
                    }
                    DataType::Int64 => {
                        line.fields.insert(name, column.as_primitive::<Int64Type>().value(row) as f64);
                    }
                    DataType::Float64 => {
                        line.fields.insert(name, column.as_primitive::<Float64Type>().value(row));
                    }
                    _ => line.time = column.as_primitive::<TimestampNanosecondType>().value(row),
                }
            }
            lines.push(line);
        }
    }
    lines
}

/// The steps of a field between rows of a series ten seconds apart, and its values.
fn walks(lines: &[Line], key: &str, table: &str, field: &str) -> (Vec<f64>, Vec<f64>) {
    let mut series: BTreeMap<&str, BTreeMap<i64, f64>> = BTreeMap::new();
    for line in lines.iter().filter(|line| line.table == table) {
        if let (Some(key), Some(value)) = (line.tags.get(key), line.fields.get(field)) {
            series.entry(key).or_default().insert(line.time, *value);
        }
    }
    let mut steps = Vec::new();
    for rows in series.values() {
        steps.extend(rows.iter().filter_map(|(time, value)| Some(rows.get(&(time + 10_000_000_000))? - value)));
    }
    (steps, series.values().flat_map(BTreeMap::values).copied().collect())
}

fn moments(values: &[f64]) -> (f64, f64) {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    (mean, (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64).sqrt())
}

fn assert_close(what: &str, ours: f64, theirs: f64, tolerance: f64) {
    assert!((ours - theirs).abs() <= tolerance, "{what}: {ours}, TSBS {theirs}");
}

#[test]
fn hosts_are_as_those_of_tsbs() {
    let Some(theirs) = sample("cpu-only.lp.zst") else { return };
    let mut cpu = Cpu::part(123, 0..100, 100);
    let batches: Vec<RecordBatch> = (0..360).map(|_| cpu.batch().unwrap()).collect();
    let ours = lines("cpu", &TAGS, &batches);
    assert_eq!(ours.len(), theirs.len());
    // Row by row the same hosts at the same times, with the same columns.
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert_eq!((ours.time, &ours.tags["hostname"]), (theirs.time, &theirs.tags["hostname"]));
        assert!(ours.tags.keys().eq(theirs.tags.keys()) && ours.fields.keys().eq(theirs.fields.keys()));
    }
    // Every value of a tag in the sample also occurs in ours, given enough hosts.
    let many = lines("cpu", &TAGS, &[Cpu::part(123, 0..4_000, 4_000).batch().unwrap()]);
    let values = |lines: &[Line], tag: &str| lines.iter().map(|line| line.tags[tag].clone()).collect::<BTreeSet<_>>();
    for tag in TAGS {
        assert!(values(&theirs, tag).is_subset(&values(&many, tag)), "{tag}");
    }
    // 36,000 steps per field: the standard error of their mean is 0.006.
    for field in FIELDS {
        let ((our_steps, our_values), (their_steps, their_values)) =
            (walks(&ours, "hostname", "cpu", field), walks(&theirs, "hostname", "cpu", field));
        assert_eq!(our_steps.len(), their_steps.len());
        let (ours, theirs) = (moments(&our_steps), moments(&their_steps));
        assert_close(&format!("{field}'s mean step"), ours.0, theirs.0, 0.03);
        assert_close(&format!("{field}'s step"), ours.1, theirs.1, 0.03);
        // A hundred walks of an hour: their mean is that of a hundred draws from 0 to 100.
        assert_close(&format!("{field}'s mean"), moments(&our_values).0, moments(&their_values).0, 13.0);
        assert_close(&format!("{field}'s spread"), moments(&our_values).1, moments(&their_values).1, 6.0);
    }
}

#[test]
fn trucks_are_as_those_of_tsbs() {
    let Some(theirs) = sample("iot.lp.zst") else { return };
    let (readings, diagnostics) = Trucks::at_start().next(720).unwrap();
    let mut ours = lines("readings", &super::trucks::TAGS, &[readings]);
    ours.extend(lines("diagnostics", &super::trucks::TAGS, &[diagnostics]));
    assert_close("rows", ours.len() as f64, theirs.len() as f64, 0.01 * theirs.len() as f64);
    for (table, fields) in [("readings", READINGS.as_slice()), ("diagnostics", DIAGNOSTICS.as_slice())] {
        for field in fields {
            let share = |lines: &[Line]| {
                let of_table = || lines.iter().filter(|line| line.table == table);
                of_table().filter(|line| line.fields.contains_key(*field)).count() as f64 / of_table().count() as f64
            };
            // One in ten rows lacks a field: in the sample any of ten or six, in ours any of the
            // table's own.
            assert_close(&format!("rows with {field}"), share(&ours), share(&theirs), 0.03);
            let (ours, theirs) = (walks(&ours, "name", table, field).0, walks(&theirs, "name", table, field).0);
            if *field != "current_load" {
                let (ours, theirs) = (moments(&ours), moments(&theirs));
                assert_close(&format!("{field}'s step"), ours.1, theirs.1, 0.05 * theirs.1 + 1e-3);
            }
        }
    }
}
