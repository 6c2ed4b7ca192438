//! Everyday statements: short reads and writes as programs send them, in PostgreSQL's SQL.

use crate::table::{Column, ColumnType, Table};
use ColumnType::{Float, Int, Text, Time};
use rand::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;

/// When the readings begin, in nanoseconds since 1970: 1 January 2026.
pub const START_NS: i64 = 1_767_225_600_000_000_000;
const MINUTE_NS: i64 = 60_000_000_000;
const HOUR_NS: i64 = 60 * MINUTE_NS;
/// Hours of readings of each meter.
pub const HOURS: i64 = 744;
/// The number of sites, over which meters are spread.
pub const SITES: i64 = 10;

/// A value of a parameter.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Parameter {
    Int(i64),
    Float(f64),
    Text(String),
    /// In nanoseconds since 1970.
    Time(i64),
}

/// A statement with parameters.
pub struct Form {
    /// Its name in the report.
    pub name: &'static str,
    /// Its text, with `?` for each parameter, which occurs once.
    pub text: &'static str,
    /// Its text in MariaDB's SQL, if that differs.
    pub mariadb: Option<&'static str>,
    /// The columns of its rows; none for a write.
    pub columns: &'static [Column],
    /// Draws its parameters.
    pub draw: fn(&mut Draw) -> Vec<Parameter>,
}

/// Draws parameters.
pub struct Draw {
    /// The source of randomness.
    pub random: Xoshiro256PlusPlus,
    /// The number of meters.
    pub meters: i64,
}

impl Draw {
    fn meter(&mut self) -> i64 {
        self.random.random_range(0..self.meters)
    }

    fn id(&mut self) -> Parameter {
        Parameter::Int(self.meter())
    }

    fn site(&mut self) -> Parameter {
        Parameter::Text(site(self.random.random_range(0..SITES)))
    }

    /// An hour for which there are readings, as its number.
    fn hour(&mut self) -> i64 {
        self.random.random_range(0..HOURS)
    }

    fn time(&mut self) -> Parameter {
        Parameter::Time(hour_ns(self.hour()))
    }

    /// The bounds of a span of hours.
    fn span(&mut self, hours: i64) -> [Parameter; 2] {
        let first = self.random.random_range(0..=HOURS - hours);
        [first, first + hours].map(|hour| Parameter::Time(hour_ns(hour)))
    }

    fn amount(&mut self) -> Parameter {
        // Eighths are exact in binary, so sums do not depend on their order.
        Parameter::Float(f64::from(self.random.random_range(0..80)) / 8.0)
    }

    fn count(&mut self) -> Parameter {
        Parameter::Int(self.random.random_range(1..10))
    }
}

/// The time of an hour.
pub fn hour_ns(hour: i64) -> i64 {
    START_NS + hour * HOUR_NS
}

/// The name of a site.
pub fn site(number: i64) -> String {
    format!("site {number}")
}

/// The tables: a few meters, and the hourly readings of each.
pub fn tables() -> [Table; 2] {
    let columns = vec![("id", Int), ("site", Text), ("n", Int), ("total", Float), ("last_reading", Time)];
    let meters = Table { name: "meters", columns, key: &["id"] };
    let columns = vec![("meter", Int), ("ts", Time), ("kwh", Float), ("note", Text)];
    [meters, Table { name: "readings", columns, key: &["meter", "ts"] }]
}

/// A statement that returns no rows and is the same in each SQL.
const fn write(name: &'static str, text: &'static str, draw: fn(&mut Draw) -> Vec<Parameter>) -> Form {
    Form { name, text, mariadb: None, columns: &[], draw }
}

const fn read(
    name: &'static str,
    text: &'static str,
    columns: &'static [Column],
    draw: fn(&mut Draw) -> Vec<Parameter>,
) -> Form {
    Form { name, text, mariadb: None, columns, draw }
}

/// The statements, in the order in which they are measured: those that delete come last.
pub const FORMS: &[Form] = &[
    read(
        "a meter by key",
        "SELECT site, n, total, last_reading FROM meters WHERE id = ?",
        &[("site", Text), ("n", Int), ("total", Float), ("last_reading", Time)],
        |draw| vec![draw.id()],
    ),
    read("a reading", "SELECT kwh FROM readings WHERE meter = ? AND ts = ?", &[("kwh", Float)], |draw| {
        vec![draw.id(), draw.time()]
    }),
    read(
        "five meters by key",
        "SELECT id, site FROM meters WHERE id IN (?, ?, ?, ?, ?) ORDER BY id",
        &[("id", Int), ("site", Text)],
        |draw| (0..5).map(|_| draw.id()).collect(),
    ),
    read(
        "a page of meters",
        "SELECT id, site FROM meters WHERE id > ? ORDER BY id LIMIT 20",
        &[("id", Int), ("site", Text)],
        |draw| vec![draw.id()],
    ),
    read(
        "newest row",
        "SELECT ts, kwh FROM readings WHERE meter = ? AND ts < ? ORDER BY ts DESC LIMIT 1",
        &[("ts", Time), ("kwh", Float)],
        |draw| vec![draw.id(), Parameter::Time(hour_ns(HOURS))],
    ),
    read(
        "a day of a meter",
        "SELECT ts, kwh FROM readings WHERE meter = ? AND ts >= ? AND ts < ? ORDER BY ts",
        &[("ts", Time), ("kwh", Float)],
        |draw| {
            let [from, to] = draw.span(24);
            vec![draw.id(), from, to]
        },
    ),
    read("a bill", "SELECT sum(kwh) FROM readings WHERE meter = ? AND ts >= ? AND ts < ?", &[("sum", Float)], |draw| {
        let [from, to] = draw.span(HOURS);
        vec![draw.id(), from, to]
    }),
    read(
        "a meter and its day",
        "SELECT m.site, r.ts, r.kwh FROM meters m JOIN readings r ON r.meter = m.id \
         WHERE m.id = ? AND r.ts >= ? AND r.ts < ? ORDER BY r.ts",
        &[("site", Text), ("ts", Time), ("kwh", Float)],
        |draw| {
            let [from, to] = draw.span(24);
            vec![draw.id(), from, to]
        },
    ),
    read(
        "sums of 20 meters",
        "SELECT meter, sum(kwh) FROM readings WHERE meter >= ? AND meter < ? AND ts < ? GROUP BY meter ORDER BY meter",
        &[("meter", Int), ("sum", Float)],
        |draw| {
            let first = draw.random.random_range(0..=(draw.meters - 20).max(0));
            vec![Parameter::Int(first), Parameter::Int(first + 20), Parameter::Time(hour_ns(HOURS))]
        },
    ),
    read("meters of a site", "SELECT count(*) FROM meters WHERE site = ?", &[("count", Int)], |draw| vec![draw.site()]),
    read(
        "newest of each site",
        "SELECT site, max(last_reading) FROM meters WHERE n >= ? GROUP BY site ORDER BY site",
        &[("site", Text), ("max", Time)],
        |_| vec![Parameter::Int(0)],
    ),
    read(
        "meters with a high reading",
        "SELECT count(*) FROM meters m WHERE m.site = ? AND EXISTS \
         (SELECT 1 FROM readings r WHERE r.meter = m.id AND r.kwh > ? AND r.ts >= ? AND r.ts < ?)",
        &[("count", Int)],
        |draw| {
            let [from, to] = draw.span(24);
            vec![draw.site(), Parameter::Float(9.5), from, to]
        },
    ),
    write("add a reading", "INSERT INTO readings (meter, ts, kwh) VALUES (?, ?, ?)", |draw| {
        // In a later minute than those that exist, so that the key is new.
        let minute = draw.random.random_range(HOURS * 60..50_000_000);
        vec![draw.id(), Parameter::Time(START_NS + minute * MINUTE_NS), draw.amount()]
    }),
    Form {
        name: "upsert, one column",
        text: "INSERT INTO meters (id, site, last_reading) VALUES (?, ?, ?) \
               ON CONFLICT (id) DO UPDATE SET last_reading = excluded.last_reading",
        mariadb: Some(
            "INSERT INTO meters (id, site, last_reading) VALUES (?, ?, ?) \
             ON DUPLICATE KEY UPDATE last_reading = VALUES(last_reading)",
        ),
        columns: &[],
        draw: |draw| vec![draw.id(), draw.site(), draw.time()],
    },
    Form {
        name: "upsert, a counter",
        text: "INSERT INTO meters (id, n) VALUES (?, 1) ON CONFLICT (id) DO UPDATE SET n = meters.n + 1",
        mariadb: Some("INSERT INTO meters (id, n) VALUES (?, 1) ON DUPLICATE KEY UPDATE n = n + 1"),
        columns: &[],
        draw: |draw| vec![draw.id()],
    },
    Form {
        name: "upsert, a sum",
        text: "INSERT INTO readings (meter, ts, kwh) VALUES (?, ?, ?) \
               ON CONFLICT (meter, ts) DO UPDATE SET kwh = readings.kwh + excluded.kwh",
        mariadb: Some(
            "INSERT INTO readings (meter, ts, kwh) VALUES (?, ?, ?) ON DUPLICATE KEY UPDATE kwh = kwh + VALUES(kwh)",
        ),
        columns: &[],
        draw: |draw| vec![draw.id(), draw.time(), draw.amount()],
    },
    Form {
        name: "insert unless there",
        text: "INSERT INTO meters (id, site) VALUES (?, ?) ON CONFLICT (id) DO NOTHING",
        mariadb: Some("INSERT IGNORE INTO meters (id, site) VALUES (?, ?)"),
        columns: &[],
        draw: |draw| vec![draw.id(), draw.site()],
    },
    write("update by key", "UPDATE meters SET last_reading = ?, total = ? WHERE id = ?", |draw| {
        vec![draw.time(), draw.amount(), draw.id()]
    }),
    write("update a counter", "UPDATE meters SET n = n + 1 WHERE id = ?", |draw| vec![draw.id()]),
    write("update, a sum", "UPDATE meters SET n = n + ?, total = total + ? WHERE id = ?", |draw| {
        vec![draw.count(), draw.amount(), draw.id()]
    }),
    write("update three meters", "UPDATE meters SET site = ? WHERE id IN (?, ?, ?)", |draw| {
        vec![draw.site(), draw.id(), draw.id(), draw.id()]
    }),
    write("correct a reading", "UPDATE readings SET kwh = ?, note = ? WHERE meter = ? AND ts = ?", |draw| {
        vec![draw.amount(), Parameter::Text("corrected".to_owned()), draw.id(), draw.time()]
    }),
    write("delete a reading", "DELETE FROM readings WHERE meter = ? AND ts = ?", |draw| vec![draw.id(), draw.time()]),
    write("delete an hour", "DELETE FROM readings WHERE meter = ? AND ts >= ? AND ts < ?", |draw| {
        let [from, to] = draw.span(1);
        vec![draw.id(), from, to]
    }),
];
