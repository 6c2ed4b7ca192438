//! The model of taking over: every state that a few nodes can reach.

use fleetdb_sim::takeover::{BROKEN, Broken, explore};

#[test]
fn no_state_loses_an_acknowledged_frame_or_shows_it_twice() {
    let explored = explore(Broken::Nothing);
    assert!(explored.wrong.is_none(), "{:#?}", explored.wrong);
    println!("{} states", explored.states);
    assert!(explored.states > 1_000_000, "the model has become smaller: {} states", explored.states);
}

#[test]
fn each_rule_is_needed() {
    for broken in BROKEN {
        let explored = explore(broken);
        let (wrong, path) = explored.wrong.unwrap_or_else(|| panic!("nothing is wrong with {broken:?}"));
        println!("{broken:?}: {wrong}, after {} steps", path.len() - 1);
    }
}
