//! The everyday statements, in PostgreSQL's SQL: short reads and writes as programs send them.

use crate::statement::{Draw, Form, HOURS, MINUTE_NS, Parameter, SITES, START_NS, hour_ns};
use crate::table::Column;
use crate::table::ColumnType::{Float, Int, Text, Time};
use rand::Rng;
use std::borrow::Cow;

/// A statement that returns no rows and is the same in each SQL.
const fn write(name: &'static str, text: &'static str, draw: fn(&mut Draw) -> Vec<Parameter>) -> Form {
    Form { name, text: Cow::Borrowed(text), mariadb: None, columns: &[], draw }
}

const fn read(
    name: &'static str,
    text: &'static str,
    columns: &'static [Column],
    draw: fn(&mut Draw) -> Vec<Parameter>,
) -> Form {
    Form { name, text: Cow::Borrowed(text), mariadb: None, columns, draw }
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
    Form {
        name: "a constant",
        text: Cow::Borrowed("SELECT CAST(1 AS BIGINT)"),
        mariadb: Some(Cow::Borrowed("SELECT 1")),
        columns: &[("one", Int)],
        draw: |_| Vec::new(),
    },
    read(
        "an expression of a meter",
        "SELECT n + 1, total * 2 FROM meters WHERE id = ?",
        &[("next", Int), ("twice", Float)],
        |draw| vec![draw.id()],
    ),
    read("a default for NULL", "SELECT coalesce(total, 0) FROM meters WHERE id = ?", &[("total", Float)], |draw| {
        vec![draw.id()]
    }),
    read(
        "a case of a meter",
        "SELECT id, CASE WHEN n > ? THEN 'high' ELSE 'low' END FROM meters WHERE id = ?",
        &[("id", Int), ("case", Text)],
        |draw| vec![draw.count(), draw.id()],
    ),
    read("is a meter there", "SELECT count(*) FROM meters WHERE id = ?", &[("count", Int)], |draw| vec![draw.id()]),
    read(
        "a meter of a site",
        "SELECT n, total FROM meters WHERE site = ? AND id = ?",
        &[("n", Int), ("total", Float)],
        |draw| vec![draw.site(), draw.id()],
    ),
    read(
        "all meters of a site",
        "SELECT id, total FROM meters WHERE site = ? ORDER BY id",
        &[("id", Int), ("total", Float)],
        |draw| vec![draw.site()],
    ),
    read(
        "meters by part of a site's name",
        "SELECT id, site FROM meters WHERE site LIKE ? ORDER BY id LIMIT 20",
        &[("id", Int), ("site", Text)],
        |draw| vec![Parameter::Text(format!("%{}", draw.random.random_range(0..SITES)))],
    ),
    read(
        "highest totals",
        "SELECT id, total FROM meters WHERE total IS NOT NULL ORDER BY total DESC, id LIMIT 10",
        &[("id", Int), ("total", Float)],
        |_| Vec::new(),
    ),
    read("a later page of meters", "SELECT id FROM meters ORDER BY id LIMIT 20 OFFSET 40", &[("id", Int)], |_| {
        Vec::new()
    }),
    read("count of meters", "SELECT count(*) FROM meters", &[("count", Int)], |_| Vec::new()),
    read("names of sites", "SELECT DISTINCT site FROM meters ORDER BY site", &[("site", Text)], |_| Vec::new()),
    read(
        "sites with many meters",
        "SELECT site, count(*) FROM meters GROUP BY site HAVING count(*) > ? ORDER BY site",
        &[("site", Text), ("count", Int)],
        |draw| vec![draw.count()],
    ),
    read("count of readings", "SELECT count(*) FROM readings WHERE meter = ?", &[("count", Int)], |draw| {
        vec![draw.id()]
    }),
    read("newest time", "SELECT max(ts) FROM readings WHERE meter = ? AND ts < ?", &[("max", Time)], |draw| {
        vec![draw.id(), Parameter::Time(hour_ns(HOURS))]
    }),
    read(
        "ten newest readings",
        "SELECT ts, kwh FROM readings WHERE meter = ? AND ts < ? ORDER BY ts DESC LIMIT 10",
        &[("ts", Time), ("kwh", Float)],
        |draw| vec![draw.id(), Parameter::Time(hour_ns(HOURS))],
    ),
    read(
        "ten oldest readings",
        "SELECT ts, kwh FROM readings WHERE meter = ? ORDER BY ts LIMIT 10",
        &[("ts", Time), ("kwh", Float)],
        |draw| vec![draw.id()],
    ),
    read(
        "a page of readings",
        "SELECT ts, kwh, note FROM readings WHERE meter = ? AND ts > ? ORDER BY ts LIMIT 50",
        &[("ts", Time), ("kwh", Float), ("note", Text)],
        |draw| {
            let [from, _] = draw.span(100);
            vec![draw.id(), from]
        },
    ),
    read(
        "extremes of a day",
        "SELECT min(kwh), max(kwh), count(*) FROM readings WHERE meter = ? AND ts >= ? AND ts < ?",
        &[("min", Float), ("max", Float), ("count", Int)],
        |draw| {
            let [from, to] = draw.span(24);
            vec![draw.id(), from, to]
        },
    ),
    read(
        "high readings of a week",
        "SELECT ts, kwh FROM readings WHERE meter = ? AND ts >= ? AND ts < ? AND kwh > ? ORDER BY ts",
        &[("ts", Time), ("kwh", Float)],
        |draw| {
            let [from, to] = draw.span(168);
            vec![draw.id(), from, to, Parameter::Float(8.0)]
        },
    ),
    read(
        "is there a high reading",
        "SELECT CASE WHEN EXISTS (SELECT 1 FROM readings WHERE meter = ? AND kwh > ?) THEN 'yes' ELSE 'no' END",
        &[("there", Text)],
        |draw| vec![draw.id(), Parameter::Float(9.5)],
    ),
    read(
        "the highest reading",
        "SELECT ts, kwh FROM readings WHERE meter = ? AND kwh = (SELECT max(kwh) FROM readings WHERE meter = ?) \
         ORDER BY ts LIMIT 1",
        &[("ts", Time), ("kwh", Float)],
        |draw| {
            let id = draw.id();
            vec![id.clone(), id]
        },
    ),
    read(
        "differences of a day",
        "SELECT ts, kwh - lag(kwh) OVER (ORDER BY ts) FROM readings WHERE meter = ? AND ts >= ? AND ts < ? ORDER BY ts",
        &[("ts", Time), ("difference", Float)],
        |draw| {
            let [from, to] = draw.span(24);
            vec![draw.id(), from, to]
        },
    ),
    read(
        "bills of five meters",
        "SELECT meter, sum(kwh) FROM readings WHERE meter IN (?, ?, ?, ?, ?) AND ts >= ? AND ts < ? \
         GROUP BY meter ORDER BY meter",
        &[("meter", Int), ("sum", Float)],
        |draw| {
            let span = draw.span(HOURS);
            (0..5).map(|_| draw.id()).chain(span).collect()
        },
    ),
    read(
        "readings of a site's day",
        "SELECT count(*) FROM readings WHERE meter IN (SELECT id FROM meters WHERE site = ?) AND ts >= ? AND ts < ?",
        &[("count", Int)],
        |draw| {
            let [from, to] = draw.span(24);
            vec![draw.site(), from, to]
        },
    ),
    read(
        "a site's meters and their readings of a day",
        "SELECT m.id, count(r.ts) FROM meters m LEFT JOIN readings r ON r.meter = m.id AND r.ts >= ? AND r.ts < ? \
         WHERE m.site = ? GROUP BY m.id ORDER BY m.id",
        &[("id", Int), ("count", Int)],
        |draw| {
            let [from, to] = draw.span(24);
            vec![from, to, draw.site()]
        },
    ),
    read(
        "sums of the sites of a day",
        "SELECT m.site, sum(r.kwh) FROM meters m JOIN readings r ON r.meter = m.id WHERE r.ts >= ? AND r.ts < ? \
         GROUP BY m.site ORDER BY m.site",
        &[("site", Text), ("sum", Float)],
        |draw| draw.span(24).to_vec(),
    ),
    read(
        "a meter or a reading",
        "SELECT id FROM meters WHERE id = ? UNION ALL SELECT meter FROM readings WHERE meter = ? AND ts = ? ORDER BY 1",
        &[("id", Int)],
        |draw| vec![draw.id(), draw.id(), draw.time()],
    ),
    write("add a reading", "INSERT INTO readings (meter, ts, kwh) VALUES (?, ?, ?)", |draw| {
        // In a later minute than those that exist, so that the key is new.
        let minute = draw.random.random_range(HOURS * 60..50_000_000);
        vec![draw.id(), Parameter::Time(START_NS + minute * MINUTE_NS), draw.amount()]
    }),
    Form {
        name: "upsert, one column",
        text: Cow::Borrowed(
            "INSERT INTO meters (id, site, last_reading) VALUES (?, ?, ?) \
               ON CONFLICT (id) DO UPDATE SET last_reading = excluded.last_reading",
        ),
        mariadb: Some(Cow::Borrowed(
            "INSERT INTO meters (id, site, last_reading) VALUES (?, ?, ?) \
             ON DUPLICATE KEY UPDATE last_reading = VALUES(last_reading)",
        )),
        columns: &[],
        draw: |draw| vec![draw.id(), draw.site(), draw.time()],
    },
    Form {
        name: "upsert, a counter",
        text: Cow::Borrowed("INSERT INTO meters (id, n) VALUES (?, 1) ON CONFLICT (id) DO UPDATE SET n = meters.n + 1"),
        mariadb: Some(Cow::Borrowed("INSERT INTO meters (id, n) VALUES (?, 1) ON DUPLICATE KEY UPDATE n = n + 1")),
        columns: &[],
        draw: |draw| vec![draw.id()],
    },
    Form {
        name: "upsert, a sum",
        text: Cow::Borrowed(
            "INSERT INTO readings (meter, ts, kwh) VALUES (?, ?, ?) \
               ON CONFLICT (meter, ts) DO UPDATE SET kwh = readings.kwh + excluded.kwh",
        ),
        mariadb: Some(Cow::Borrowed(
            "INSERT INTO readings (meter, ts, kwh) VALUES (?, ?, ?) ON DUPLICATE KEY UPDATE kwh = kwh + VALUES(kwh)",
        )),
        columns: &[],
        draw: |draw| vec![draw.id(), draw.time(), draw.amount()],
    },
    Form {
        name: "insert unless there",
        text: Cow::Borrowed("INSERT INTO meters (id, site) VALUES (?, ?) ON CONFLICT (id) DO NOTHING"),
        mariadb: Some(Cow::Borrowed("INSERT IGNORE INTO meters (id, site) VALUES (?, ?)")),
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
    write(
        "add three readings",
        "INSERT INTO readings (meter, ts, kwh) VALUES (?, ?, ?), (?, ?, ?), (?, ?, ?)",
        |draw| {
            // In three later years, so that no key is there twice.
            let mut minute = |year: i64| {
                let minute = draw.random.random_range(0..500_000) + (50 + year) * 1_000_000;
                [draw.id(), Parameter::Time(START_NS + minute * MINUTE_NS), draw.amount()]
            };
            [minute(0), minute(1), minute(2)].concat()
        },
    ),
    Form {
        name: "upsert, all columns",
        text: Cow::Borrowed(
            "INSERT INTO meters (id, site, n, total, last_reading) VALUES (?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET \
               site = excluded.site, n = excluded.n, total = excluded.total, last_reading = excluded.last_reading",
        ),
        mariadb: Some(Cow::Borrowed("REPLACE INTO meters (id, site, n, total, last_reading) VALUES (?, ?, ?, ?, ?)")),
        columns: &[],
        draw: |draw| vec![draw.id(), draw.site(), draw.count(), draw.amount(), draw.time()],
    },
    write("update with a default for NULL", "UPDATE meters SET total = coalesce(total, 0) + ? WHERE id = ?", |draw| {
        vec![draw.amount(), draw.id()]
    }),
    write("update with a case", "UPDATE meters SET n = CASE WHEN n > ? THEN 0 ELSE n + 1 END WHERE id = ?", |draw| {
        vec![draw.count(), draw.id()]
    }),
    write("update a meter of a site", "UPDATE meters SET n = n + 1 WHERE id = ? AND site = ?", |draw| {
        vec![draw.id(), draw.site()]
    }),
    write("reset a meter", "UPDATE meters SET total = NULL, last_reading = NULL WHERE id = ?", |draw| vec![draw.id()]),
    write("annotate a day", "UPDATE readings SET note = ? WHERE meter = ? AND ts >= ? AND ts < ?", |draw| {
        let [from, to] = draw.span(24);
        vec![Parameter::Text("checked".to_owned()), draw.id(), from, to]
    }),
    write("clear a note", "UPDATE readings SET note = NULL WHERE meter = ? AND ts = ?", |draw| {
        vec![draw.id(), draw.time()]
    }),
    write("delete a reading", "DELETE FROM readings WHERE meter = ? AND ts = ?", |draw| vec![draw.id(), draw.time()]),
    write("delete an hour", "DELETE FROM readings WHERE meter = ? AND ts >= ? AND ts < ?", |draw| {
        let [from, to] = draw.span(1);
        vec![draw.id(), from, to]
    }),
];
