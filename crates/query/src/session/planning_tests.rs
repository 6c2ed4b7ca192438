use crate::Session;
use fleetdb_engine::io::{Io, MemoryStorage};
use fleetdb_engine::{Database, Settings};

#[test]
fn a_statement_that_is_cancelled_is_not_planned_to_its_end() {
    let db = Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
    let session = Session::new(db.into(), crate::Plain::new()).unwrap();
    let statement = session.parse_one("SELECT 1").unwrap();
    let plan = session.plan_statement(statement).unwrap();
    session.begin_statement();
    assert!(session.context.state().optimize(&plan).is_ok());
    session.canceller().cancel();
    let error = session.context.state().optimize(&plan).unwrap_err();
    assert!(error.to_string().contains("the statement was cancelled"), "{error}");
}
