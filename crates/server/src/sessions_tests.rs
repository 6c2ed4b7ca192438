use super::*;
use fleetdb_engine::io::{Io, MemoryStorage};
use fleetdb_engine::{Database, Settings};

#[test]
fn a_statement_is_not_cancelled_by_whoever_had_its_session_before() {
    let db = Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
    let sessions = Sessions::new(&Store::Writer(Arc::new(db)), &Arc::default(), None, Files::default());
    let sessions = Arc::new(sessions);
    let before = sessions.take(SessionUser::default()).unwrap();
    let cancel = CancelOnDrop(Some(before.announce()));
    drop(before);

    let session = sessions.take(SessionUser::default()).unwrap();
    assert!(sessions.idle.lock().is_empty(), "it is the same session");
    session.announce();
    drop(cancel);
    assert_eq!(session.sql("SELECT 7").unwrap().collect().unwrap()[0].num_rows(), 1);
}
