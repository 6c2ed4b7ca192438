//! The published figures of the experiments, and their flaws.

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
            "METER_READS had no key on (meter_id, timestamp), so MariaDB read about 8,760 rows per bill instead of \
             744.",
            "MariaDB kept its default buffer of 128 MB, GridDB got 1,024 MB.",
            "A month has 744 hours only when it has 31 days and no clock change. The publication does not say which \
             column was summed.",
            "Bills were queried right after the same devices were loaded.",
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
            "Both ran without a log: SQLite's journal and syncs were off, and GreptimeDB Edge loses what it has in \
             memory.",
            "SQLite enforced a primary key while GreptimeDB appended without looking for duplicates.",
            "SQLite got statements of 32 rows, GreptimeDB a custom program over shared memory.",
            "43,000 rows/s is more than SQLite's own maximum there.",
            "Windows of 8 hours are longer than the 6.94 hours of data; the one-hour query spans eight hours and \
             asks a different host of each engine.",
            "SQLite's LAST_POINT queries gave wrong rows.",
        ],
    )
}

fn table_of_scale() -> Table {
    table(
        "Published: GridDB on 3 to 20 machines of 8 cores, three copies of each record (2020)",
        &["servers", "writes/s", "reads/s", "us a write", "us a read", "$ for 100 M writes", "reads"],
        &[
            &["3", "897,718", "6,103,514", "3.34", "0.49", "0.0390", "0.00573"],
            &["5", "1,329,944", "13,133,648", "3.76", "0.38", "0.0439", "0.00444"],
            &["10", "2,859,518", "37,376,131", "1.92", "0.15", "0.0408", "0.00312"],
            &["20", "5,735,360", "62,851,138", "3.49", "0.32", "0.0407", "0.00371"],
        ],
        &[
            "The costs here are computed from the rates at $0.42 per server-hour: the published column was for 1 M, at \
             the price of three servers in every row.",
            "There were as many clients as servers; they were not priced.",
            "The times are the inverse of the rate, not latencies; the least of 10 servers is the whole cluster's \
             total.",
            "The reads of 20 servers lasted 1.6 s and their writes 17 s, less than a checkpoint, and replicas were \
             asynchronous, so possibly nothing reached a disk.",
            "A core of a server took about 36,000 writes/s and 254,000 to 470,000 reads/s.",
        ],
    )
}

fn table_of_acquisition() -> Table {
    table(
        "Published: an hour of 1,000 datapoints/s (2019)",
        &["", "server CPU", "MB", "client CPU", "MB", "disk kB/s", "disk MB", "Mbit/s", "score"],
        &[
            &["MariaDB individual", "36.6 %", "201", "7 %", "7.8", "7,396", "1,270", "1.41", "2.8"],
            &["MariaDB bulk", "0.6 %", "172", "2.2 %", "8", "378", "240", "0.37", "80.8"],
            &["MongoDB individual", "3 %", "758", "6.6 %", "12", "117", "204", "0.78", "57.4"],
            &["MongoDB bulk", "1 %", "209", "3 %", "12", "56", "86", "0.63", "76.0"],
            &["InfluxDB over UDP", "15.4 %", "178", "4.9 %", "2", "81", "89", "0.87", "61.7"],
        ],
        &[
            "The scores are computed from the table; the publication prints 3, 73, 54, 70 and 64.",
            "Memory was printed in kB; the hour's datapoints are 79.2 MB, not 53; the printed line protocol is not valid.",
            "Datapoints lost over UDP were never counted.",
            "Processor shares came from `ps`: averages over a process's life, including its idle minutes.",
        ],
    )
}

/// The published figures of an experiment. They come from other machines, so only ratios can be
/// compared.
pub(super) fn table_for(experiment: &str) -> Option<Table> {
    match experiment {
        "billing" => Some(table_of_billing()),
        "edge" => Some(table_of_edge()),
        "scale" => Some(table_of_scale()),
        "acquisition" => Some(table_of_acquisition()),
        _ => None,
    }
}
