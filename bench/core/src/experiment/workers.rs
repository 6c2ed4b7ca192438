//! Workers shared by several experiments: one writes batches, one asks queries.

use crate::Outcome;
use crate::driver::Worker;
use crate::oracle::difference;
use crate::query::Query;
use crate::table::Table;
use crate::target::Connection;
use arrow::array::RecordBatch;
use std::collections::HashMap;

/// Writes batches of one table. `make` creates them and receives the number of batches acknowledged
/// so far.
pub(super) struct Writer<'a, M> {
    connection: Box<dyn Connection>,
    table: &'a Table,
    make: M,
    /// Batches left to write.
    pub(super) left: u64,
    /// Batches acknowledged.
    pub(super) written: u64,
    /// A batch that is not yet acknowledged. If time ran out in one phase, it is the first of the
    /// next phase.
    next: Option<RecordBatch>,
}

impl<'a, M: FnMut(u64) -> Outcome<RecordBatch> + Send> Writer<'a, M> {
    pub(super) fn new(connection: Box<dyn Connection>, table: &'a Table, left: u64, make: M) -> Self {
        Self { connection, table, make, left, written: 0, next: None }
    }
}

impl<M: FnMut(u64) -> Outcome<RecordBatch> + Send> Worker for Writer<'_, M> {
    fn prepare(&mut self) -> Outcome<bool> {
        if self.left > 0 && self.next.is_none() {
            self.next = Some((self.make)(self.written)?);
        }
        Ok(self.left > 0)
    }

    fn operate(&mut self) -> Outcome<u64> {
        let rows = self.next.take().ok_or("nothing was prepared")?;
        let count = rows.num_rows() as u64;
        self.connection.write(&[(self.table, rows)])?;
        (self.written, self.left) = (self.written + 1, self.left - 1);
        Ok(count)
    }
}

/// Asks queries one after another, repeating them up to a given number, and keeps the answers.
pub(super) struct Asker<'a> {
    pub(super) connection: Box<dyn Connection>,
    queries: std::iter::Cycle<std::slice::Iter<'a, Query>>,
    left: usize,
    next: Option<&'a Query>,
    answer: Option<RecordBatch>,
    answers: Answers,
}

impl<'a> Asker<'a> {
    pub(super) fn new(connection: Box<dyn Connection>, queries: &'a [Query], left: usize) -> Self {
        Self {
            connection,
            queries: queries.iter().cycle(),
            left,
            next: None,
            answer: None,
            answers: Answers::default(),
        }
    }

    /// The answers received.
    pub(super) fn answers(mut self) -> Answers {
        self.keep();
        self.answers
    }

    fn keep(&mut self) {
        if let (Some(query), Some(answer)) = (self.next.take(), self.answer.take()) {
            self.answers.add(query, answer);
        }
    }
}

impl Worker for Asker<'_> {
    fn prepare(&mut self) -> Outcome<bool> {
        self.keep();
        self.next = if self.left > 0 { self.queries.next() } else { None };
        self.left = self.left.saturating_sub(1);
        Ok(self.next.is_some())
    }

    fn operate(&mut self) -> Outcome<u64> {
        let answer = self.connection.query(self.next.ok_or("nothing was prepared")?)?;
        let rows = answer.num_rows() as u64;
        self.answer = Some(answer);
        Ok(rows)
    }
}

/// Answers not yet compared with the oracle's.
#[derive(Default)]
pub(super) struct Answers {
    /// The first answer to each query.
    pub(super) answers: HashMap<Query, RecordBatch>,
    /// An answer that differed from an earlier one to the same query.
    pub(super) differing: Option<String>,
    pub(super) count: usize,
}

impl Answers {
    /// Keeps an answer. A repeated query must get the same answer, which is not kept again.
    fn add(&mut self, query: &Query, answer: RecordBatch) {
        self.count += 1;
        match self.answers.get(query) {
            Some(first) => self.differing = self.differing.take().or(difference(query, first, &answer)),
            None => drop(self.answers.insert(query.clone(), answer)),
        }
    }
}
