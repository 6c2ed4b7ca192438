//! Small numbers that name things, each a type of its own so that they cannot be mixed up.

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
    /// A table, for the life of the database; never used again after the table is dropped.
    TableId(u32)
);
id!(
    /// A column within its table; never used again after the column is dropped.
    ColumnId(u32)
);
id!(
    /// A segment file; a larger number was created later.
    SegmentId(u64)
);
id!(
    /// One turn of the memtables: a WAL file, the memtables it fills, the segments they become.
    /// Rows of a larger generation are newer.
    Generation(u64)
);
id!(
    /// The place of a batch in the order of all batches of a database.
    Sequence(u64)
);
