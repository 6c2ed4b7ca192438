//! `fleetdb backup` and `fleetdb restore`.

use crate::progress::{counted, thousands, with_bytes_bar};
use crate::stdout::print_line;
use crate::{DEFAULT_DATA, close, open, refuse_bucket};
#[cfg(feature = "cluster")]
use fleetdb_engine::Error;
use fleetdb_engine::Result;
use fleetdb_engine::backup::BackupReport;
use fleetdb_engine::inspect::CheckReport;
use fleetdb_engine::io::Io;
use fleetdb_server::access::AccessFile;
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
pub struct BackupArgs {
    /// The database directory
    #[arg(long, default_value = DEFAULT_DATA)]
    data: PathBuf,
    /// The directory for the backup: empty, or holding an older backup of the same database. With the
    /// feature cluster also a bucket, s3://BUCKET/PREFIX
    destination: PathBuf,
    /// Keep this backup in the bucket under a name. Without one, it can be restored for a day after it
    /// has been replaced by a newer one
    #[cfg(feature = "cluster")]
    #[arg(long, value_name = "NAME")]
    pin: Option<String>,
    /// Also publish the tables in the bucket as Delta tables, for other programs
    #[cfg(feature = "cluster")]
    #[arg(long)]
    delta: bool,
}

#[derive(clap::Args)]
pub struct RestoreArgs {
    /// The directory of the backup. With the feature cluster also a bucket, s3://BUCKET/PREFIX
    backup: PathBuf,
    /// Restore this manifest of a bucket instead of the newest
    #[cfg(feature = "cluster")]
    #[arg(long, value_name = "NUMBER")]
    manifest: Option<u64>,
    /// Restore the manifest that was kept in a bucket under this name
    #[cfg(feature = "cluster")]
    #[arg(long, value_name = "NAME", conflicts_with = "manifest")]
    pin: Option<String>,
    /// Only list the manifests of a bucket
    #[cfg(feature = "cluster")]
    #[arg(long, conflicts_with_all = ["manifest", "pin"])]
    list: bool,
    /// The directory to restore to; it must not hold a database
    #[arg(long, default_value = DEFAULT_DATA)]
    data: PathBuf,
}

pub fn backup(args: &BackupArgs) -> Result<()> {
    #[cfg(feature = "cluster")]
    if let Some(url) = crate::shipped::url(&args.destination) {
        return crate::shipped::backup(&args.data, url, args.pin.as_deref(), args.delta);
    }
    #[cfg(feature = "cluster")]
    if args.pin.is_some() || args.delta {
        return Err(Error::invalid("--pin and --delta are for backups to a bucket"));
    }
    refuse_bucket(&args.destination)?;
    let db = open(&args.data, false)?;
    let outcome = with_bytes_bar("backing up", |progress| db.backup(&Io::files(&args.destination), progress));
    close(db)?;
    let report = outcome?;
    AccessFile::copy(&args.data, &args.destination)?;
    print_line!(
        "{} segments, {} bytes in {}: {} copied, {} linked, {} already there",
        report.segments,
        thousands(report.bytes),
        args.destination.display(),
        thousands(report.copied_bytes),
        thousands(report.linked_bytes),
        thousands(report.kept_bytes)
    );
    if report.linked_bytes > 0 {
        print_line!(
            "hard links share the disk with {}: copy the backup to another disk to survive the loss of this one",
            shown(&args.data)
        );
    }
    Ok(())
}

pub fn restore(args: &RestoreArgs) -> Result<()> {
    #[cfg(feature = "cluster")]
    if let Some(url) = crate::shipped::url(&args.backup) {
        use fleetdb_cluster::shipped::Moment;
        let moment = match (args.manifest, &args.pin) {
            (Some(number), _) => Moment::Number(number),
            (None, Some(name)) => Moment::Pin(name.clone()),
            (None, None) => Moment::Newest,
        };
        return if args.list { crate::shipped::list(url) } else { crate::shipped::restore(url, &moment, &args.data) };
    }
    #[cfg(feature = "cluster")]
    if args.manifest.is_some() || args.pin.is_some() || args.list {
        return Err(Error::invalid("--manifest, --pin and --list are for backups in a bucket"));
    }
    refuse_bucket(&args.backup)?;
    let (from, to) = (Io::files(&args.backup), Io::files(&args.data));
    let (report, checked) =
        with_bytes_bar("restoring", |progress| fleetdb_engine::backup::restore(&from, &to, progress))?;
    AccessFile::copy(&args.backup, &args.data)?;
    show_restored(&report, &checked, &args.data);
    Ok(())
}

/// Says what was restored.
pub fn show_restored(report: &BackupReport, checked: &CheckReport, data: &Path) {
    print_line!(
        "{}, {}, {} restored to {}; check passed",
        counted(report.segments as u64, "segment"),
        counted(checked.rows, "row"),
        counted(report.bytes, "byte"),
        shown(data)
    );
}

fn shown(path: &Path) -> std::path::Display<'_> {
    path.display()
}
