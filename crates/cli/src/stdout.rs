//! Standard output that may be closed early, as in `fleetdb inspect wal | head`.

use std::io::{ErrorKind, Result, Stdout, Write};

/// Like `println!`, but ends the program quietly if standard output has been closed, instead of
/// panicking.
macro_rules! print_line {
    ($($text:tt)*) => { $crate::stdout::line(format_args!($($text)*)) };
}
pub(crate) use print_line;

/// Writes a line.
pub fn line(text: std::fmt::Arguments<'_>) {
    // Other errors, such as a full disk, are reported by the caller that flushes.
    writeln!(output(), "{text}").ok();
}

/// Standard output.
pub fn output() -> Output {
    Output(std::io::stdout())
}

/// Standard output that ends the program when it has been closed. Acknowledged writes are already
/// in the log.
pub struct Output(Stdout);

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        self.0.write(bytes).inspect_err(end_quietly)
    }

    fn flush(&mut self) -> Result<()> {
        self.0.flush().inspect_err(end_quietly)
    }
}

#[allow(clippy::exit, reason = "no caller has anything left to do")]
fn end_quietly(error: &std::io::Error) {
    if error.kind() == ErrorKind::BrokenPipe {
        std::process::exit(0);
    }
}
