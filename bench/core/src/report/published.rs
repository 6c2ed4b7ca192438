//! The figures that the experiments were published with, and what is wrong with them.

use super::Table;

fn table(title: &str, head: &[&str], rows: &[&[&str]], notes: &[&str]) -> Table {
    let owned = |cells: &[&str]| cells.iter().map(|cell| (*cell).to_owned()).collect::<Vec<_>>();
    Table {
        title: title.to_owned(),
        head: owned(head),
        rows: rows.iter().map(|row| owned(row)).collect(),
        notes: owned(notes),
    }
}

fn table_of_billing() -> Table {
    table(
        "Published: GridDB 4.0 against MariaDB 5.5 (2018, server of 2 cores)",
        &["", "GridDB", "MariaDB", "ratio"],
        &[
            &["ingest, operations/s", "31,916", "2,423", "13.2"],
            &["ms a bill, 1,600 meters", "84.3", "160.6", "1.9"],
            &["ms a bill, 4,000 meters", "82.9", "220.0", "2.7"],
            &["ms a bill, 6,400 meters", "82.6", "231.4", "2.8"],
        ],
        &[
            "MariaDB synced at every commit while GridDB's log was synced once a second (T3 against T2).",
            "METER_READS had no key on (meter_id, timestamp), so that MariaDB read about 8,760 rows a bill, not 744.",
            "MariaDB kept its default buffer of 128 MB, GridDB got 1,024 MB.",
            "A month has 744 hours only when it has 31 days and no clock change; which column was summed is not said.",
            "Bills were asked right after loading the same devices.",
        ],
    )
}

fn table_of_edge() -> Table {
    table(
        "Published: GreptimeDB Edge 1.0 against SQLite 3.46 (2024, SA8155P)",
        &["", "SQLite", "GreptimeDB Edge"],
        &[
            &["ingest on one core, rows/s", "42,350", "72,000"],
            &["ingest, concurrent, rows/s", "-", "100,000"],
            &["10 M rows, MB", "1,686", "87"],
            &["processor at 43,000 rows/s", "96 %", "67 %"],
            &["memory, MB", "10", "200"],
            &["FIVE_MINUTE_1, ms", "1", "33"],
            &["COUNT, ms", "252", "11"],
            &["CPU_MAX_ALL_1, ms", "16", "52"],
            &["CPU_MAX_ALL_8, ms", "119", "78"],
            &["SINGLE_GROUP_BY_1_1_1, ms", "145", "105"],
            &["LAST_POINT_ALL, ms", "1,246", "1,860"],
            &["LAST_POINT_ONE, ms", "118", "140"],
        ],
        &[
            "Both ran without a log: SQLite's journal and syncs were off, GreptimeDB Edge loses what it has in memory.",
            "SQLite enforced a primary key while GreptimeDB appended without looking for duplicates.",
            "SQLite got statements of 32 rows, GreptimeDB a program of its own over shared memory.",
            "43,000 rows/s is more than SQLite's own most there.",
            "Windows of 8 hours are longer than the 6.94 hours of data; the query of one hour asked eight, and another host of each.",
            "SQLite's LAST_POINT queries gave wrong rows.",
        ],
    )
}

/// The published figures of an experiment; from other machines, so that only ratios compare.
pub(super) fn table_for(experiment: &str) -> Option<Table> {
    match experiment {
        "billing" => Some(table_of_billing()),
        "edge" => Some(table_of_edge()),
        _ => None,
    }
}
