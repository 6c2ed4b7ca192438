use super::*;
use crate::error::ErrorKind;

#[test]
fn a_budget_refuses_what_does_not_fit_and_takes_back_what_is_dropped() {
    let budget = Budget::new(100);
    let first = budget.charge("a scan", 60).unwrap();
    let refused = budget.charge("a scan", 41).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Retry);
    assert!(refused.to_string().contains("memory_limit"), "{refused}");
    let second = budget.charge("a scan", 40).unwrap();
    assert_eq!(budget.used_bytes(), 100);
    drop((first, second));
    assert_eq!(budget.used_bytes(), 0);
    assert!(budget.charge("a scan", usize::MAX).is_err());
}

#[test]
fn a_scan_waits_for_memory_that_a_compaction_holds() {
    let budget = Budget::new(100);
    let compaction = budget.charge_compaction(60).unwrap();
    std::thread::scope(|scope| {
        let (begun, begins) = std::sync::mpsc::channel();
        let scan = scope.spawn({
            let budget = &budget;
            move || {
                begun.send(()).unwrap();
                budget.charge_behind_compaction("a scan", 50).map(|charge| charge.bytes)
            }
        });
        begins.recv().unwrap();
        drop(compaction);
        assert_eq!(scan.join().unwrap().unwrap(), 50);
    });
    assert_eq!(budget.used_bytes(), 0);
}

#[test]
fn a_scan_does_not_wait_for_memory_that_others_hold() {
    let budget = Budget::new(100);
    let _compaction = budget.charge_compaction(30).unwrap();
    let _query = budget.hold(60);
    assert_eq!(budget.charge_behind_compaction("a scan", 50).unwrap_err().kind(), ErrorKind::Retry);
    assert_eq!(budget.charge_behind_compaction("a scan", 10).unwrap().bytes, 10);
}
