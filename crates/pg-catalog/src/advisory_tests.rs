use super::{AdvisoryLocks, HeldLocks, Key, MAX_LOCKS, Scope};
use std::sync::Arc;

fn sessions() -> (HeldLocks, HeldLocks) {
    let locks = Arc::new(AdvisoryLocks::default());
    (HeldLocks::new(Arc::clone(&locks)), HeldLocks::new(locks))
}

impl HeldLocks {
    fn takes(&self, key: Key, scope: Scope) -> bool {
        self.take(key, scope).unwrap()
    }
}

#[test]
fn there_are_only_so_many() {
    let (one, other) = sessions();
    (0..MAX_LOCKS as i64).for_each(|number| assert!(one.takes(Key::One(number), Scope::Session)));
    let error = other.take(Key::Two(1, 2), Scope::Session).unwrap_err().to_string();
    assert!(error.contains("the most is 10000"), "{error}");
    one.release_all();
    (0..MAX_LOCKS).for_each(|_| assert!(other.takes(Key::One(1), Scope::Session)));
    assert!(other.take(Key::One(1), Scope::Session).is_err());
}

#[test]
fn a_lock_is_one_session_s_until_it_has_given_it_back_as_often_as_it_took_it() {
    let (one, other) = sessions();
    let key = Key::One(7);
    assert!(one.takes(key, Scope::Session) && one.takes(key, Scope::Session));
    assert!(!other.takes(key, Scope::Session) && !other.release(key));
    assert!(other.takes(Key::Two(0, 7), Scope::Session), "two numbers are not one");
    assert!(one.release(key) && !other.takes(key, Scope::Session));
    assert!(one.release(key) && !one.release(key));
    assert!(other.takes(key, Scope::Session));
    other.release_all();
    assert!(one.takes(key, Scope::Session));
    drop(one);
    assert!(other.takes(key, Scope::Session));
}

#[test]
fn a_transaction_s_locks_end_with_it() {
    let (one, other) = sessions();
    let key = Key::One(-1);
    one.begin_transaction();
    assert!(one.takes(key, Scope::Transaction) && one.takes(Key::One(2), Scope::Session));
    assert!(!one.release(key), "it cannot be given back before");
    one.release_all();
    assert!(!other.takes(key, Scope::Session) && other.takes(Key::One(2), Scope::Session));
    one.end_transaction();
    assert!(other.takes(key, Scope::Session) && other.release(key));
    // Outside a transaction, the lock ends with its statement.
    assert!(one.takes(key, Scope::Transaction) && other.takes(key, Scope::Session));
    assert!(!one.takes(key, Scope::Transaction));
}
