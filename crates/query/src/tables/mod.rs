//! Creates, alters and drops tables.
//!
//! [`ddl`] and [`alter`] run the statements. They take out what DataFusion does not plan: [`columns`]
//! has defaults and identities, [`checks`] conditions, [`foreign_keys`] references, [`options`] the rest.

pub(crate) mod alter;
pub(crate) mod checks;
pub(crate) mod columns;
pub(crate) mod ddl;
pub(crate) mod foreign_keys;
pub(crate) mod options;
pub(crate) mod temporary;
