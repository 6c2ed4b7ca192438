//! Parameters of statements.

/// The maximum number of parameters of a statement, as in PostgreSQL.
const MAX_PARAMETERS: usize = 65_535;

/// The index of a parameter's value: `$1` has index 0.
pub fn number(parameter: &str) -> Option<usize> {
    let number = parameter.strip_prefix('$')?.parse::<usize>().ok()?;
    number.checked_sub(1).filter(|_| number <= MAX_PARAMETERS)
}
