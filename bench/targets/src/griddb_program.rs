//! The Java program that calls GridDB's client for the suite (`GridDb.java`, which describes what
//! it is asked and answers): its process, and connections to it.

use crate::process::{output, program};
use fleetdb_bench_core::Outcome;
use fleetdb_bench_core::answer::Cell;
use std::fmt::{Display, Write as _};
use std::io::{BufRead, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The environment variable with the path of the client's jar.
const JAR: &str = "GRIDDB_JAR";
const SOURCE: &str = include_str!("GridDb.java");
/// The longest path of a socket on every system.
const SOCKET_PATH_BYTES: usize = 100;
const GONE: &str = "its Java program has ended; its messages are above";

/// What is missing on this machine to run the program, if anything.
pub(crate) fn missing() -> Option<String> {
    let jar = std::env::var_os(JAR).map(PathBuf::from).filter(|jar| jar.is_file());
    let is_there = jar.is_some() && ["java", "javac"].iter().all(|name| program(&[name]).is_some());
    (!is_there).then(|| {
        format!(
            "it requires a JDK of Java 17 or newer and a gridstore.jar (Maven Central: com.github.griddb:gridstore), \
             whose path is set in {JAR}"
        )
    })
}

/// The Java program. Dropping this ends it.
pub(crate) struct Program {
    child: Child,
    socket: PathBuf,
}

impl Program {
    /// Compiles and starts it in this directory.
    pub(crate) fn start(directory: &Path) -> Outcome<Self> {
        let jar = match missing() {
            Some(missing) => return Err(missing.into()),
            None => PathBuf::from(std::env::var_os(JAR).unwrap_or_default()),
        };
        let directory = directory.canonicalize()?;
        let (source, socket) = (directory.join("GridDb.java"), directory.join("griddb"));
        if socket.as_os_str().len() > SOCKET_PATH_BYTES {
            let (path, most) = (socket.display(), SOCKET_PATH_BYTES);
            return Err(format!("{path}: a socket's path has at most {most} bytes; use a shorter --directory").into());
        }
        if socket.exists() {
            // From an earlier start.
            std::fs::remove_file(&socket)?;
        }
        std::fs::write(&source, SOURCE)?;
        output(Command::new("javac").arg("-cp").arg(&jar).arg("-d").arg(&directory).arg(&source))?;
        let mut command = Command::new("java");
        command.arg("-cp").arg(std::env::join_paths([&jar, &directory])?).arg("GridDb").arg(&socket);
        let child = command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut program = Self { child, socket };
        let mut ready = String::new();
        BufReader::new(program.child.stdout.take().ok_or("it has no output")?).read_line(&mut ready)?;
        if ready.is_empty() {
            return Err("its Java program did not start; its messages are above".into());
        }
        Ok(program)
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn connect(&self) -> Outcome<UnixStream> {
        Ok(UnixStream::connect(&self.socket)?)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It has no data of its own.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// A request: a line of words and lines of cells.
pub(crate) struct Request(String);

impl Request {
    pub(crate) fn of(words: &[&str]) -> Self {
        let mut request = Self(String::new());
        request.add(words.iter().map(|word| Cell::Text(word)));
        request
    }

    /// Adds a line of cells.
    pub(crate) fn add<'c>(&mut self, cells: impl IntoIterator<Item = Cell<'c>>) {
        for (place, cell) in cells.into_iter().enumerate() {
            if place > 0 {
                self.0.push('\t');
            }
            match cell {
                Cell::Null => self.0 += "\\N",
                Cell::Int(value) | Cell::Time(value) => self.add_number(value),
                Cell::Float(value) => self.add_number(value),
                Cell::Text(text) => self.add_text(text),
            }
        }
        self.0.push('\n');
    }

    fn add_number(&mut self, number: impl Display) {
        write!(self.0, "{number}").expect("writing to a string does not fail");
    }

    fn add_text(&mut self, text: &str) {
        for next in text.chars() {
            match next {
                '\\' => self.0 += "\\\\",
                '\t' => self.0 += "\\t",
                '\n' => self.0 += "\\n",
                '\r' => self.0 += "\\r",
                plain => self.0.push(plain),
            }
        }
    }
}

/// The cells of an answer's line; `None` is null.
pub(crate) type Cells = Vec<Option<String>>;

/// A connection to the Java program.
pub(crate) struct Speaker(BufReader<UnixStream>);

impl Speaker {
    pub(crate) fn new(stream: UnixStream) -> Self {
        Self(BufReader::new(stream))
    }

    /// Sends a request and returns the cells of the answer's lines.
    pub(crate) fn ask(&mut self, request: &Request) -> Outcome<Vec<Cells>> {
        let stream = self.0.get_mut();
        stream.write_all(request.0.as_bytes()).and_then(|()| stream.write_all(b"\\.\n")).map_err(|_| GONE)?;
        let mut rows = Vec::new();
        let mut line = String::new();
        loop {
            line.clear();
            if self.0.read_line(&mut line)? == 0 {
                return Err(GONE.into());
            }
            match line.trim_end_matches('\n') {
                "\\." => return Ok(rows),
                row => match row.strip_prefix("\\!") {
                    Some(message) => return Err(text_of(message).into()),
                    None => rows.push(row.split('\t').map(|cell| (cell != "\\N").then(|| text_of(cell))).collect()),
                },
            }
        }
    }
}

/// A cell without its escapes.
fn text_of(cell: &str) -> String {
    let mut text = String::with_capacity(cell.len());
    let mut rest = cell.chars();
    while let Some(next) = rest.next() {
        text.push(match next {
            '\\' => match rest.next() {
                Some('t') => '\t',
                Some('n') => '\n',
                Some('r') => '\r',
                other => other.unwrap_or('\\'),
            },
            plain => plain,
        });
    }
    text
}
