//! Options of ADBC, which come as texts, numbers or bytes.

use super::errors::in_adbc;
use crate::open::wrong;
use adbc_core::error::Result as AdbcResult;
use adbc_core::options::OptionValue;
use fleetdb_engine::{Code, Error, Result};

/// The value of an option as a text.
///
/// # Errors
/// It has none.
pub(super) fn text(name: &str, value: OptionValue) -> Result<String> {
    match value {
        OptionValue::String(text) => Ok(text),
        OptionValue::Int(number) => Ok(number.to_string()),
        OptionValue::Double(number) => Ok(number.to_string()),
        OptionValue::Bytes(bytes) => String::from_utf8(bytes).map_err(|_| wrong(name, "bytes", "a text")),
        other => Err(wrong(name, &format!("{other:?}"), "a text")),
    }
}

/// The value of an option that is true or false.
///
/// # Errors
/// It is neither.
pub(super) fn truth(name: &str, value: OptionValue) -> Result<bool> {
    match text(name, value)?.as_str() {
        "true" => Ok(true),
        "false" => Ok(false),
        other => Err(wrong(name, other, "true or false")),
    }
}

/// The error of an option that does not exist.
pub(super) fn unknown(name: &str) -> Error {
    Error::new(Code::NotSupported, format!("unknown option '{name}'"))
}

/// The value of an option that is read.
///
/// # Errors
/// There is no such option, or it has no value.
pub(super) fn got(name: &str, value: Option<String>) -> AdbcResult<String> {
    value.ok_or_else(|| in_adbc(&Error::new(Code::UndefinedObject, format!("option '{name}' has no value"))))
}

/// The value of an option that is a whole number.
///
/// # Errors
/// It is none.
pub(super) fn got_number(name: &str, value: Option<String>) -> AdbcResult<i64> {
    let text = got(name, value)?;
    text.parse().map_err(|_| in_adbc(&wrong(name, &text, "a whole number")))
}

/// The value of an option that is a number.
///
/// # Errors
/// It is none.
pub(super) fn got_real(name: &str, value: Option<String>) -> AdbcResult<f64> {
    let text = got(name, value)?;
    text.parse().map_err(|_| in_adbc(&wrong(name, &text, "a number")))
}

/// Makes an [`Optionable`](adbc_core::Optionable) of a type that has `set(&mut self, key, value)` and
/// `get(&self, key)`.
macro_rules! optionable {
    ($of:ty, $option:ty) => {
        impl adbc_core::Optionable for $of {
            type Option = $option;

            fn set_option(
                &mut self,
                key: $option,
                value: adbc_core::options::OptionValue,
            ) -> adbc_core::error::Result<()> {
                crate::adbc::errors::call(|| self.set(&key, value))
            }

            fn get_option_string(&self, key: $option) -> adbc_core::error::Result<String> {
                crate::adbc::options::got(key.as_ref(), self.get(&key))
            }

            fn get_option_bytes(&self, key: $option) -> adbc_core::error::Result<Vec<u8>> {
                Ok(crate::adbc::options::got(key.as_ref(), self.get(&key))?.into_bytes())
            }

            fn get_option_int(&self, key: $option) -> adbc_core::error::Result<i64> {
                crate::adbc::options::got_number(key.as_ref(), self.get(&key))
            }

            fn get_option_double(&self, key: $option) -> adbc_core::error::Result<f64> {
                crate::adbc::options::got_real(key.as_ref(), self.get(&key))
            }
        }
    };
}

pub(super) use optionable;
