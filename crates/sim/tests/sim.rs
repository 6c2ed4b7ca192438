//! The simulator's fixed seeds, some fresh ones, and a crash at every sync of one script in every mode.
//! `FLEETDB_SEED=<seed>` repeats a seed; `fleetdb-sim` runs as many as wanted.

use fleetdb_sim::disk::MODES;
use fleetdb_sim::run::{Crash, one_crash, random_crashes};

/// Crashes of each seed.
const CRASHES: u64 = 20;
/// Steps of the script that is crashed at every sync.
const STEPS: u64 = 60;

#[test]
fn the_simulator_does_the_same_for_the_same_seed() {
    for seed in [3, 4] {
        let (first, second) = (random_crashes(seed, CRASHES), random_crashes(seed, CRASHES));
        assert_eq!((first.trace, first.syncs, first.batches), (second.trace, second.syncs, second.batches));
    }
    assert_ne!(random_crashes(3, CRASHES).trace, random_crashes(4, CRASHES).trace);
}

#[test]
fn fixed_seeds_lose_nothing_acknowledged() {
    // 41, 53, 59, 81: the first frame of a log file that was torn was taken for damage.
    for seed in 1..=100 {
        random_crashes(seed, CRASHES);
    }
}

#[test]
fn fresh_seeds_lose_nothing_acknowledged() {
    let given = std::env::var("FLEETDB_SEED").ok().and_then(|seed| seed.parse::<u64>().ok());
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    let first = given.unwrap_or(now as u64);
    println!("fresh seeds from {first}: repeat one with FLEETDB_SEED=<seed>");
    for seed in (first..).take(if given.is_some() { 1 } else { 20 }) {
        assert!(std::panic::catch_unwind(|| random_crashes(seed, CRASHES)).is_ok(), "repeat with FLEETDB_SEED={seed}");
    }
}

#[test]
fn a_crash_at_every_sync_of_a_long_script_loses_nothing_acknowledged() {
    for mode in MODES {
        let mut crashes = 0;
        while one_crash(7, Crash { after_syncs: crashes, mode }, STEPS).is_some() {
            crashes += 1;
        }
        assert!(crashes > 50, "{mode:?}: {crashes} syncs in the script");
    }
}
