//! The driver's entry point for programs that load it, `AdbcFleetdbInit`. Driver managers find it by the
//! name of the library, `libfleetdb`, or by the name `AdbcDriverInit` in a library of another name.
#![allow(unsafe_code, reason = "functions that a driver manager calls take pointers and have names that it knows")]

use super::database::Driver;

adbc_ffi::export_driver!(AdbcFleetdbInit, Driver);
