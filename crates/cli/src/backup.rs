//! `fleetdb backup` and `fleetdb restore`.

use crate::progress::{bar, counted, thousands};
use crate::stdout::print_line;
use crate::{DEFAULT_DATA, close, open};
use fleetdb_engine::Result;
use fleetdb_engine::io::Io;
use fleetdb_server::access::AccessFile;
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
pub struct BackupArgs {
    /// The database directory
    #[arg(long, default_value = DEFAULT_DATA)]
    data: PathBuf,
    /// The directory for the backup: empty, or holding an older backup of the same database
    destination: PathBuf,
}

#[derive(clap::Args)]
pub struct RestoreArgs {
    /// The directory of the backup
    backup: PathBuf,
    /// The directory to restore to; it must not hold a database
    #[arg(long, default_value = DEFAULT_DATA)]
    data: PathBuf,
}

pub fn backup(args: &BackupArgs) -> Result<()> {
    let db = open(&args.data, false)?;
    let progress = bar(0, "backing up", "bytes");
    let outcome = db.backup(&Io::files(&args.destination), |done, all| {
        progress.set_length(all);
        progress.set_position(done);
    });
    progress.finish_and_clear();
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
    let progress = bar(0, "restoring", "bytes");
    let outcome = fleetdb_engine::backup::restore(&Io::files(&args.backup), &Io::files(&args.data), |done, all| {
        progress.set_length(all);
        progress.set_position(done);
    });
    progress.finish_and_clear();
    let (report, checked) = outcome?;
    AccessFile::copy(&args.backup, &args.data)?;
    print_line!(
        "{}, {}, {} restored to {}; check passed",
        counted(report.segments as u64, "segment"),
        counted(checked.rows, "row"),
        counted(report.bytes, "byte"),
        shown(&args.data)
    );
    Ok(())
}

fn shown(path: &Path) -> std::path::Display<'_> {
    path.display()
}
