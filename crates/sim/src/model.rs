//! The model: all batches in order, and what a crash may undo.

use std::collections::BTreeMap;

/// The rows of the series, by key and time.
pub type Series = BTreeMap<(i64, i64), Row>;
/// The rows of the collection.
pub type Items = BTreeMap<i64, i64>;

/// A row of the series.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The value.
    pub value: i64,
    /// The text.
    pub text: String,
    /// The id and value of the column that comes and goes. After a drop, an added column has a new
    /// id.
    pub extra: Option<(u32, i64)>,
}

/// One change of a batch.
#[derive(Clone, Debug)]
pub enum Change {
    /// A row of the series.
    Row(i64, i64, Row),
    /// A row of the collection.
    Item(i64, i64),
    /// Deletes the rows of a device (or of all devices) in a time span.
    Delete(Option<i64>, i64, i64),
    /// Deletes a row of the collection.
    DeleteItem(i64),
    /// Deletes the rows of the series whose value has this remainder (second) modulo the divisor
    /// (first).
    DeleteValues(i64, i64),
}

impl Change {
    /// Whether a delete by value deletes a row with this value.
    pub fn hits(&self, value: i64) -> bool {
        matches!(self, Self::DeleteValues(divisor, rest) if value.rem_euclid(*divisor) == *rest)
    }
}

/// How a batch was acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It returned an error, so it may or may not be there.
    Unknown,
    /// At `os`: survives the death of the process.
    Os,
    /// At `interval`, at this time (nanoseconds).
    Interval(u64),
    /// At `sync`.
    Sync,
}

/// All batches that the log accepted, in sequence order.
#[derive(Default)]
pub struct Model {
    batches: Vec<(Vec<Change>, Fate)>,
    /// Deletes by value, which are not batches, each with the number of batches before it. All of
    /// those are durable.
    by_value: Vec<(u64, Change)>,
    /// A delete that returned an error, so it may or may not be there.
    doubtful: Option<Change>,
    /// The state after all batches.
    series: Series,
    items: Items,
    /// Whether a new row that lacks the column that comes and goes keeps the older row's value.
    merges_fields: bool,
}

impl Model {
    /// A model of an empty database.
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

    /// Deletes rows by value. This is durable, and so is everything before it.
    pub fn delete_values(&mut self, delete: Change) {
        self.all_durable();
        apply(std::slice::from_ref(&delete), self.merges_fields, &mut self.series, &mut self.items);
        self.by_value.push((self.sequence(), delete));
    }

    /// Records the outcome of a delete by value that returned an error; `None` if it had no effect.
    pub fn doubt(&mut self, delete: Option<Change>) {
        self.doubtful = delete;
    }

    /// Accepts the doubtful delete as done, if `is_done` confirms the rows that would then remain.
    pub fn settle(&mut self, is_done: impl FnOnce(&Series) -> bool) {
        let Some(delete) = self.doubtful.take() else { return };
        let mut series = self.series.clone();
        series.retain(|_, row| !delete.hits(row.value));
        if series != self.series && is_done(&series) {
            self.delete_values(delete);
        }
    }

    /// Marks all batches as durable: a flush returned.
    pub fn all_durable(&mut self) {
        self.batches.iter_mut().for_each(|(_, fate)| *fate = Fate::Sync);
    }

    /// The last sequence that a crash must keep. `stepped_ns` is when the log last had a chance to
    /// sync.
    pub fn must_keep(&self, power_cut: bool, stepped_ns: u64, interval_ns: u64) -> u64 {
        let kept = |fate: &Fate| match fate {
            Fate::Unknown => false,
            Fate::Sync => true,
            Fate::Os => !power_cut,
            Fate::Interval(at_ns) => !power_cut || at_ns + interval_ns <= stepped_ns,
        };
        self.batches.iter().rposition(|(_, fate)| kept(fate)).map_or(0, |last| last as u64 + 1)
    }

    /// Undoes every batch after `sequence`.
    pub fn cut(&mut self, sequence: u64) {
        if sequence < self.sequence() {
            self.batches.truncate(usize::try_from(sequence).unwrap_or(usize::MAX));
            (self.series, self.items) = (Series::new(), Items::new());
            // Deletes by value were durable, and so was everything before them.
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

    /// The expected rows.
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
