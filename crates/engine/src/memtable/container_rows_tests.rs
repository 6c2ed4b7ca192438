use super::*;
use crate::deletes::{DeleteSet, Deletes, Marked};
use crate::ids::Generation;
use crate::manifest::Delete;
use crate::memtable::selection::Selection;
use crate::memtable::selection::tests::{add, memtable};
use crate::memtable::sorted::Sorted;
use parking_lot::Mutex;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::HashMap;
use std::ops::Range;

#[derive(Default)]
struct Keeper(Mutex<HashMap<MemtableContainer, Arc<ContainerRows>>>);

impl KeepRows for Keeper {
    fn kept(&self, container: MemtableContainer) -> Option<Arc<ContainerRows>> {
        self.0.lock().get(&container).cloned()
    }

    fn keep(&self, container: MemtableContainer, rows: Arc<ContainerRows>) {
        self.0.lock().insert(container, rows);
    }

    fn has_room_for(&self, _: usize) -> bool {
        true
    }
}

/// The keys of the containers.
const KEYS: u8 = 4;

/// The rows of a sorted view: container, time and number.
fn rows_of(sorted: &Sorted) -> Vec<(u8, i64, u32)> {
    let rows = |place| {
        sorted.rows(place).map(move |row| (sorted.keys.get(place)[0], sorted.times()[row], sorted.order()[row]))
    };
    (0..sorted.keys.len()).flat_map(rows).collect()
}

/// A delete of some rows of one container, or of all.
fn deleted(random: &mut Xoshiro256PlusPlus, rows: u32, time: i64) -> DeleteSet {
    let key = random.random_bool(0.7).then(|| vec![random.random_range(0..KEYS)]);
    let from = random.random_range(0..=time);
    let delete = Delete { id: 1, generation: Generation(1), key, from, to: from + random.random_range(0..100) };
    let mut deletes = Deletes::default();
    deletes.push(Marked { delete, rows_before: random.random_range(0..=rows) });
    DeleteSet::new([Arc::new(deletes)].into_iter())
}

#[test]
fn what_is_kept_changes_no_scan() {
    let mut most_kept = 0;
    for seed in 0..200 {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let (memtable, keeper) = (memtable(), Keeper::default());
        let (mut time, mut views) = (0, Vec::new());
        for step in 0..12 {
            let rows = (0..random.random_range(1..600)).map(|_| {
                let key = random.random_range(0..KEYS);
                time += random.random_range(0..3);
                // Container 0 gets some rows out of order.
                let is_late = key == 0 && random.random_bool(0.1);
                (key, time - if is_late { random.random_range(0..=time) } else { 0 })
            });
            add(&memtable, &rows.collect::<Vec<(u8, i64)>>());
            views.push(memtable.view(&memtable.read()));
            let view = &views[random.random_range(0..views.len())];
            let keys: Vec<Vec<u8>> = (0..KEYS).filter(|_| random.random_bool(0.7)).map(|key| vec![key]).collect();
            let mut bound = || random.random_bool(0.4).then(|| random.random_range(0..=time));
            let (from, to) = (bound(), bound());
            let select = || {
                let mut selection = Selection::listed(view, &keys).within(from, to);
                // Where many rows are wanted, a selection may hold all, which this is not about.
                selection.containers = Some(keys.iter().filter_map(|key| memtable.read().keys.find(key)).collect());
                selection
            };
            let (selection, newest) = (select(), random.random_range(1..100));
            let of_newest = select().newest(Some(newest));
            let deletes = match random.random_bool(0.5) {
                true => DeleteSet::default(),
                false => deleted(&mut random, view.rows as u32, time),
            };
            // All rows are sorted in another way.
            let all = Selection::all(view).within(from, to);
            let mut expected = rows_of(&Sorted::of(view.clone(), &all, &deletes, &()));
            expected.retain(|row| keys.contains(&vec![row.0]));
            for keeps in [true, true, false] {
                let found = match keeps {
                    true => Sorted::of(view.clone(), &selection, &deletes, &keeper),
                    false => Sorted::of(view.clone(), &selection, &deletes, &()),
                };
                let at = format!("seed {seed}, step {step}, keeps {keeps}");
                assert_eq!(rows_of(&found), expected, "{at}");
                let found = rows_of(&match keeps {
                    true => Sorted::of(view.clone(), &of_newest, &deletes, &keeper),
                    false => Sorted::of(view.clone(), &of_newest, &deletes, &()),
                });
                for key in keys.iter().map(|key| key[0]) {
                    let of_key = |rows: &[(u8, i64, u32)]| rows.iter().filter(|row| row.0 == key).copied().collect();
                    let (found, all): (Vec<_>, Vec<_>) = (of_key(&found), of_key(&expected));
                    assert!(all.ends_with(&found) && found.len() >= newest.min(all.len()), "{at}: the newest of {key}");
                }
            }
        }
        most_kept = keeper.0.lock().values().map(|rows| rows.rows.len()).fold(most_kept, usize::max);
    }
    assert!(most_kept > 1_000, "{most_kept}");
}

#[test]
fn rows_are_kept_once_and_followed_by_newer_ones() {
    let (memtable, keeper) = (memtable(), Keeper::default());
    let scan = |key: u8, from: Option<i64>, to: Option<i64>| {
        let view = memtable.view(&memtable.read());
        let mut selection = Selection::listed(&view, &[vec![key]]).within(from, to);
        selection.containers = Some(memtable.read().keys.find(&[key]).into_iter().collect());
        Sorted::of(view, &selection, &DeleteSet::default(), &keeper).times().len()
    };
    let add_to = |key, times: Range<i64>| add(&memtable, &times.map(|time| (key, time)).collect::<Vec<_>>());
    add_to(1, 0..100);
    // A scan that stops early keeps nothing.
    assert_eq!((scan(1, Some(90), None), keeper.0.lock().len()), (10, 0));
    assert_eq!(scan(1, None, None), 100);
    let kept = || Arc::clone(keeper.0.lock().values().next().unwrap());
    let first = kept();
    assert_eq!(scan(1, Some(50), None), 50);
    assert!(Arc::ptr_eq(&first, &kept()));
    add_to(1, 100..110);
    // A scan of few newer rows does not copy the others, unless it wants most of them.
    assert_eq!((scan(1, Some(100), None), kept().rows.len()), (10, 100));
    assert_eq!((scan(1, Some(99), None), kept().rows.len()), (11, 100));
    assert_eq!((scan(1, Some(10), Some(20)), kept().rows.len()), (11, 100));
    assert_eq!((scan(1, None, None), kept().rows.len()), (110, 110));
    add_to(1, 110..130);
    assert_eq!((scan(1, Some(129), None), kept().rows.len()), (1, 110));
    assert_eq!((scan(1, Some(109), None), kept().rows.len()), (21, 130));
    // Small containers are not kept.
    add_to(2, 0..63);
    assert_eq!((scan(2, None, None), keeper.0.lock().len()), (63, 1));
    // A scan that followed many rows follows the rest as well.
    add_to(3, 0..1_000);
    assert_eq!((scan(3, Some(900), Some(900)), keeper.0.lock().len()), (1, 1));
    assert_eq!((scan(3, Some(800), Some(800)), keeper.0.lock().len()), (1, 2));
    assert!(keeper.0.lock().values().any(|rows| rows.rows.len() == 1_000));
    // It does not if they would not be kept: they are few, and it does not want what is kept.
    add_to(3, 1_000..1_120);
    let (now, number) = (memtable.view(&memtable.read()), memtable.read().keys.find(&[3]).unwrap());
    let container = memtable.read().containers[number as usize];
    let newest = ContainerRows::of_large(&now, number, container, (1_050, i64::MAX), &keeper);
    assert_eq!(newest.times, (1_050..1_120).collect::<Vec<_>>());
}
