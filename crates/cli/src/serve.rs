//! `fleetdb serve`: runs the server.

#[cfg(not(feature = "cluster"))]
use crate::refuse_bucket;
#[cfg(feature = "cluster")]
use crate::shipped::BucketOptions;
use crate::stdout::print_line;
use crate::{io_to_read, refuse_node};
use fleetdb_engine::{Durability, Error, Result};
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
    buckets: BucketOptions,
}

pub fn run(args: Args) -> Result<()> {
    #[cfg(feature = "cluster")]
    let (file, buckets) = match &args.config {
        Some(path) => Options::read_with(path, &BucketOptions::KEYS)?,
        None => <(Options, BucketOptions)>::default(),
    };
    #[cfg(feature = "cluster")]
    let buckets = args.buckets.or(buckets);
    #[cfg(not(feature = "cluster"))]
    let file = args.config.as_deref().map(Options::read).transpose()?.unwrap_or_default();
    let config = Config::new(args.options.or(file))?;
    #[cfg(feature = "cluster")]
    buckets.validate(&config)?;
    #[cfg(not(feature = "cluster"))]
    refuse_bucket(&config.data)?;
    #[cfg(feature = "cluster")]
    let is_node = buckets.is_node();
    #[cfg(not(feature = "cluster"))]
    let is_node = false;
    if !is_node && config.settings.durability == Durability::Shared {
        return Err(Error::invalid("option durability is shared, but the server is not a node of a cluster"));
    }
    if !is_node && !config.read_only {
        refuse_node(&config.data)?;
    }
    if args.check_config {
        config.check()?;
        for (name, address) in config.listeners() {
            print_line!("{name:<10} {address}");
        }
        print_line!("{:<10} {}", "data", config.data.display());
        #[cfg(feature = "cluster")]
        buckets.show(&config)?;
        print_line!("the configuration is valid");
        return Ok(());
    }
    fleetdb_server::log_to_stderr(&config)?;
    #[cfg(feature = "cluster")]
    if is_node {
        return buckets.run_node(&config);
    }
    #[cfg(feature = "cluster")]
    let data = config.data.clone();
    #[cfg(feature = "cluster")]
    let io = buckets.io(&config.data)?.map_or_else(|| io_to_read(&config.data), Ok)?;
    #[cfg(not(feature = "cluster"))]
    let io = io_to_read(&config.data)?;
    let server = Server::start_on(config, io)?;
    #[cfg(feature = "cluster")]
    let threads = buckets.start(&server, &data)?;
    server.wait()?;
    // The server closes the database only if nobody else has it.
    #[cfg(feature = "cluster")]
    drop(threads);
    server.stop()
}
