//! Creates, alters and drops tables.

pub(crate) mod alter;
pub(crate) mod ddl;
pub(crate) mod foreign_keys;
pub(crate) mod options;
