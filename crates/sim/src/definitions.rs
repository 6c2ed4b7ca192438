//! Stored queries and numbers of rows: what a definition that was acknowledged says is there after a
//! crash, and no number is given twice.

use crate::run::Run;
use fleetdb_engine::StoredQuery;
use rand::Rng;

/// The name of the one stored query.
const NAME: &str = "named";

/// What is known of definitions.
#[derive(Debug, Default)]
pub(crate) struct Definitions {
    /// The texts that the stored query may have; more than one after an edit that failed.
    texts: Vec<Option<String>>,
    /// The highest number that was given to a row.
    last_number: i64,
}

impl Definitions {
    /// Checks the stored query of a database that was opened.
    pub(crate) fn check(&mut self, found: Option<&StoredQuery>) {
        let text = found.map(|query| query.text.clone());
        let may_be = self.texts.contains(&text) || self.texts.is_empty() && text.is_none();
        assert!(may_be, "the stored query is {text:?}, but was one of {:?}", self.texts);
        self.texts = vec![text];
    }

    fn note(&mut self, text: Option<String>, is_done: bool) {
        if is_done {
            self.texts.clear();
        } else if self.texts.is_empty() {
            self.texts.push(None);
        }
        self.texts.push(text);
    }
}

impl Run {
    /// Takes numbers, or stores, replaces or drops the query.
    pub(crate) fn define(&mut self) {
        let count = self.random.random_range(1..2_000);
        if self.random.random_bool(0.5) {
            let table = self.db().tables().swap_remove(1);
            if let Ok(first) = self.db().next_numbers(&table, count) {
                let last = self.definitions.last_number;
                assert!(first > last, "number {first} is given to a row, but {last} was given already");
                self.definitions.last_number = first + count as i64 - 1;
            }
            return;
        }
        let text = self.random.random_bool(0.7).then(|| format!("SELECT {count}"));
        let db = self.db();
        let is_there = db.stored_queries().contains_key(NAME);
        let is_done = match &text {
            Some(text) => {
                let query = StoredQuery { text: text.clone(), columns: Vec::new() };
                db.store_query(NAME, &query, true).is_ok()
            }
            None if is_there => db.drop_query(NAME).is_ok(),
            None => return,
        };
        self.definitions.note(text, is_done);
    }

    /// Checks the definitions of the open database.
    pub(crate) fn compare_definitions(&mut self) {
        let stored = self.db().stored_queries();
        self.definitions.check(stored.get(NAME));
    }
}
