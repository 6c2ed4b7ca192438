//! The promises of a store, each with what rests on it.

use super::{Effort, incompressible};
use crate::bucket::{Bucket, Outcome};
use bytes::Bytes;
use fleetdb_engine::{Code, Error, Result};
use futures::future::try_join_all;
use serde::Serialize;
use std::collections::BTreeSet;

/// How many promises there are.
pub const PROMISES: usize = 7;

/// The entries that each client adds to one object.
const ENTRIES: usize = 5;

/// How often a client tries to add its entries.
const MAX_TRIES: usize = 1_000;

/// A promise of a store.
#[derive(Clone, Debug, Serialize)]
pub struct Promise {
    /// What a store must do.
    pub name: &'static str,
    /// What would happen otherwise.
    pub otherwise: &'static str,
    /// What the store did instead; `None` if it keeps the promise.
    pub broken: Option<String>,
}

/// What a store did instead of what it should, or an error that has nothing to do with it.
enum Failure {
    Broken(String),
    Unreachable(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error.code() {
            // The store does not know the request.
            Code::Invalid => Self::Broken(error.to_string()),
            _ => Self::Unreachable(error),
        }
    }
}

type Kept = std::result::Result<(), Failure>;

/// Fails with a text unless a condition holds.
macro_rules! expect {
    ($holds:expr, $($text:tt)*) => {
        if !$holds {
            return Err(Failure::Broken(format!($($text)*)));
        }
    };
}

pub(super) async fn tried(bucket: &Bucket, effort: &Effort, progress: &impl Fn()) -> Result<Vec<Promise>> {
    const LOST: &str = "two owners would both acknowledge writes, and those of one would be lost";
    let mut all = Vec::with_capacity(PROMISES);
    macro_rules! promise {
        ($name:literal, $otherwise:expr, $kept:expr) => {
            progress();
            let broken = match $kept.await {
                Ok(()) => None,
                Err(Failure::Broken(how)) => Some(how),
                Err(Failure::Unreachable(error)) => return Err(error),
            };
            all.push(Promise { name: $name, otherwise: $otherwise, broken });
        };
    }
    promise!("an object is read as it was written", "rows would be damaged", is_whole(bucket));
    promise!("objects are listed at once", "a reader would miss the newest segments", is_listed(bucket));
    promise!("an object is created only if absent", LOST, is_created_once(bucket));
    promise!("also if many clients create it at a time", LOST, is_won_once(bucket, effort));
    promise!("an object is replaced only if unchanged", LOST, is_replaced_by_version(bucket));
    promise!("also if many clients replace it at a time", LOST, is_gathered(bucket, effort));
    promise!("a read sees the last write", "an owner would not see that it is no longer one", is_fresh(bucket, effort));
    Ok(all)
}

async fn is_whole(bucket: &Bucket) -> Kept {
    // Of a length that is a multiple of nothing.
    let bytes = incompressible(1_000_003);
    bucket.create("whole", bytes.clone()).await?;
    let read = bucket.read("whole").await?.map(|(read, _)| read);
    expect!(read.as_ref() == Some(&bytes), "a megabyte came back otherwise");
    let part = bucket.read_range("whole", 999_983..1_000_003).await?;
    expect!(part == bytes.slice(999_983..), "a range of 20 bytes came back as {} bytes or others", part.len());
    expect!(bucket.read("absent").await?.is_none(), "an object was read that nobody wrote");
    Ok(())
}

async fn is_listed(bucket: &Bucket) -> Kept {
    let within = bucket.within("listed");
    let names: Vec<String> = (0..20).map(|number| format!("{number:020}")).collect();
    for name in &names {
        within.create(name, Bytes::from_static(b"x")).await?;
        let listed = within.list().await?;
        expect!(listed.contains(name), "a new object was not listed");
    }
    within.delete(names[..10].to_vec()).await?;
    let listed = within.list().await?;
    expect!(listed == names[10..], "after half of 20 objects were deleted, {} were listed", listed.len());
    Ok(())
}

async fn is_created_once(bucket: &Bucket) -> Kept {
    let first = bucket.create("once", Bytes::from_static(b"first")).await?;
    expect!(first != Outcome::Refused, "a new object was refused");
    let second = bucket.create("once", Bytes::from_static(b"second")).await?;
    let read = bucket.read("once").await?.map(|(read, _)| read);
    expect!(second == Outcome::Refused, "an object that existed was written once more");
    expect!(read.as_deref() == Some(b"first"), "an object that existed was changed by a write that was refused");
    Ok(())
}

/// All clients write one object; one of them must win, and find its bytes there.
async fn is_won_once(bucket: &Bucket, effort: &Effort) -> Kept {
    for round in 0..effort.rounds {
        let name = format!("race/{round}");
        let claims = (0..effort.clients).map(|client| {
            let (bucket, name, bytes) = (bucket.clone(), name.clone(), Bytes::from(format!("client {client}")));
            spawned(async move { bucket.claim(&name, &bytes).await })
        });
        let won = try_join_all(claims).await?;
        let winners: Vec<usize> = (0..won.len()).filter(|client| won[*client]).collect();
        expect!(winners.len() == 1, "{} of {} clients created one object", winners.len(), effort.clients);
        let read = bucket.read(&name).await?.map(|(read, _)| read);
        let wanted = format!("client {}", winners[0]);
        expect!(read.as_deref() == Some(wanted.as_bytes()), "the object is not that of the client that created it");
    }
    Ok(())
}

async fn is_replaced_by_version(bucket: &Bucket) -> Kept {
    let Outcome::Written(first) = bucket.create("owner", Bytes::from_static(b"1")).await? else {
        return Err(Failure::Broken("a new object was refused".to_owned()));
    };
    let Outcome::Written(second) = bucket.replace("owner", Bytes::from_static(b"2"), &first).await? else {
        return Err(Failure::Broken("an object was not replaced though its version was given".to_owned()));
    };
    let late = bucket.replace("owner", Bytes::from_static(b"3"), &first).await?;
    expect!(late == Outcome::Refused, "an object was replaced by a client that knew an older version");
    let read = bucket.read("owner").await?;
    let is_second = read == Some((Bytes::from_static(b"2"), second.clone()));
    expect!(is_second, "a read gives another version than the write gave");
    let absent = bucket.replace("nobody", Bytes::from_static(b"1"), &second).await?;
    expect!(absent == Outcome::Refused, "an object that does not exist was replaced");
    Ok(())
}

/// All clients add entries to one object, each by replacing what it read. What a client was told is
/// written must be there in the end.
async fn is_gathered(bucket: &Bucket, effort: &Effort) -> Kept {
    bucket.create("gathered", Bytes::new()).await?;
    let clients = (0..effort.clients).map(|client| {
        let bucket = bucket.clone();
        spawned(async move { add(&bucket, client).await })
    });
    let told: Vec<String> = try_join_all(clients).await?.into_iter().flatten().collect();
    let read = bucket.read("gathered").await?.map(|(read, _)| read).unwrap_or_default();
    let found: Vec<&str> = entries(&read).collect();
    let different: BTreeSet<&str> = found.iter().copied().collect();
    let lost = told.iter().filter(|entry| !different.contains(entry.as_str())).count();
    expect!(lost == 0, "{lost} of {} replacements that it acknowledged were lost", told.len());
    expect!(different.len() == found.len(), "{} replacements were done twice", found.len() - different.len());
    let all = effort.clients * ENTRIES;
    expect!(found.len() == all, "only {} of {all} replacements were possible", found.len());
    Ok(())
}

/// Adds a client's entries, and returns those that the store acknowledged.
async fn add(bucket: &Bucket, client: usize) -> Result<Vec<String>> {
    let mut told = Vec::new();
    for _ in 0..MAX_TRIES {
        let Some((now, version)) = bucket.read("gathered").await? else { break };
        let own = entries(&now).filter(|entry| entry.starts_with(&format!("{client}."))).count();
        if own >= ENTRIES {
            break;
        }
        let entry = format!("{client}.{own}");
        let bytes = [&now[..], entry.as_bytes(), b" "].concat();
        match bucket.replace("gathered", bytes.into(), &version).await {
            Ok(Outcome::Written(_)) => told.push(entry),
            Ok(Outcome::Refused) => {}
            // The answer was lost, or the store wants the client to try again (409 with AWS). The next
            // read tells.
            Err(error) if error.code() == Code::Busy => {}
            Err(error) => return Err(error),
        }
    }
    Ok(told)
}

fn entries(bytes: &[u8]) -> impl Iterator<Item = &str> {
    str::from_utf8(bytes).unwrap_or_default().split_whitespace()
}

async fn is_fresh(bucket: &Bucket, effort: &Effort) -> Kept {
    let Outcome::Written(mut version) = bucket.create("fresh", Bytes::from_static(b"0")).await? else {
        return Err(Failure::Broken("a new object was refused".to_owned()));
    };
    for round in 1..=effort.rounds {
        let bytes = Bytes::from(round.to_string());
        match bucket.replace("fresh", bytes.clone(), &version).await? {
            Outcome::Written(now) => version = now,
            Outcome::Refused => return Err(Failure::Broken("an object was not replaced by who knew it".to_owned())),
        }
        let reads = (0..effort.clients).map(|_| {
            let bucket = bucket.clone();
            spawned(async move { bucket.read("fresh").await })
        });
        for read in try_join_all(reads).await? {
            let read = read.map(|(read, _)| read);
            expect!(read.as_ref() == Some(&bytes), "a read after a write gave what was there before");
        }
    }
    Ok(())
}

/// Runs on any thread.
async fn spawned<T: Send + 'static>(work: impl Future<Output = Result<T>> + Send + 'static) -> Result<T> {
    tokio::spawn(work).await.map_err(|e| Error::bug(format!("a client failed: {e}")))?
}
