//! An exhaustive model of how a node takes over a partition whose log, manifests and ownership are objects
//! in a bucket (docs/adr/0006-the-log-in-the-bucket.md). It visits every state that a few nodes can reach,
//! and checks in each that no acknowledged frame is lost or shown twice.
//!
//! 1. [`State`] is the bucket, the requests that are still under way, and the nodes. A request may be
//!    applied at any time, even after its sender has stopped, or never.
//! 2. [`State::steps`] gives the states that one step of the bucket or of a node leads to. A node that is
//!    paused is one that takes no step for a while; a node may also die at any time.
//! 3. [`explore`] visits all states. [`Broken`] leaves a rule out: the model must find what it is for.
//!
//! No step looks at a clock: a candidate may claim a partition at any time.

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

/// Nodes: the first owner and two candidates.
const NODES: u8 = 3;
/// The last epoch; each claim begins one.
const MAX_EPOCH: u8 = 3;
/// Frames that are appended.
const MAX_FRAMES: u8 = 3;
/// Requests under way at a time.
const MAX_PUTS: usize = 2;

/// A rule that is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// No rule: the protocol as it is.
    Nothing,
    /// An append replaces an object that exists.
    AppendOverwrites,
    /// An append whose answer is lost is acknowledged.
    UnknownIsDone,
    /// An object that exists is taken for one's own.
    ExistingIsOurs,
    /// An append whose answer is lost is repeated with the next number.
    RepeatsElsewhere,
    /// A candidate serves without closing the logs of earlier epochs.
    LeavesLogsOpen,
    /// A candidate replays the logs before it closes them.
    ReplaysBeforeClosing,
    /// A candidate makes no manifest, so an earlier owner may still flush.
    LeavesFlushesOpen,
    /// A flush replaces a manifest that exists.
    FlushOverwrites,
    /// Frames are trimmed before the manifest that covers them is there.
    TrimsEarly,
    /// The object that closes a log is trimmed with it.
    TrimsClosing,
    /// A candidate looks for the end of a log from its first number, not from where it was trimmed.
    SearchesFromStart,
}

/// All variants that the model must find.
pub const BROKEN: [Broken; 11] = [
    Broken::AppendOverwrites,
    Broken::UnknownIsDone,
    Broken::ExistingIsOurs,
    Broken::RepeatsElsewhere,
    Broken::LeavesLogsOpen,
    Broken::ReplaysBeforeClosing,
    Broken::LeavesFlushesOpen,
    Broken::FlushOverwrites,
    Broken::TrimsEarly,
    Broken::TrimsClosing,
    Broken::SearchesFromStart,
];

/// A number in the log of an epoch.
type Place = (u8, u8);

/// An object of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Object {
    Frame(u8),
    /// Nothing follows in this epoch.
    Closing,
}

/// A manifest.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Manifest {
    /// The epoch of its maker.
    epoch: u8,
    /// The frames in its segments.
    flushed: BTreeSet<u8>,
    /// Where replay begins.
    log_from: Place,
}

/// A request under way: an object that is created if it is absent.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Put {
    Append { node: u8, place: Place, frame: u8 },
    Manifest { node: u8, number: u8, manifest: Manifest },
}

/// What a node is doing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Node {
    /// It watches the owner.
    Idle,
    /// It has claimed the epoch, and makes a manifest next.
    Claimed {
        epoch: u8,
    },
    /// It closes logs: the next attempt is at this place. `replayed` is what it has read too early, in a
    /// broken variant.
    Closing {
        epoch: u8,
        manifest: u8,
        at: Place,
        replayed: Option<BTreeSet<u8>>,
    },
    Owner(Owner),
    /// It has died, or has learned that another node owns the partition.
    Stopped,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Owner {
    epoch: u8,
    /// The number of the newest manifest that it knows.
    manifest: u8,
    /// The number of the next append.
    next: u8,
    /// The frames that its readers see.
    rows: BTreeSet<u8>,
    append: Request,
    flush: Request,
    /// The frame that is being appended.
    frame: u8,
    /// The manifest that is being made.
    flushing: Option<Manifest>,
}

/// A request of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Request {
    None,
    /// The owner waits for the answer.
    Sent,
    /// The owner no longer waits, and reads what is there.
    Unknown,
}

/// A state of the model.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The epoch of the object that names the owner. It changes by compare-and-set.
    owner_epoch: u8,
    /// Manifests are numbered from 0 and never removed.
    manifests: BTreeMap<u8, Manifest>,
    log: BTreeMap<Place, Object>,
    puts: BTreeSet<Put>,
    nodes: Vec<Node>,
    /// The last epoch whose owner has begun to serve. Owners of earlier ones show what they had.
    served_epoch: u8,
    frames: u8,
    acknowledged: BTreeSet<u8>,
}

impl State {
    /// One node owns the partition in the first epoch; nothing has been written.
    pub fn first() -> Self {
        let manifest = Manifest { epoch: 1, flushed: BTreeSet::new(), log_from: (1, 0) };
        let owner = Owner {
            epoch: 1,
            manifest: 0,
            next: 0,
            rows: BTreeSet::new(),
            append: Request::None,
            flush: Request::None,
            frame: 0,
            flushing: None,
        };
        let mut nodes = vec![Node::Idle; NODES.into()];
        nodes[0] = Node::Owner(owner);
        Self {
            owner_epoch: 1,
            manifests: BTreeMap::from([(0, manifest)]),
            log: BTreeMap::new(),
            puts: BTreeSet::new(),
            nodes,
            served_epoch: 1,
            frames: 0,
            acknowledged: BTreeSet::new(),
        }
    }

    fn newest(&self) -> (u8, &Manifest) {
        self.manifests.last_key_value().map(|(number, manifest)| (*number, manifest)).expect("the first one stays")
    }

    /// The frames in the log from a place on, up to the end of each epoch before `end`.
    fn replay(&self, from: Place, end: u8) -> Vec<u8> {
        let mut frames = Vec::new();
        for epoch in from.0..end {
            let first = if epoch == from.0 { from.1 } else { 0 };
            let objects = (first..).map_while(|number| self.log.get(&(epoch, number)));
            frames.extend(objects.map_while(|object| match object {
                Object::Frame(frame) => Some(*frame),
                Object::Closing => None,
            }));
        }
        frames
    }

    /// What is wrong in this state, if something is.
    fn wrong(&self) -> Option<String> {
        let (_, newest) = self.newest();
        let replayed = self.replay(newest.log_from, MAX_EPOCH + 1);
        let mut seen = newest.flushed.clone();
        if let Some(twice) = replayed.iter().find(|frame| !seen.insert(**frame)) {
            return Some(format!("frame {twice} is there twice"));
        }
        if let Some(lost) = self.acknowledged.difference(&seen).next() {
            return Some(format!("frame {lost} was acknowledged and is lost"));
        }
        let owner = self.nodes.iter().find_map(|node| match node {
            Node::Owner(owner) if owner.epoch == self.served_epoch => Some(owner),
            _ => None,
        })?;
        let unseen = self.acknowledged.difference(&owner.rows).next()?;
        Some(format!("frame {unseen} was acknowledged, but the owner of epoch {} does not see it", owner.epoch))
    }

    /// The states that one step leads to.
    pub fn steps(&self, broken: Broken) -> Vec<Self> {
        let mut next = Vec::new();
        for put in &self.puts {
            let mut delivered = self.clone();
            delivered.puts.remove(put);
            next.push(delivered.clone());
            delivered.deliver(put, broken);
            next.push(delivered);
        }
        for number in 0..NODES {
            let node = &self.nodes[usize::from(number)];
            if matches!(node, Node::Stopped) {
                continue;
            }
            next.push(self.with(number, Node::Stopped));
            match node {
                Node::Idle => next.extend(self.claim(number)),
                Node::Claimed { epoch } => next.push(self.fence(number, *epoch, broken)),
                Node::Closing { epoch, manifest, at, replayed } => {
                    next.push(self.close(number, *epoch, *manifest, *at, replayed.as_ref()));
                }
                Node::Owner(owner) => self.owner_steps(number, owner, broken, &mut next),
                Node::Stopped => {}
            }
        }
        next
    }

    fn with(&self, number: u8, node: Node) -> Self {
        let mut state = self.clone();
        state.nodes[usize::from(number)] = node;
        state
    }

    /// Step 1 of taking over: the owner object, by compare-and-set.
    fn claim(&self, number: u8) -> Option<Self> {
        let epoch = self.owner_epoch + 1;
        let mut state = self.with(number, Node::Claimed { epoch });
        state.owner_epoch = epoch;
        (epoch <= MAX_EPOCH).then_some(state)
    }

    /// Step 2: a manifest of the new epoch, so that no earlier owner can flush.
    fn fence(&self, number: u8, epoch: u8, broken: Broken) -> Self {
        let (newest, manifest) = self.newest();
        if manifest.epoch > epoch {
            return self.with(number, Node::Stopped);
        }
        let mut state = self.clone();
        let at = match broken {
            Broken::SearchesFromStart => (manifest.log_from.0, 0),
            _ => manifest.log_from,
        };
        let replayed = (broken == Broken::ReplaysBeforeClosing).then(|| self.recovered(manifest, epoch));
        let mut made = newest;
        if broken != Broken::LeavesFlushesOpen {
            made += 1;
            state.manifests.insert(made, Manifest { epoch, ..manifest.clone() });
        }
        state.nodes[usize::from(number)] = Node::Closing { epoch, manifest: made, at, replayed };
        match broken {
            Broken::LeavesLogsOpen => state.serving(number, epoch, made, self.recovered(manifest, epoch)),
            _ => state,
        }
    }

    fn recovered(&self, manifest: &Manifest, epoch: u8) -> BTreeSet<u8> {
        let replayed = self.replay(manifest.log_from, epoch);
        manifest.flushed.iter().copied().chain(replayed).collect()
    }

    /// The node begins to serve.
    fn serving(&self, number: u8, epoch: u8, manifest: u8, rows: BTreeSet<u8>) -> Self {
        let (append, flush) = (Request::None, Request::None);
        let owner = Owner { epoch, manifest, next: 0, rows, append, flush, frame: 0, flushing: None };
        let mut state = self.with(number, Node::Owner(owner));
        state.served_epoch = state.served_epoch.max(epoch);
        state
    }

    /// Step 3: closes the logs of earlier epochs, each at its first free number. Step 4: replays them.
    fn close(&self, number: u8, epoch: u8, manifest: u8, at: Place, replayed: Option<&BTreeSet<u8>>) -> Self {
        let mut state = self.clone();
        let at = match self.log.get(&at) {
            _ if at.0 == epoch => {
                let rows = replayed.cloned().unwrap_or_else(|| self.recovered(&self.manifests[&manifest], epoch));
                return self.serving(number, epoch, manifest, rows);
            }
            Some(Object::Frame(_)) => (at.0, at.1 + 1),
            Some(Object::Closing) => (at.0 + 1, 0),
            None => {
                state.log.insert(at, Object::Closing);
                (at.0 + 1, 0)
            }
        };
        state.nodes[usize::from(number)] = Node::Closing { epoch, manifest, at, replayed: replayed.cloned() };
        state
    }

    fn owner_steps(&self, number: u8, owner: &Owner, broken: Broken, next: &mut Vec<Self>) {
        let with = |owner: Owner| self.with(number, Node::Owner(owner));
        match owner.append {
            Request::None if self.frames < MAX_FRAMES => {
                let mut state = with(Owner { append: Request::Sent, frame: self.frames, ..owner.clone() });
                state.frames += 1;
                next.extend(state.sent(Put::Append {
                    node: number,
                    place: (owner.epoch, owner.next),
                    frame: self.frames,
                }));
            }
            Request::None => {}
            Request::Sent => next.push(with(Owner { append: Request::Unknown, ..owner.clone() })),
            Request::Unknown => next.extend(self.look(number, owner, broken)),
        }
        match owner.flush {
            Request::None => {
                let covers =
                    Manifest { epoch: owner.epoch, flushed: owner.rows.clone(), log_from: (owner.epoch, owner.next) };
                if owner.rows.len() > self.manifests[&owner.manifest].flushed.len() {
                    let flushing = Owner { flush: Request::Sent, flushing: Some(covers.clone()), ..owner.clone() };
                    let mut state = with(flushing);
                    if broken == Broken::TrimsEarly {
                        state.trim(covers.log_from, broken);
                    }
                    next.extend(state.sent(Put::Manifest {
                        node: number,
                        number: owner.manifest + 1,
                        manifest: covers,
                    }));
                }
                // Trims what the newest manifest that it knows covers.
                let mut state = self.clone();
                state.trim(self.manifests[&owner.manifest].log_from, broken);
                next.push(state);
            }
            Request::Sent => next.push(with(Owner { flush: Request::Unknown, ..owner.clone() })),
            Request::Unknown => {
                let number_of_flush = owner.manifest + 1;
                let Some(flushing) = &owner.flushing else { return };
                match self.manifests.get(&number_of_flush) {
                    Some(there) if there == flushing => next.push(with(owner.flushed())),
                    Some(_) => next.push(self.with(number, Node::Stopped)),
                    None => {
                        let again = with(Owner { flush: Request::Sent, ..owner.clone() });
                        let put = Put::Manifest { node: number, number: number_of_flush, manifest: flushing.clone() };
                        next.extend(again.sent(put));
                    }
                }
            }
        }
    }

    /// An owner that does not know what became of its append reads the object.
    fn look(&self, number: u8, owner: &Owner, broken: Broken) -> Option<Self> {
        let place = (owner.epoch, owner.next);
        if broken == Broken::UnknownIsDone {
            return Some(self.acknowledge(number, owner));
        }
        match self.log.get(&place) {
            Some(Object::Frame(frame)) if *frame == owner.frame => Some(self.acknowledge(number, owner)),
            Some(_) => Some(self.with(number, Node::Stopped)),
            None => {
                let next = if broken == Broken::RepeatsElsewhere { owner.next + 1 } else { owner.next };
                let again = Owner { append: Request::Sent, next, ..owner.clone() };
                let put = Put::Append { node: number, place: (owner.epoch, next), frame: owner.frame };
                self.with(number, Node::Owner(again)).sent(put)
            }
        }
    }

    fn acknowledge(&self, number: u8, owner: &Owner) -> Self {
        let mut rows = owner.rows.clone();
        rows.insert(owner.frame);
        let done = Owner { append: Request::None, next: owner.next + 1, rows, ..owner.clone() };
        let mut state = self.with(number, Node::Owner(done));
        state.acknowledged.insert(owner.frame);
        state
    }

    fn sent(mut self, put: Put) -> Option<Self> {
        (self.puts.len() < MAX_PUTS || self.puts.contains(&put)).then(|| {
            self.puts.insert(put);
            self
        })
    }

    /// Applies a request, and gives its sender the answer if it still waits for it.
    fn deliver(&mut self, put: &Put, broken: Broken) {
        match put {
            Put::Append { node, place, frame } => {
                let is_new = !self.log.contains_key(place) || broken == Broken::AppendOverwrites;
                if is_new {
                    self.log.insert(*place, Object::Frame(*frame));
                }
                let Node::Owner(owner) = &self.nodes[usize::from(*node)] else { return };
                let waits = owner.append == Request::Sent
                    && (owner.epoch, owner.next, owner.frame) == (place.0, place.1, *frame);
                if waits {
                    let owner = owner.clone();
                    *self = match is_new || broken == Broken::ExistingIsOurs {
                        true => self.acknowledge(*node, &owner),
                        // It reads whose object that is.
                        false => self.with(*node, Node::Owner(Owner { append: Request::Unknown, ..owner })),
                    };
                }
            }
            Put::Manifest { node, number, manifest } => {
                let is_new = !self.manifests.contains_key(number) || broken == Broken::FlushOverwrites;
                if is_new {
                    self.manifests.insert(*number, manifest.clone());
                }
                let Node::Owner(owner) = &self.nodes[usize::from(*node)] else { return };
                let waits = owner.flush == Request::Sent && owner.manifest + 1 == *number;
                if waits && owner.flushing.as_ref() == Some(manifest) {
                    let owner = owner.clone();
                    let after = match is_new {
                        true => owner.flushed(),
                        false => Owner { flush: Request::Unknown, ..owner },
                    };
                    self.nodes[usize::from(*node)] = Node::Owner(after);
                }
            }
        }
    }

    /// Removes the objects of the log before a place.
    fn trim(&mut self, before: Place, broken: Broken) {
        self.log
            .retain(|place, object| *place >= before || *object == Object::Closing && broken != Broken::TrimsClosing);
    }
}

impl Owner {
    /// The owner once its manifest is there.
    fn flushed(&self) -> Self {
        Self { flush: Request::None, flushing: None, manifest: self.manifest + 1, ..self.clone() }
    }
}

/// What [`explore`] found.
#[derive(Debug)]
pub struct Explored {
    /// The number of states.
    pub states: usize,
    /// What is wrong in the first wrong state, with the states that lead to it.
    pub wrong: Option<(String, Vec<State>)>,
}

/// Visits the states that can be reached, nearest first, until one is wrong.
pub fn explore(broken: Broken) -> Explored {
    // Of each state only a hash is known. Two of two million states share one with a chance of 1 in 10
    // million.
    let hasher = BuildHasherDefault::<DefaultHasher>::default();
    let mut known = HashSet::from([hasher.hash_one(State::first())]);
    // How each state was found: the state before it, and which of that one's steps led to it.
    let mut found = vec![(0, 0)];
    let mut queue = VecDeque::from([(0, State::first())]);
    while let Some((place, state)) = queue.pop_front() {
        if let Some(wrong) = state.wrong() {
            return Explored { states: known.len(), wrong: Some((wrong, path(broken, &found, place))) };
        }
        for (step, next) in state.steps(broken).into_iter().enumerate() {
            if known.insert(hasher.hash_one(&next)) {
                queue.push_back((found.len(), next));
                found.push((place, step));
            }
        }
    }
    Explored { states: known.len(), wrong: None }
}

/// The states from the first to one that was found.
fn path(broken: Broken, found: &[(usize, usize)], mut place: usize) -> Vec<State> {
    let mut steps = Vec::new();
    while place > 0 {
        steps.push(found[place].1);
        place = found[place].0;
    }
    let mut states = vec![State::first()];
    for step in steps.into_iter().rev() {
        states.extend(states.last().map(|state| state.steps(broken).swap_remove(step)));
    }
    states
}
