use super::*;

#[test]
fn a_connection_is_alone_a_second_after_another_one_was_active() {
    let activity = Activity::new();
    let (one, other) = (activity.number(), activity.number());
    activity.note_at(one, 5_000);
    assert!(!activity.is_alone_at(5_999) && activity.is_alone_at(6_000));
    activity.note_at(other, 7_000);
    assert!(!activity.is_alone_at(7_500));
    activity.note_at(one, 7_600);
    assert!(!activity.is_alone_at(8_500) && activity.is_alone_at(8_600));
    // The newest connection changes nothing by further requests.
    activity.note(one);
    assert!(activity.is_alone_at(8_600));
}
