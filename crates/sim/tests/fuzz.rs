//! The fuzz targets on random and on nearly valid bytes. `FLEETDB_SEED=<seed>` repeats a seed.

use fleetdb_sim::fuzz;
use rand::{Rng, RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

const SEEDS: u64 = 300;

fn each_seed(each: impl Fn(&mut Xoshiro256PlusPlus) + std::panic::RefUnwindSafe) {
    let given = std::env::var("FLEETDB_SEED").ok().and_then(|seed| seed.parse::<u64>().ok());
    for seed in given.map_or(0..SEEDS, |seed| seed..seed + 1) {
        let outcome = std::panic::catch_unwind(|| each(&mut Xoshiro256PlusPlus::seed_from_u64(seed)));
        assert!(outcome.is_ok(), "repeat with FLEETDB_SEED={seed}");
    }
}

fn bytes(random: &mut Xoshiro256PlusPlus, most: usize) -> Vec<u8> {
    let mut bytes = vec![0; random.random_range(1..most)];
    random.fill_bytes(&mut bytes);
    bytes
}

/// A section of the first table: one container, rows with times, one field.
fn section(random: &mut Xoshiro256PlusPlus) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut number = |n: u32| bytes.extend_from_slice(&n.to_le_bytes());
    number(0);
    number(random.random_range(0..5));
    number(1);
    number(3);
    bytes.extend_from_slice(&[1, b'k', 0, 0]);
    // Constant lanes: container 0, time 5, field 2 with value 9.
    bytes.push(0);
    bytes.extend_from_slice(&0u64.to_le_bytes());
    bytes.push(1);
    bytes.push(0);
    bytes.extend_from_slice(&5u64.to_le_bytes());
    bytes.extend_from_slice(&1u32.to_le_bytes());
    bytes.extend_from_slice(&2u32.to_le_bytes());
    bytes.extend_from_slice(&0u32.to_le_bytes());
    bytes.push(0);
    bytes.push(0);
    bytes.extend_from_slice(&9u64.to_le_bytes());
    bytes
}

#[test]
fn hostile_wal_frames_are_errors() {
    each_seed(|random| {
        fuzz::wal_frame(&bytes(random, 300));
        let mut nearly = section(random);
        for _ in 0..random.random_range(0..4) {
            let place = random.random_range(0..nearly.len());
            nearly[place] = random.random();
        }
        nearly.truncate(random.random_range(1..=nearly.len()));
        fuzz::wal_frame(&nearly);
    });
}

#[test]
fn hostile_manifest_edits_are_errors() {
    let edits = [
        r#"{"DropTable":{"table":0}}"#,
        r#"{"DropColumn":{"table":0,"column":3}}"#,
        r#"{"WidenColumn":{"table":0,"column":2,"column_type":"Float64"}}"#,
        r#"{"SetRetention":{"table":0,"seconds":100}}"#,
        r#"{"Compact":{"removed":[0],"sliced":[],"added":[]}}"#,
        r#"{"Compact":{"removed":[],"sliced":[[0,[{"from":0,"to":9,"rows":1}]]],"added":[]}}"#,
        r#"{"Flush":{"generation":2,"sequence":1,"segments":[],"deletes":[[0,{"id":9,"generation":2,"key":null,"from":0,"to":9}]]}}"#,
    ];
    each_seed(|random| {
        let mut edit = edits[random.random_range(0..edits.len())].as_bytes().to_vec();
        for _ in 0..random.random_range(0..3) {
            let place = random.random_range(0..edit.len());
            edit[place] = b"0123456789-,:{}[]\"null"[random.random_range(0..22)];
        }
        fuzz::manifest_edit(&edit);
    });
}

#[test]
fn hostile_segments_are_errors() {
    each_seed(|random| fuzz::segment(&bytes(random, 30)));
}

#[test]
fn hostile_lines_are_errors() {
    const PARTS: [&str; 14] =
        ["cpu", ",", "=", " ", "host=a", "v=1i", "v=1.5", "v=\"x", "\"", "\\", "1700000000", "-", "\n", "é"];
    each_seed(|random| {
        fuzz::line_protocol(&bytes(random, 200));
        let text: String = (0..40).map(|_| PARTS[random.random_range(0..PARTS.len())]).collect();
        fuzz::line_protocol(text.as_bytes());
    });
}
