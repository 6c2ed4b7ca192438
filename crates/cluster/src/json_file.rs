//! Small files of JSON in a database directory.

use fleetdb_engine::io::Io;
use fleetdb_engine::{Error, Result};
use serde::Serialize;

/// Replaces a file; durable when this returns.
pub(crate) fn write(io: &Io, name: &str, value: &impl Serialize) -> Result<()> {
    let json = serde_json::to_vec_pretty(value).map_err(|e| Error::bug(format!("{name}: {e}")))?;
    let (storage, temporary) = (&io.storage, format!("{name}.tmp"));
    if storage.list("")?.contains(&temporary) {
        storage.remove(&temporary)?;
    }
    let mut file = storage.create(&temporary)?;
    file.write(&json)?;
    file.sync()?;
    storage.rename(&temporary, name)?;
    storage.sync_directory("")
}
