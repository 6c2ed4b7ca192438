//! Numeric ids. Each has its own type, so that they cannot be mixed up.

use serde::{Deserialize, Serialize};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id!(
    /// A table's id, for the life of the database. It is not reused after the table is dropped.
    TableId(u32)
);
id!(
    /// A column's id within its table. It is not reused after the column is dropped.
    ColumnId(u32)
);
id!(
    /// A segment file's id. Later segments have larger ids.
    SegmentId(u64)
);
id!(
    /// One cycle of the memtables: a WAL file, the memtables it fills, and the segments they
    /// become. Rows of a larger generation are newer.
    Generation(u64)
);
id!(
    /// A batch's position in the order of all batches of a database.
    Sequence(u64)
);
