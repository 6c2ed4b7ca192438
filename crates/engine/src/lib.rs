//! FleetDB's engine: an embeddable time-series database for sensor fleets.
//!
//! The modules follow the data path: `write` (admission), `wal`, `memtable`, `flush`, `segment`,
//! `manifest`, `scan`, `recovery`. `db` connects them, and all I/O goes through `io`. See
//! `ARCHITECTURE.md` for the read and write paths and the lock order, and `docs/format.md` for the
//! on-disk format.
//!
//! Start with [`Database`].

mod alter;
mod array;
mod backpressure;
pub mod backup;
mod catalog;
mod check;
mod checkpoint;
mod column;
mod column_type;
mod commit;
mod compaction;
mod compactor;
mod constraints;
mod db;
mod decimal;
mod defining;
mod delete_rows;
mod deletes;
mod error;
mod flush;
mod flusher;
mod handle;
mod ids;
pub mod inspect;
pub mod io;
mod key;
mod lane;
mod line_protocol;
mod listing;
mod log_copy;
mod manifest;
mod memory;
mod memtable;
mod numbers;
mod pool;
mod reader;
mod recovery;
mod scan;
mod schema;
mod segment;
mod settings;
mod sharing;
mod shipping;
mod state;
mod status;
mod stored_queries;
mod sums;
mod update;
mod wal;
mod write;

pub use alter::Alteration;
pub use array::MAX_ARRAY_ELEMENTS;
pub use check::{Check, Comparison, Condition, Operand, Operator};
pub use checkpoint::Checkpoint;
pub use column_type::{ArrayElement, ColumnType, Unit};
pub use commit::{Acknowledged, PendingSync, TryCommit};
pub use constraints::{CheckDefinition, DefaultValue, ForeignKey, ForeignKeyDefinition, StoredQueries, StoredQuery};
pub use db::Database;
pub use decimal::{Decimal, DecimalError, MAX_DECIMAL_DIGITS};
pub use error::{Code, Error, ErrorKind, Result, TextPosition, listed};
pub use handle::ContainerHandle;
pub use ids::{ColumnId, Generation, SegmentId, Sequence, TableId};
pub use line_protocol::{BodyLine, LineError, LineParser, LineSplitter, Precision, TIME_COLUMN, body_lines};
pub use manifest::Definitions;
pub use memory::{MemoryReservation, QueryMemory};
pub use reader::Reader;
pub use recovery::accept_loss;
pub use scan::batch_reader::{RowCondition, RowTest};
pub use scan::buckets::{BucketOf, BucketSummaries, BucketTotals};
pub use scan::container::{Aggregate, Container};
pub use scan::containers::{ColumnSum, ColumnTotals, ContainerSummaries, ContainerSummary};
pub use scan::last::LastRows;
pub use scan::overlay::Overlay;
pub use scan::rows::Scan;
pub use scan::{KeyCondition, KeyPredicate, Projection, ScanRequest, SegmentTotals, TableView, View};
pub use schema::{
    Column, ColumnDefinition, MAX_COLUMNS, MAX_NAME_BYTES, Merge, Role, TableDefinition, TableSchema, sql_identifier,
};
pub use settings::{Durability, Settings};
pub use sharing::LogCopy;
pub use shipping::{Adopting, AdoptingLag, Shipping, ShippingLag};
pub use status::{Reading, Status};
pub use sums::{sum_of_floats, sum_of_integers};
pub use uuid::Uuid;
pub use wal::log::LogEnd;
pub use write::admit::MAX_KEY_BYTES;
pub use write::batch::{Batch, MAX_BATCH_BYTES, MAX_BATCH_ROWS, Rows};
pub use write::value::{ArrayValue, MAX_VALUE_BYTES, Value, array_element_text};
pub use write::whole::MAX_REWRITTEN_ROWS;
