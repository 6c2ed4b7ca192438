//! How a call from outside runs: with enough stack, and so that a panic becomes an error.

use fleetdb_engine::{Error, Result};
use fleetdb_statement::stack::with_stack;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Levels of a statement for which a call has stack from its beginning: threads of small devices have
/// little. Deeper statements get more once their depth is known.
const LEVELS: usize = 32;

/// Runs a call.
///
/// # Errors
/// The call panicked.
pub(crate) fn guarded<T>(call: impl FnOnce() -> T) -> Result<T> {
    // What a panic leaves in a session is what an error leaves there: locks are released, and a statement
    // has taken effect or not.
    let done = catch_unwind(AssertUnwindSafe(|| with_stack(LEVELS, call)));
    done.map_err(|cause| Error::bug(format!("the library panicked: {}", message_of(cause.as_ref()))))
}

fn message_of(cause: &(dyn Any + Send)) -> &str {
    match (cause.downcast_ref::<&str>(), cause.downcast_ref::<String>()) {
        (Some(message), _) => message,
        (None, Some(message)) => message,
        (None, None) => "without a message",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_a_bug_with_its_message() {
        let (number, name) = (7, "x");
        assert_eq!(guarded::<()>(|| panic!("seven")).unwrap_err().to_string(), "the library panicked: seven");
        assert_eq!(guarded::<()>(|| panic!("{number} {name}")).unwrap_err().to_string(), "the library panicked: 7 x");
        assert_eq!(guarded(|| number).unwrap(), 7);
    }
}
