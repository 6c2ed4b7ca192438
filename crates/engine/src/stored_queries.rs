//! Queries that the database keeps by name, which SQL calls views. The engine does not read them. A
//! query and a table never have the same name.

use crate::constraints::{StoredQueries, StoredQuery};
use crate::db::Database;
use crate::error::{Code, Error, Result, listed};
use crate::manifest::Edit;
use crate::schema::check_name;
use crate::state::Commit;
use parking_lot::MutexGuard;
use std::sync::Arc;

impl Database {
    /// Stores a query under a name, durable when this returns. With `replace` it replaces one of this name.
    ///
    /// ```
    /// use fleetdb_engine::io::{Io, MemoryStorage};
    /// use fleetdb_engine::{Database, Settings, StoredQuery};
    /// let db = Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
    /// let query = StoredQuery { text: "SELECT 1 AS n".into(), columns: vec![("n".into(), "Int64".into())] };
    /// db.store_query("newest", &query, false).unwrap();
    /// assert_eq!(db.stored_queries()["newest"], query);
    /// db.drop_query("newest").unwrap();
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Input`](crate::ErrorKind::Input) if the name is taken or invalid.
    pub fn store_query(&self, name: &str, query: &StoredQuery, replace: bool) -> Result<()> {
        check_name("view", name)?;
        let commit = self.shared.open_commit()?;
        let named = self.shared.manifest.lock().state().named(name);
        match named {
            Some("view") if replace => {}
            Some(what) => return Err(Error::new(Code::DuplicateTable, format!("{what} '{name}' already exists"))),
            None => {}
        }
        self.set_query(commit, name, Some(query.clone()))
    }

    /// Drops a stored query, durable when this returns.
    ///
    /// # Errors
    /// [`ErrorKind::Input`](crate::ErrorKind::Input) if there is none of this name.
    pub fn drop_query(&self, name: &str) -> Result<()> {
        let commit = self.shared.open_commit()?;
        let stored = self.stored_queries();
        if !stored.contains_key(name) {
            let names = listed(stored.keys().map(String::as_str));
            let error = Error::new(Code::UndefinedTable, format!("view \"{name}\" does not exist"));
            return Err(if stored.is_empty() { error } else { error.with_hint(format!("The views are: {names}.")) });
        }
        self.set_query(commit, name, None)
    }

    /// The stored queries, by name.
    pub fn stored_queries(&self) -> Arc<StoredQueries> {
        Arc::clone(&self.shared.catalog.read().stored_queries)
    }

    fn set_query(&self, commit: MutexGuard<'_, Commit>, name: &str, query: Option<StoredQuery>) -> Result<()> {
        let mut manifest = self.shared.manifest.lock();
        self.shared.change_schema(&mut manifest, &Edit::SetQuery { name: name.to_owned(), query })?;
        self.shared.catalog.write().stored_queries = Arc::new(manifest.state().stored_queries.clone());
        drop((manifest, commit));
        self.shared.wait_until_defined()
    }
}
