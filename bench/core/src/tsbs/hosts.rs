//! TSBS' queries of cpu rows.

use crate::Outcome;
use crate::answer::{AnswerBuilder, Cell};
use crate::table::{Column, ColumnType, schema};
use crate::workload::cpu::{FIELDS, TAGS, cpu_columns};
use arrow::array::{AsArray, RecordBatch, UInt32Array};
use arrow::compute::{concat_batches, take_record_batch};
use arrow::datatypes::{Int64Type, TimestampNanosecondType};
use std::collections::BTreeMap;

const SECOND_NS: i64 = 1_000_000_000;
/// Seconds of a minute.
pub const MINUTE_S: i64 = 60;
/// Seconds of an hour.
pub const HOUR_S: i64 = 3_600;
/// A host is busy above this value of the first field.
pub const BUSY_ABOVE: i64 = 90;
/// Number of minutes that [`HostQuestion::LastMinutes`] returns.
pub const LAST_MINUTES: usize = 5;

/// A query of cpu rows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum HostQuestion {
    /// single-groupby and cpu-max-all: for each bucket, the maxima of the first fields over a set
    /// of hosts, in order.
    Maxima {
        /// The number of fields.
        fields: usize,
        /// The hosts.
        hosts: Vec<String>,
        /// The width of a bucket in seconds.
        width_s: i64,
        /// The window.
        window_ns: (i64, i64),
    },
    /// double-groupby: for each hour and host, the averages of the first fields, in order.
    Averages {
        /// The number of fields.
        fields: usize,
        /// The window.
        window_ns: (i64, i64),
    },
    /// high-cpu: whole rows above [`BUSY_ABOVE`], in any order.
    Busy {
        /// The host; `None` for all.
        host: Option<String>,
        /// The window.
        window_ns: (i64, i64),
    },
    /// groupby-orderby-limit: the maximum of the first field in each of the last minutes before a
    /// time, newest first.
    LastMinutes {
        /// The time.
        before_ns: i64,
    },
}

impl HostQuestion {
    /// The columns of the answer.
    pub fn columns(&self) -> Vec<Column> {
        let fields = |count: usize, kind| FIELDS[..count].iter().map(move |field| (*field, kind));
        let hour = ("hour", ColumnType::Time);
        match self {
            Self::Maxima { fields: count, .. } => {
                std::iter::once(("bucket", ColumnType::Time)).chain(fields(*count, ColumnType::Int)).collect()
            }
            Self::Averages { fields: count, .. } => {
                [hour, ("hostname", ColumnType::Text)].into_iter().chain(fields(*count, ColumnType::Float)).collect()
            }
            Self::Busy { .. } => cpu_columns(),
            Self::LastMinutes { .. } => vec![("minute", ColumnType::Time), (FIELDS[0], ColumnType::Int)],
        }
    }

    /// The times that matter: from the first, before the second.
    fn window_ns(&self) -> (i64, i64) {
        match self {
            Self::Maxima { window_ns, .. } | Self::Averages { window_ns, .. } | Self::Busy { window_ns, .. } => {
                *window_ns
            }
            Self::LastMinutes { before_ns } => (i64::MIN, *before_ns),
        }
    }

    /// The hosts that matter; `None` for all.
    fn hosts(&self) -> Option<&[String]> {
        match self {
            Self::Maxima { hosts, .. } => Some(hosts),
            Self::Busy { host, .. } => host.as_ref().map(std::slice::from_ref),
            Self::Averages { .. } | Self::LastMinutes { .. } => None,
        }
    }
}

/// Sums of fields, and the number of rows in them.
type Sums = (Vec<i64>, i64);

/// What is known of an answer after some rows.
enum Known {
    /// By the start of the bucket.
    Maxima(BTreeMap<i64, Vec<i64>>),
    /// By the start of the hour and the host.
    Averages(BTreeMap<i64, BTreeMap<String, Sums>>),
    /// Rows found, and the places of further ones in the current batch.
    Busy(Vec<RecordBatch>, Vec<u32>),
}

/// The right answers, from the rows in the order of their generation. Keeps no rows but those of
/// answers.
pub struct HostOracle {
    questions: Vec<(HostQuestion, Known)>,
    /// The numbers of the questions about a host.
    of_host: BTreeMap<String, Vec<usize>>,
    of_all: Vec<usize>,
}

impl HostOracle {
    /// An oracle for these questions.
    pub fn new<'a>(questions: impl IntoIterator<Item = &'a HostQuestion>) -> Self {
        let mut oracle = Self { questions: Vec::new(), of_host: BTreeMap::new(), of_all: Vec::new() };
        for question in questions {
            if oracle.known(question).is_some() {
                continue;
            }
            let number = oracle.questions.len();
            match question.hosts() {
                Some(hosts) => hosts.iter().for_each(|host| {
                    oracle.of_host.entry(host.clone()).or_default().push(number);
                }),
                None => oracle.of_all.push(number),
            }
            let known = match question {
                HostQuestion::Maxima { .. } | HostQuestion::LastMinutes { .. } => Known::Maxima(BTreeMap::new()),
                HostQuestion::Averages { .. } => Known::Averages(BTreeMap::new()),
                HostQuestion::Busy { .. } => Known::Busy(Vec::new(), Vec::new()),
            };
            oracle.questions.push((question.clone(), known));
        }
        oracle
    }

    fn known(&self, question: &HostQuestion) -> Option<&Known> {
        self.questions.iter().find(|(asked, _)| asked == question).map(|(_, known)| known)
    }

    /// Adds rows that were written.
    ///
    /// # Errors
    /// Rows cannot be copied.
    pub fn feed(&mut self, batch: &RecordBatch) -> Outcome<()> {
        let hosts = batch.column(0).as_string::<i32>();
        let times = batch.column(TAGS.len()).as_primitive::<TimestampNanosecondType>();
        let fields: [&[i64]; FIELDS.len()] =
            std::array::from_fn(|place| &**batch.column(TAGS.len() + 1 + place).as_primitive::<Int64Type>().values());
        for row in 0..batch.num_rows() {
            let (host, time) = (hosts.value(row), times.value(row));
            let asking = self.of_host.get(host).into_iter().flatten();
            for number in asking.chain(&self.of_all) {
                let (question, known) = &mut self.questions[*number];
                let (from, to) = question.window_ns();
                if (from..to).contains(&time) {
                    known.add(question, host, time, row, &fields);
                }
            }
        }
        for (_, known) in &mut self.questions {
            if let Known::Busy(rows, places) = known
                && !places.is_empty()
            {
                rows.push(take_record_batch(batch, &UInt32Array::from(std::mem::take(places)))?);
            }
        }
        Ok(())
    }

    /// The right answer to a question.
    ///
    /// # Errors
    /// The question was not given to [`new`](Self::new).
    pub fn answer(&self, question: &HostQuestion) -> Outcome<RecordBatch> {
        let mut answer = AnswerBuilder::new(&question.columns());
        match self.known(question).ok_or("the oracle does not know the question")? {
            Known::Busy(rows, _) => {
                let first = rows.first().map_or_else(|| schema(&question.columns()), RecordBatch::schema);
                return Ok(concat_batches(&first, rows)?);
            }
            Known::Maxima(buckets) => {
                let is_last = matches!(question, HostQuestion::LastMinutes { .. });
                let all: Vec<_> = match is_last {
                    true => buckets.iter().rev().take(LAST_MINUTES).collect(),
                    false => buckets.iter().collect(),
                };
                for (time, maxima) in all {
                    answer.push(Cell::Time(*time))?;
                    maxima.iter().try_for_each(|maximum| answer.push(Cell::Int(*maximum)))?;
                }
            }
            Known::Averages(hours) => {
                for (hour, hosts) in hours {
                    for (host, (sums, count)) in hosts {
                        answer.push(Cell::Time(*hour))?;
                        answer.push(Cell::Text(host))?;
                        sums.iter().try_for_each(|sum| answer.push(Cell::Float(*sum as f64 / *count as f64)))?;
                    }
                }
            }
        }
        answer.finish()
    }
}

impl Known {
    /// Adds a row of the question's hosts and window.
    fn add(&mut self, question: &HostQuestion, host: &str, time: i64, row: usize, fields: &[&[i64]; FIELDS.len()]) {
        let bucket = |width_s: i64| time.div_euclid(width_s * SECOND_NS) * width_s * SECOND_NS;
        match (self, question) {
            (Self::Maxima(buckets), HostQuestion::Maxima { fields: count, width_s, .. }) => {
                maximize(buckets.entry(bucket(*width_s)).or_default(), &fields[..*count], row);
            }
            (Self::Maxima(buckets), _) => maximize(buckets.entry(bucket(MINUTE_S)).or_default(), &fields[..1], row),
            (Self::Averages(hours), HostQuestion::Averages { fields: count, .. }) => {
                let hosts = hours.entry(bucket(HOUR_S)).or_default();
                if !hosts.contains_key(host) {
                    hosts.insert(host.to_owned(), (vec![0; *count], 0));
                }
                if let Some((sums, rows)) = hosts.get_mut(host) {
                    sums.iter_mut().zip(fields).for_each(|(sum, field)| *sum += field[row]);
                    *rows += 1;
                }
            }
            (Self::Busy(_, places), _) if fields[0][row] > BUSY_ABOVE => places.push(row as u32),
            _ => {}
        }
    }
}

fn maximize(maxima: &mut Vec<i64>, fields: &[&[i64]], row: usize) {
    maxima.resize(fields.len(), i64::MIN);
    maxima.iter_mut().zip(fields).for_each(|(maximum, field)| *maximum = field[row].max(*maximum));
}
