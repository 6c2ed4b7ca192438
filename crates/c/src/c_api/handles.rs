//! What handles stand for, and how a call on one proceeds.
//!
//! 1. A handle is looked up. One that was closed, or never opened, is an error: numbers are not used again.
//! 2. The database's session is locked. If another thread has it, the call is refused, because two threads
//!    must not use one database handle at once.
//! 3. The call runs with enough stack, and a panic in it becomes an error ([`guarded`]).
//! 4. An error is kept for the thread, and its code is returned.

use super::database::Database;
use super::fault::{Fault, keep};
use super::statement::{State, Statement};
use super::types::{FleetdbHandle, FleetdbStatement};
use crate::guard::guarded;
use crate::work::Work;
use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

enum Handle {
    Database(Arc<Database>),
    Statement(Arc<Statement>),
}

static HANDLES: RwLock<BTreeMap<usize, Handle>> = RwLock::new(BTreeMap::new());

/// The number of the next handle.
static NEXT: AtomicUsize = AtomicUsize::new(1);

/// The distance between two handles, so that they look like pointers.
const STEP: usize = 16;

fn add<T>(handle: Handle) -> *mut T {
    let number = NEXT.fetch_add(1, Ordering::Relaxed).wrapping_mul(STEP);
    HANDLES.write().insert(number, handle);
    ptr::without_provenance_mut(number)
}

/// A handle for a database.
pub(crate) fn add_database(db: Database) -> *mut FleetdbHandle {
    add(Handle::Database(Arc::new(db)))
}

/// A handle for a statement.
pub(crate) fn add_statement(statement: Statement) -> *mut FleetdbStatement {
    add(Handle::Statement(Arc::new(statement)))
}

/// The database of a handle.
fn database(handle: *mut FleetdbHandle) -> Result<Arc<Database>, Fault> {
    with_database(handle, Arc::clone)
}

/// Ends what runs on a database.
///
/// # Errors
/// There is none.
pub(crate) fn interrupt(handle: *mut FleetdbHandle) -> Result<(), Fault> {
    // Does not hold the database: another thread may close it at this moment, and must see that it is closed.
    with_database(handle, |db| db.interrupt())
}

fn with_database<T>(handle: *mut FleetdbHandle, use_it: impl FnOnce(&Arc<Database>) -> T) -> Result<T, Fault> {
    match HANDLES.read().get(&handle.addr()) {
        Some(Handle::Database(db)) => Ok(use_it(db)),
        Some(Handle::Statement(_)) => Err(Fault::misuse("the handle is a statement, not a database")),
        None => Err(unknown(handle.addr(), "database")),
    }
}

fn statement(handle: *mut FleetdbStatement) -> Result<Arc<Statement>, Fault> {
    match HANDLES.read().get(&handle.addr()) {
        Some(Handle::Statement(statement)) => Ok(Arc::clone(statement)),
        Some(Handle::Database(_)) => Err(Fault::misuse("the handle is a database, not a statement")),
        None => Err(unknown(handle.addr(), "statement")),
    }
}

fn unknown(number: usize, what: &str) -> Fault {
    match number {
        0 => Fault::misuse(format!("the handle of the {what} is NULL")),
        _ => Fault::misuse(format!("there is no open {what} with this handle: it was closed, or never opened")),
    }
}

/// Does a call: its result code, or that of its error.
pub(crate) fn call(work: impl FnOnce() -> Result<c_int, Fault>) -> c_int {
    let done = guarded(work).unwrap_or_else(|error| Err(error.into()));
    done.unwrap_or_else(|fault| keep(&fault))
}

/// Does a call on a database.
pub(crate) fn on_database(
    handle: *mut FleetdbHandle,
    work: impl FnOnce(&Arc<Database>, &mut Work) -> Result<c_int, Fault>,
) -> c_int {
    call(|| {
        let db = database(handle)?;
        let mut session = db.lock()?;
        work(&db, &mut session)
    })
}

/// Does a call on a statement.
pub(crate) fn on_statement(
    handle: *mut FleetdbStatement,
    work: impl FnOnce(&mut State, &mut Work) -> Result<c_int, Fault>,
) -> c_int {
    call(|| {
        let statement = statement(handle)?;
        let mut session = statement.database().lock()?;
        let mut state = statement.lock();
        work(&mut state, &mut session)
    })
}

/// Forgets a statement's handle.
///
/// # Errors
/// There is no such statement, or another thread uses it.
pub(crate) fn remove_statement(handle: *mut FleetdbStatement) -> Result<(), Fault> {
    let statement = statement(handle)?;
    let _session = statement.database().lock()?;
    // Dropped after the lock of the handles is released: a result may be large.
    let removed = HANDLES.write().remove(&handle.addr());
    drop(removed);
    Ok(())
}

/// Forgets a database's handle; gives the database if nobody else uses it.
///
/// # Errors
/// There is no such database, it has statements, or another thread uses it.
pub(crate) fn remove_database(handle: *mut FleetdbHandle) -> Result<Option<Database>, Fault> {
    let db = database(handle)?;
    drop(db.lock()?);
    match db.statements() {
        0 => {}
        1 => return Err(Fault::busy("a statement is not finalized yet: the database stays open")),
        count => return Err(Fault::busy(format!("{count} statements are not finalized yet: the database stays open"))),
    }
    let removed = HANDLES.write().remove(&handle.addr());
    drop(removed);
    Ok(Arc::into_inner(db))
}
