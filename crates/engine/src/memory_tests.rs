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
