//! Rows in files and streams: COPY between tables and files ([`copy_from`], [`export`]), files in FROM
//! ([`read_files`]), and the formats
//! CSV, JSON and PostgreSQL's text form of arrays. The server carries the rows of COPY between tables and
//! clients.

pub(crate) mod array_texts;
pub(crate) mod copy_from;
pub(crate) mod csv;
pub(crate) mod export;
pub(crate) mod files;
pub(crate) mod json;
pub(crate) mod read_files;
