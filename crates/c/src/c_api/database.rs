//! An open database behind a handle, and the calls on it that give no statement.

use super::fault::Fault;
use super::reads::Container;
use super::types::FleetdbTotals;
use crate::open::{Opened, Options};
use crate::stop::Stop;
use crate::work::Work;
use fleetdb_engine::io::Io;
use fleetdb_engine::{Aggregate, Code, Error, LineParser, Precision, Result, body_lines, listed};
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// An open database.
pub(crate) struct Database {
    work: Mutex<Work>,
    stop: Arc<Stop>,
    /// The statements that are not finalized.
    statements: AtomicUsize,
}

impl Database {
    /// Opens a database.
    ///
    /// # Errors
    /// Those of [`Options::parse`] and [`Opened::open`].
    pub(crate) fn open(path: &str, options: &str) -> Result<Self> {
        let options = Options::parse(options)?;
        let work = Work::new(Opened::open(path, &options)?, &options)?;
        let stop = Arc::clone(work.stop());
        Ok(Self { work: Mutex::new(work), stop, statements: AtomicUsize::new(0) })
    }

    /// Closes it.
    ///
    /// # Errors
    /// Something could not be made durable.
    pub(crate) fn close(self) -> Result<()> {
        self.work.into_inner().close()
    }

    /// The session, for one call.
    ///
    /// # Errors
    /// Another thread has it.
    pub(crate) fn lock(&self) -> std::result::Result<MutexGuard<'_, Work>, Fault> {
        self.work.try_lock().ok_or_else(|| {
            Fault::misuse("another thread uses this database handle: open the database once for each thread")
        })
    }

    /// Ends the call that runs in another thread.
    pub(crate) fn interrupt(&self) {
        self.stop.stop();
    }

    /// The number of statements that are not finalized.
    pub(crate) fn statements(&self) -> usize {
        self.statements.load(Ordering::Acquire)
    }

    /// A statement begins.
    pub(crate) fn add_statement(&self) {
        self.statements.fetch_add(1, Ordering::AcqRel);
    }

    /// A statement was finalized.
    pub(crate) fn remove_statement(&self) {
        self.statements.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Writes lines of line protocol as one batch. Returns the number of rows written, and the error for the
/// lines that were left out.
///
/// # Errors
/// Those of the engine; no row is then written.
pub(crate) fn write_lines(work: &Work, lines: &[u8], precision: &str) -> Result<(i64, Option<Error>)> {
    let precision = precision.parse::<Precision>()?;
    let db = work.store().writer()?;
    work.session().check_may_write("INSERT")?;
    let mut parser = LineParser::new(db, precision, db.now_ns());
    let (mut left_out, mut first) = (0_usize, None);
    for line in body_lines(lines) {
        if let Err(error) = parser.parse_bytes(line.bytes) {
            left_out += 1;
            first.get_or_insert_with(|| format!("line {}, {error}", line.number));
        }
    }
    let rows = parser.rows();
    let batch = parser.into_batch()?.with_durability(work.session().durability());
    if rows > 0 {
        db.commit(batch)?;
    }
    let wrong = first.map(|first| Error::invalid(format!("{left_out} lines were left out; the first is {first}")));
    Ok((rows as i64, wrong))
}

/// Count, minimum, maximum and sum of a column of a container.
///
/// # Errors
/// Table, column or key do not exist or do not fit.
pub(crate) fn aggregate(work: &Work, container: &Container, column: &str) -> Result<FleetdbTotals> {
    let Aggregate { count, min, max, sum } = container.aggregate(work, column)?;
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    let (minimum, maximum) = (min.unwrap_or(f64::NAN), max.unwrap_or(f64::NAN));
    Ok(FleetdbTotals { count, minimum, maximum, sum: sum.unwrap_or(0.0) })
}

/// A number of the status, by its name.
///
/// # Errors
/// No number has this name.
pub(crate) fn status(work: &Work, name: &str) -> Result<i64> {
    let (store, status) = (work.store(), work.store().status());
    let last = store.writer().map_or_else(|_| store.view().sequence().0, |db| db.last_sequence());
    let numbers: [(&str, u64); 18] = [
        ("tables", store.view().tables().count() as u64),
        ("last_sequence", last),
        ("memtable_bytes", status.memtable_bytes as u64),
        ("frozen_generations", status.frozen_generations as u64),
        ("segments", status.segments as u64),
        ("segment_bytes", status.segment_bytes),
        ("cache_bytes", status.cache_bytes),
        ("work_bytes", status.work_bytes as u64),
        ("wal_bytes_written", status.wal_bytes_written),
        ("wal_syncs", status.wal_syncs),
        ("flushed_bytes", status.flushed_bytes),
        ("compacted_bytes", status.compacted_bytes),
        ("compactions", status.compactions),
        ("compaction_debt_bytes", status.compaction_debt_bytes),
        ("held_back", u64::from(status.held_back)),
        ("flush_failing", u64::from(status.flush_error.is_some())),
        ("compaction_failing", u64::from(status.compaction_error.is_some())),
        ("read_age_seconds", status.reading.map_or(0, |reading| reading.age_seconds)),
    ];
    let number = numbers.iter().find(|(known, _)| *known == name).map(|(_, number)| *number);
    let number = number.ok_or_else(|| {
        let names = listed(numbers.iter().map(|(name, _)| *name));
        let message = format!("the status has no number called '{name}'");
        Error::new(Code::UndefinedObject, message).with_hint(format!("The names are: {names}."))
    })?;
    Ok(i64::try_from(number).unwrap_or(i64::MAX))
}

/// Backs the database up to a directory.
///
/// # Errors
/// Those of [`fleetdb_engine::Database::backup`].
pub(crate) fn backup(work: &Work, directory: &str) -> Result<()> {
    if directory.is_empty() {
        return Err(Error::invalid("there is no directory for the backup"));
    }
    work.store().writer()?.backup(&Io::files(directory), |_, _| ()).map(drop)
}
