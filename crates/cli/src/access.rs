//! `fleetdb user` and `fleetdb token`: manage the users and tokens of a server.

use crate::stdout::print_line;
use crate::{DEFAULT_DATA, is_database, refuse_bucket};
use clap::Subcommand;
use fleetdb_engine::{Error, Result};
use fleetdb_server::access::{AccessFile, Role};
use std::io::{BufRead, IsTerminal, Write};
use std::path::PathBuf;

#[derive(clap::Args)]
pub struct UserArgs {
    #[command(subcommand)]
    command: UserCommand,
}

#[derive(Subcommand)]
enum UserCommand {
    /// Add a user, or change its password and role; the password is read from standard input
    Add(NewArgs),
    /// Remove a user
    Remove(NameArgs),
    /// List the users
    List(DataArgs),
}

#[derive(clap::Args)]
pub struct TokenArgs {
    #[command(subcommand)]
    command: TokenCommand,
}

#[derive(Subcommand)]
enum TokenCommand {
    /// Create a token and print it; it cannot be shown again
    Add(NewArgs),
    /// Remove a token
    Remove(NameArgs),
    /// List the names of the tokens
    List(DataArgs),
}

#[derive(clap::Args)]
struct DataArgs {
    /// The database directory
    #[arg(long, default_value = DEFAULT_DATA)]
    data: PathBuf,
}

#[derive(clap::Args)]
struct NameArgs {
    /// The name of the user or token
    name: String,
    #[command(flatten)]
    data: DataArgs,
}

#[derive(clap::Args)]
struct NewArgs {
    #[command(flatten)]
    name: NameArgs,
    /// The role, which sets its rights
    #[arg(long, value_enum, default_value_t = Role::Write)]
    role: Role,
}

impl DataArgs {
    /// Opens the users and tokens of the directory, which is created if the server has not done so
    /// yet.
    fn open(&self) -> Result<AccessFile> {
        refuse_bucket(&self.data)?;
        if !is_database(&self.data) {
            std::fs::create_dir_all(&self.data)
                .map_err(|e| Error::io(format_args!("could not create {}", self.data.display()), &e))?;
        }
        AccessFile::open(&self.data)
    }
}

pub fn user(args: &UserArgs) -> Result<()> {
    match &args.command {
        UserCommand::Add(NewArgs { name, role }) => {
            let mut access = name.data.open()?;
            access.set_user(&name.name, &password()?, *role)?;
            print_line!("user '{}' has the role {role}", name.name);
        }
        UserCommand::Remove(name) => name.data.open()?.remove_user(&name.name)?,
        UserCommand::List(data) => {
            for user in data.open()?.users() {
                print_line!("{:<24} {}", user.name, user.role);
            }
        }
    }
    Ok(())
}

pub fn token(args: &TokenArgs) -> Result<()> {
    match &args.command {
        TokenCommand::Add(NewArgs { name, role }) => {
            print_line!("{}", name.data.open()?.add_token(&name.name, *role)?);
        }
        TokenCommand::Remove(name) => name.data.open()?.remove_token(&name.name)?,
        TokenCommand::List(data) => {
            for token in data.open()?.tokens() {
                print_line!("{:<24} {}", token.name, token.role);
            }
        }
    }
    Ok(())
}

/// Reads a password, the first line of standard input.
fn password() -> Result<String> {
    let mut input = std::io::stdin().lock();
    if std::io::stdin().is_terminal() {
        eprint!("Password (shown as you type): ");
        std::io::stderr().flush().ok();
    }
    let mut line = String::new();
    input.read_line(&mut line).map_err(|e| Error::io("could not read the password from standard input", &e))?;
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}
