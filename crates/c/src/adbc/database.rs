//! The driver, and a database with its options.

use super::connection::Connection;
use super::errors::{call, in_adbc};
use super::options::{optionable, text, unknown};
use super::session::Session;
use crate::open::{MEMORY, Opened, Options};
use crate::work::Work;
use adbc_core::error::Result as AdbcResult;
use adbc_core::options::{OptionConnection, OptionDatabase, OptionValue};
use fleetdb_engine::{Code, Error, Result};

/// The name before FleetDB's own options, which may be left out for those of a database.
const PREFIX: &str = "fleetdb.";

/// FleetDB's ADBC driver.
///
/// ```
/// use adbc_core::{Connection, Database, Driver, Statement};
/// let database = fleetdb_c::adbc::Driver.new_database().unwrap();
/// let mut connection = database.new_connection().unwrap();
/// let mut statement = connection.new_statement().unwrap();
/// statement.set_sql_query("SELECT 7").unwrap();
/// let rows = statement.execute().unwrap().next().unwrap().unwrap();
/// assert_eq!(rows.num_rows(), 1);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Driver;

impl adbc_core::Driver for Driver {
    type DatabaseType = Database;

    fn new_database(&mut self) -> AdbcResult<Database> {
        self.new_database_with_opts([])
    }

    fn new_database_with_opts(
        &mut self,
        opts: impl IntoIterator<Item = (OptionDatabase, OptionValue)>,
    ) -> AdbcResult<Database> {
        call(|| {
            let (mut path, mut options) = (MEMORY.to_owned(), Options::default());
            for (key, value) in opts {
                let value = text(key.as_ref(), value)?;
                match &key {
                    OptionDatabase::Uri => path = path_of(&value).to_owned(),
                    OptionDatabase::Other(name) if own_name(name) == "path" => path = value,
                    OptionDatabase::Other(name) => options.set(own_name(name), &value)?,
                    _ => {
                        let message = format!("a database in a directory has no option '{}'", key.as_ref());
                        return Err(Error::new(Code::NotSupported, message));
                    }
                }
            }
            let opened = Opened::open(&path, &options)?;
            Ok(Database { opened, options, path })
        })
    }
}

fn own_name(name: &str) -> &str {
    name.strip_prefix(PREFIX).unwrap_or(name)
}

/// The directory of a URI: `fleetdb:PATH`, `file:PATH`, either with `//` before the path, or the path.
fn path_of(uri: &str) -> &str {
    let Some(rest) = ["fleetdb:", "file:"].iter().find_map(|scheme| uri.strip_prefix(scheme)) else { return uri };
    match rest.strip_prefix("//") {
        // A path has no host before it.
        Some(path) if path.starts_with('/') => path,
        // The opening refuses what has a host.
        Some(_) => uri,
        None => rest,
    }
}

/// An open database. It is closed when the last of its connections and results is gone.
pub struct Database {
    opened: Opened,
    options: Options,
    path: String,
}

impl Database {
    fn set(&mut self, key: &OptionDatabase, _value: OptionValue) -> Result<()> {
        match self.get(key) {
            Some(_) => {
                let message = format!("option '{}' is set before the database is opened", key.as_ref());
                Err(Error::new(Code::NotSupported, message))
            }
            None => Err(unknown(key.as_ref())),
        }
    }

    fn get(&self, key: &OptionDatabase) -> Option<String> {
        match key {
            OptionDatabase::Uri => Some(self.path.clone()),
            OptionDatabase::Other(name) if own_name(name) == "path" => Some(self.path.clone()),
            OptionDatabase::Other(name) => self.options.get(own_name(name)),
            _ => None,
        }
    }
}

optionable!(Database, OptionDatabase);

impl adbc_core::Database for Database {
    type ConnectionType = Connection;

    fn new_connection(&self) -> AdbcResult<Connection> {
        let work = call(|| Work::new(self.opened.share(), &self.options))?;
        Ok(Connection::new(Session::new(work)))
    }

    fn new_connection_with_opts(
        &self,
        opts: impl IntoIterator<Item = (OptionConnection, OptionValue)>,
    ) -> AdbcResult<Connection> {
        let mut connection = self.new_connection()?;
        for (key, value) in opts {
            connection.set(&key, value).map_err(|error| in_adbc(&error))?;
        }
        Ok(connection)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_names_a_directory() {
        for (uri, path) in [
            ("data", "data"),
            ("fleetdb:data", "data"),
            ("file:data", "data"),
            ("fleetdb:///var/data", "/var/data"),
            ("file:/var/data", "/var/data"),
            ("fleetdb://host/data", "fleetdb://host/data"),
            ("fleetdb::memory:", ":memory:"),
        ] {
            assert_eq!(path_of(uri), path, "{uri}");
        }
    }
}
