//! An owner of a database whose log is in a bucket.

use fleetdb_bench_core::Outcome;
use fleetdb_cluster::bucket::Bucket;
use fleetdb_cluster::failover::{Node, NodeOptions, Ownership};
use fleetdb_engine::io::Io;
use fleetdb_engine::{Database, Settings};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Time between two manifests, that of `fleetdb serve --cluster`.
const SHIP_INTERVAL: Duration = Duration::from_secs(10);
/// How many times a node that stands by looks at the owner before it would take over.
const LOOKS: u32 = 20;

/// An open database that this process owns.
pub struct Owned {
    pub db: Arc<Database>,
    pub epoch: u64,
    ownership: Ownership,
}

impl Owned {
    /// Stands by with the data in a directory until this node is the owner.
    pub fn wait(bucket: &Bucket, directory: &Path, takeover_after: Duration) -> Outcome<Self> {
        let io = Io::files(directory);
        let options = NodeOptions { takeover_after, ship_interval: SHIP_INTERVAL, addresses: BTreeMap::new() };
        let mut node = Node::open(bucket, io.clone(), options)?;
        let claim = loop {
            if let Some(claim) = node.try_claim()? {
                break claim;
            }
            node.follow()?;
            std::thread::sleep(takeover_after / LOOKS);
        };
        let taken = node.take_over(claim)?;
        let epoch = taken.epoch();
        let db = Arc::new(Database::open_with(io, Settings::default())?);
        let ownership = Ownership::start(&node, taken, &db, |_| ())?;
        Ok(Self { db, epoch, ownership })
    }

    /// Gives the database up, and closes it.
    pub fn close(self) -> Outcome<()> {
        self.ownership.release(&self.db);
        Ok(Arc::into_inner(self.db).ok_or("the database is still in use")?.close()?)
    }
}

/// The bucket at a URL, or in a directory below this one.
pub fn bucket(url: Option<&str>, directory: &Path) -> Outcome<Bucket> {
    match url {
        Some(url) => Ok(Bucket::open(url)?),
        None => {
            std::fs::create_dir_all(directory.join("bucket"))?;
            crate::fleet::bucket(directory)
        }
    }
}
