//! What must be there: all batches in order, and what a crash may take back.

use std::collections::BTreeMap;

/// A series' key and time, and its row.
pub type Series = BTreeMap<(i64, i64), Row>;
/// A collection's rows.
pub type Items = BTreeMap<i64, i64>;

/// A row of the series.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The value.
    pub value: i64,
    /// The text.
    pub text: String,
    /// The value of the column that comes and goes, and the number of that column: one that is dropped and added
    /// again is another.
    pub extra: Option<(u32, i64)>,
}

/// One change of a batch.
#[derive(Clone, Debug)]
pub enum Change {
    /// A row of the series.
    Row(i64, i64, Row),
    /// A row of the collection.
    Item(i64, i64),
    /// Rows of a device (or of all) in a span of times go.
    Delete(Option<i64>, i64, i64),
    /// A row of the collection goes.
    DeleteItem(i64),
    /// Rows of the series go whose value has this rest when divided by that number.
    DeleteValues(i64, i64),
}

impl Change {
    /// Whether a delete by value deletes rows of this one.
    pub fn hits(&self, value: i64) -> bool {
        matches!(self, Self::DeleteValues(divisor, rest) if value.rem_euclid(*divisor) == *rest)
    }
}

/// What a batch was acknowledged with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It returned an error: it may be there or not.
    Unknown,
    /// At `os`: a killed process does not lose it.
    Os,
    /// At `interval`, at this time (nanoseconds).
    Interval(u64),
    /// At `sync`.
    Sync,
}

/// All batches that the log took, in order of their sequence.
#[derive(Default)]
pub struct Model {
    batches: Vec<(Vec<Change>, Fate)>,
    /// Deletes by value, which are no batches: each with how many batches came before it, all of which are durable.
    by_value: Vec<(u64, Change)>,
    /// One that returned an error: it may be there or not.
    doubtful: Option<Change>,
    /// The state after the first so many batches.
    series: Series,
    items: Items,
    /// Whether a row of the series without the column that comes and goes leaves the older row's value.
    merges_fields: bool,
}

impl Model {
    /// A model of an empty database; the series merges fields or does not.
    pub fn new(merges_fields: bool) -> Self {
        Self { merges_fields, ..Self::default() }
    }

    /// Whether the series merges fields.
    pub fn merges_fields(&self) -> bool {
        self.merges_fields
    }

    /// The last batch's sequence.
    pub fn sequence(&self) -> u64 {
        self.batches.len() as u64
    }

    /// Adds the next batch.
    pub fn push(&mut self, changes: Vec<Change>, fate: Fate) {
        apply(&changes, self.merges_fields, &mut self.series, &mut self.items);
        self.batches.push((changes, fate));
    }

    /// Deletes rows by value: that is durable, and so is everything before it.
    pub fn delete_values(&mut self, delete: Change) {
        self.all_durable();
        apply(std::slice::from_ref(&delete), self.merges_fields, &mut self.series, &mut self.items);
        self.by_value.push((self.sequence(), delete));
    }

    /// A delete by value returned an error; `None`: it is known that nothing came of it.
    pub fn doubt(&mut self, delete: Option<Change>) {
        self.doubtful = delete;
    }

    /// Takes the delete that returned an error for done, if `is_done` says so of the rows that would be there then.
    pub fn settle(&mut self, is_done: impl FnOnce(&Series) -> bool) {
        let Some(delete) = self.doubtful.take() else { return };
        let mut series = self.series.clone();
        series.retain(|_, row| !delete.hits(row.value));
        if series != self.series && is_done(&series) {
            self.delete_values(delete);
        }
    }

    /// Everything up to the last batch was acknowledged as durable: a flush returned.
    pub fn all_durable(&mut self) {
        self.batches.iter_mut().for_each(|(_, fate)| *fate = Fate::Sync);
    }

    /// The first sequence that a crash may take back: everything up to the one before must be there. `stepped_ns` is
    /// when the log last had a chance to sync.
    pub fn must_keep(&self, power_cut: bool, stepped_ns: u64, interval_ns: u64) -> u64 {
        let kept = |fate: &Fate| match fate {
            Fate::Unknown => false,
            Fate::Sync => true,
            Fate::Os => !power_cut,
            Fate::Interval(at_ns) => !power_cut || at_ns + interval_ns <= stepped_ns,
        };
        self.batches.iter().rposition(|(_, fate)| kept(fate)).map_or(0, |last| last as u64 + 1)
    }

    /// Takes back every batch behind `sequence`.
    pub fn cut(&mut self, sequence: u64) {
        if sequence < self.sequence() {
            self.batches.truncate(usize::try_from(sequence).unwrap_or(usize::MAX));
            (self.series, self.items) = (Series::new(), Items::new());
            // What was deleted by value was durable with all before it.
            assert!(self.by_value.last().is_none_or(|(before, _)| *before <= sequence));
            let mut by_value = self.by_value.iter().peekable();
            for number in 0..=self.batches.len() {
                while let Some((_, delete)) = by_value.next_if(|(before, _)| *before == number as u64) {
                    apply(std::slice::from_ref(delete), self.merges_fields, &mut self.series, &mut self.items);
                }
                if let Some((changes, _)) = self.batches.get(number) {
                    apply(changes, self.merges_fields, &mut self.series, &mut self.items);
                }
            }
        }
        // What survived one crash is durable.
        self.all_durable();
    }

    /// The rows there must be.
    pub fn rows(&self) -> (&Series, &Items) {
        (&self.series, &self.items)
    }
}

fn apply(changes: &[Change], merges_fields: bool, series: &mut Series, items: &mut Items) {
    // A batch's deletes come before its rows.
    for change in changes {
        match change {
            Change::Delete(device, from, to) => series
                .retain(|(of, time), _| device.is_some_and(|device| device != *of) || !(*from..=*to).contains(time)),
            Change::DeleteItem(id) => {
                items.remove(id);
            }
            Change::DeleteValues(..) => series.retain(|_, row| !change.hits(row.value)),
            _ => {}
        }
    }
    for change in changes {
        match change {
            Change::Row(device, time, row) => {
                let old = series.insert((*device, *time), row.clone()).filter(|_| merges_fields);
                if let (Some(old), Some(new)) = (old, series.get_mut(&(*device, *time))) {
                    new.extra = new.extra.or(old.extra);
                }
            }
            Change::Item(id, value) => {
                items.insert(*id, *value);
            }
            _ => {}
        }
    }
}
