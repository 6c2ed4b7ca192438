//! `fleetdb serve`: runs the server.

use crate::stdout::print_line;
use fleetdb_engine::Result;
use fleetdb_server::{Config, Options, Server};
use std::path::PathBuf;

#[derive(clap::Args)]
pub struct Args {
    /// A TOML file with the options below under the same names; flags and variables override it
    #[arg(long, env = "FLEETDB_CONFIG")]
    config: Option<PathBuf>,
    /// Check the options and the files they name, then exit
    #[arg(long)]
    check_config: bool,
    #[command(flatten)]
    options: Options,
    #[cfg(feature = "cluster")]
    #[command(flatten)]
    ship: crate::shipped::Ship,
}

pub fn run(args: Args) -> Result<()> {
    let file = args.config.as_deref().map(Options::read).transpose()?.unwrap_or_default();
    let config = Config::new(args.options.or(file))?;
    if args.check_config {
        config.check()?;
        for (name, address) in config.listeners() {
            print_line!("{name:<10} {address}");
        }
        print_line!("{:<10} {}", "data", config.data.display());
        #[cfg(feature = "cluster")]
        args.ship.check()?;
        print_line!("the configuration is valid");
        return Ok(());
    }
    fleetdb_server::log_to_stderr(&config)?;
    #[cfg(feature = "cluster")]
    let data = config.data.clone();
    let server = Server::start(config)?;
    #[cfg(feature = "cluster")]
    let shipping = args.ship.start(&server, &data)?;
    server.wait()?;
    // The server closes the database only if nobody else has it.
    #[cfg(feature = "cluster")]
    drop(shipping);
    server.stop()
}
