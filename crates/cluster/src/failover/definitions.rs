//! What changed in the definitions of a database: tables, views and reserved numbers. The log has
//! it in front of the batches that need it.

use fleetdb_engine::inspect::State;
use fleetdb_engine::{Definitions, StoredQuery, TableId, TableSchema};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Changed definitions: what each is now; `None` if it was dropped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Redefined {
    /// The engine's [count](fleetdb_engine::Definitions::count) of the definitions as they are now.
    pub(super) count: u64,
    /// Where the manifest file of the owner ended.
    pub(super) manifest_end: (u64, u64),
    next_table: u32,
    tables: BTreeMap<TableId, Option<TableSchema>>,
    numbers: BTreeMap<TableId, Option<i64>>,
    stored_queries: BTreeMap<String, Option<StoredQuery>>,
}

impl Redefined {
    /// What leads from one state to another.
    pub(super) fn between(before: &State, after: &State, definitions: Definitions) -> Self {
        Self {
            count: definitions.count,
            manifest_end: definitions.manifest_end,
            next_table: after.next_table,
            tables: changes(&before.tables, &after.tables),
            numbers: changes(&before.numbers, &after.numbers),
            stored_queries: changes(&before.stored_queries, &after.stored_queries),
        }
    }

    /// Takes the changes over. Doing so again changes nothing.
    pub(super) fn apply(&self, state: &mut State) {
        let mut after = state.clone();
        after.next_table = after.next_table.max(self.next_table);
        take(&self.tables, &mut after.tables);
        take(&self.numbers, &mut after.numbers);
        take(&self.stored_queries, &mut after.stored_queries);
        state.define(&after);
    }
}

fn changes<K: Ord + Clone, V: PartialEq + Clone>(
    before: &BTreeMap<K, V>,
    after: &BTreeMap<K, V>,
) -> BTreeMap<K, Option<V>> {
    let set = after.iter().filter(|(key, value)| before.get(*key) != Some(*value));
    let set = set.map(|(key, value)| (key.clone(), Some(value.clone())));
    let dropped = before.keys().filter(|key| !after.contains_key(*key)).map(|key| (key.clone(), None));
    set.chain(dropped).collect()
}

fn take<K: Ord + Clone, V: Clone>(changes: &BTreeMap<K, Option<V>>, to: &mut BTreeMap<K, V>) {
    for (key, value) in changes {
        match value {
            Some(value) => drop(to.insert(key.clone(), value.clone())),
            None => drop(to.remove(key)),
        }
    }
}
