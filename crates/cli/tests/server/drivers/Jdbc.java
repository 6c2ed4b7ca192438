// Tests the PostgreSQL JDBC driver with a FleetDB server: java -cp postgresql.jar Jdbc.java PORT
import java.sql.*;
import java.time.LocalDateTime;
import java.time.OffsetDateTime;

public class Jdbc {
    static void check(boolean holds, String what) {
        if (!holds) throw new AssertionError(what);
    }

    /** With a savepoint before each statement, a failed statement does not end the transaction. */
    static void autosaves(String url) throws Exception {
        try (Connection db = DriverManager.getConnection(url + "&autosave=always"); Statement statement = db.createStatement()) {
            db.setAutoCommit(false);
            for (int id = 11; id < 30; id++) {
                statement.execute("INSERT INTO jdbc (id, ts) VALUES (" + id + ", '2026-01-01')");
                try {
                    statement.execute("INSERT INTO jdbc (id, nope) VALUES (8, 1)");
                    check(false, "a column that is not there is refused");
                } catch (SQLException error) {
                    check(error.getSQLState().startsWith("42"), error.toString());
                }
            }
            db.commit();
            try (ResultSet row = statement.executeQuery("SELECT count(*), min(id) FROM jdbc WHERE id BETWEEN 8 AND 29")) {
                check(row.next() && row.getLong(1) == 20 && row.getLong(2) == 9, "9 and 11 to 29, not " + row.getLong(1));
            }
            check(statement.executeUpdate("DELETE FROM jdbc WHERE id >= 9") == 20, "all are deleted");
            db.commit();
        }
    }

    /** Increments counters in conflicting transactions and retries them on the same connection: no increment of either row is lost. */
    static void triesAgain(String url) throws Exception {
        String add = "UPDATE jdbc_counters SET v = v + 1 WHERE id = ";
        try (Connection db = DriverManager.getConnection(url); Statement statement = db.createStatement();
             Connection other = DriverManager.getConnection(url); Statement others = other.createStatement()) {
            statement.execute("CREATE TABLE jdbc_counters (id BIGINT PRIMARY KEY, v BIGINT)");
            statement.execute("INSERT INTO jdbc_counters VALUES (1, 0), (2, 0)");
            db.setAutoCommit(false);
            int refused = 0;
            for (int done = 0; done < 10;) {
                statement.executeUpdate(add + 1);
                statement.executeUpdate(add + 2);
                if (refused == done) others.executeUpdate(add + 1);
                try {
                    db.commit();
                    done++;
                } catch (SQLException error) {
                    check(error.getSQLState().equals("40001"), error.toString());
                    refused++;
                }
            }
            db.setAutoCommit(true);
            try (ResultSet row = statement.executeQuery("SELECT max(v), min(v) FROM jdbc_counters")) {
                check(row.next() && row.getLong(1) == 20 && row.getLong(2) == 10 && refused == 10, "20 and 10, not " + row.getLong(1) + " and " + row.getLong(2));
            }
        }
    }

    /** The generated keys, which are the given ones: the driver adds RETURNING to the statement. */
    static void returned(Connection db, LocalDateTime start) throws Exception {
        String insert = "INSERT INTO jdbc (id, ts, kwh) VALUES (?, ?, ?)";
        for (boolean named : new boolean[] {false, true}) {
            try (PreparedStatement row = named ? db.prepareStatement(insert, new String[] {"ts", "kwh"}) : db.prepareStatement(insert, Statement.RETURN_GENERATED_KEYS)) {
                for (int run = 0; run < 10; run++) {
                    row.setLong(1, 11);
                    row.setObject(2, start.plusHours(run));
                    row.setDouble(3, run * 0.5);
                    check(row.executeUpdate() == 1, "one row is written");
                    try (ResultSet keys = row.getGeneratedKeys()) {
                        check(keys.next() && keys.getDouble("kwh") == run * 0.5, "what was written");
                        check(start.plusHours(run).equals(keys.getObject("ts", LocalDateTime.class)), "its time");
                        check(keys.getMetaData().getColumnCount() == (named ? 2 : 5), "its columns");
                    }
                }
            }
        }
        try (PreparedStatement hours = db.prepareStatement("SELECT count(*) FROM generate_series(?, ?::timestamp, INTERVAL '1 hour')")) {
            for (int run = 0; run < 10; run++) {
                hours.setObject(1, start);
                hours.setObject(2, start.plusHours(run));
                try (ResultSet count = hours.executeQuery()) {
                    check(count.next() && count.getLong(1) == run + 1, "hours of a table function");
                }
            }
        }
        try (Statement statement = db.createStatement(); ResultSet gone = statement.executeQuery("DELETE FROM jdbc WHERE id = 11 RETURNING ts")) {
            int rows = 0;
            while (gone.next()) rows++;
            check(rows == 10, "ten rows are deleted");
        }
        db.commit();
    }

    /** A read-only transaction that sees a single point in time. */
    static void modes(String url, LocalDateTime start) throws Exception {
        try (Connection db = DriverManager.getConnection(url); Connection other = DriverManager.getConnection(url); Statement writes = other.createStatement()) {
            db.setTransactionIsolation(Connection.TRANSACTION_REPEATABLE_READ);
            check(db.getTransactionIsolation() == Connection.TRANSACTION_REPEATABLE_READ, "the level is as it was set");
            db.setAutoCommit(false);
            db.setReadOnly(true);
            try (PreparedStatement counts = db.prepareStatement("SELECT count(*) FROM jdbc WHERE id >= ?")) {
                counts.setLong(1, 0);
                long first = -1;
                for (int run = 0; run < 10; run++) {
                    try (ResultSet count = counts.executeQuery()) {
                        check(count.next() && (run == 0 || count.getLong(1) == first), "the moment is the first one");
                        first = count.getLong(1);
                    }
                    writes.execute("INSERT INTO jdbc (id, ts) VALUES (" + (40 + run) + ", '2026-01-01')");
                }
            }
            try (PreparedStatement row = db.prepareStatement("INSERT INTO jdbc (id, ts) VALUES (8, ?)")) {
                row.setObject(1, start);
                row.executeUpdate();
                check(false, "a transaction that only reads does not write");
            } catch (SQLException error) {
                check(error.getSQLState().equals("25006"), error.toString());
            }
            db.rollback();
            check(writes.executeUpdate("DELETE FROM jdbc WHERE id >= 40") == 10, "ten rows are deleted");
        }
    }

    /** Instants are the same in every time zone of the program. */
    static void zones(Connection db) throws Exception {
        try (Statement statement = db.createStatement()) {
            statement.execute("CREATE TABLE zoned (id BIGINT, ts TIMESTAMPTZ, PRIMARY KEY (id, ts))");
        }
        OffsetDateTime noon = OffsetDateTime.parse("2026-01-01T12:00:00.000001+02:00");
        for (int run = 0; run < 10; run++) {
            try (PreparedStatement row = db.prepareStatement("INSERT INTO zoned VALUES (?, ?)")) {
                row.setLong(1, run);
                if (run % 2 == 0) row.setObject(2, noon.plusHours(run));
                else row.setTimestamp(2, Timestamp.from(noon.plusHours(run).toInstant()));
                check(row.executeUpdate() == 1, "one row is written");
            }
        }
        try (PreparedStatement rows = db.prepareStatement("SELECT ts, now() FROM zoned WHERE id >= ? AND ts < ? AND ts <= now() + INTERVAL '100 years' ORDER BY ts")) {
            for (int run = 0; run < 10; run++) {
                rows.setLong(1, run);
                rows.setObject(2, noon.plusHours(run + 1));
                try (ResultSet row = rows.executeQuery()) {
                    check(row.next(), "there is a row");
                    check(row.getTimestamp(1).toInstant().equals(noon.plusHours(run).toInstant()), "an instant, not " + row.getTimestamp(1));
                    check(row.getObject(1, OffsetDateTime.class).isEqual(noon.plusHours(run)), "a time with its offset");
                    check(Math.abs(row.getTimestamp(2).getTime() - System.currentTimeMillis()) < 3600_000, "now is not " + row.getTimestamp(2));
                    check(row.getMetaData().getColumnTypeName(1).equals("timestamptz") && !row.next(), "one row of this type");
                }
            }
        }
    }

    public static void main(String[] args) throws Exception {
        String url = "jdbc:postgresql://127.0.0.1:" + args[0] + "/fleetdb?user=me";
        try (Connection db = DriverManager.getConnection(url)) {
            try (Statement statement = db.createStatement()) {
                statement.execute("CREATE TABLE jdbc (id BIGINT, ts TIMESTAMP, kwh DOUBLE, ok BOOLEAN, note TEXT, PRIMARY KEY (id, ts))");
            }
            LocalDateTime start = LocalDateTime.of(2026, 1, 1, 0, 0);
            // More than five runs, after which the driver prepares the statement on the server.
            db.setAutoCommit(false);
            String insert = "INSERT INTO jdbc (id, ts, kwh, ok, note) VALUES (?, ?, ?, ?, ?) ON CONFLICT (id, ts) DO UPDATE SET kwh = excluded.kwh, ok = excluded.ok, note = excluded.note";
            try (PreparedStatement rows = db.prepareStatement(insert)) {
                for (int hour = 0; hour < 20; hour++) {
                    rows.setLong(1, 7);
                    rows.setObject(2, start.plusHours(hour));
                    rows.setDouble(3, hour * 0.5);
                    rows.setBoolean(4, hour % 2 == 0);
                    rows.setString(5, hour == 3 ? null : "hour " + hour);
                    rows.addBatch();
                }
                check(rows.executeBatch().length == 20, "a batch has 20 counts");
            }
            db.commit();
            try (PreparedStatement row = db.prepareStatement("INSERT INTO jdbc (id, ts) VALUES (8, ?)")) {
                row.setObject(1, start);
                check(row.executeUpdate() == 1, "one row is written");
            }
            db.rollback();
            returned(db, start);
            try (Statement statement = db.createStatement()) {
                statement.execute("INSERT INTO jdbc (id, ts) VALUES (9, '2026-01-01')");
                Savepoint before = db.setSavepoint("before");
                statement.execute("INSERT INTO jdbc (id, ts) VALUES (10, '2026-01-01')");
                db.rollback(before);
                db.releaseSavepoint(before);
            }
            db.commit();
            db.setAutoCommit(true);
            autosaves(url);
            triesAgain(url);
            zones(db);
            modes(url, start);
            String query = "SELECT id, ts, kwh, ok, note FROM jdbc WHERE id = ? AND ts >= ? ORDER BY ts";
            try (PreparedStatement rows = db.prepareStatement(query)) {
                for (int run = 0; run < 10; run++) {
                    rows.setLong(1, 7);
                    rows.setObject(2, start.plusHours(3));
                    try (ResultSet row = rows.executeQuery()) {
                        check(row.next(), "there is a row");
                        check(row.getLong("id") == 7 && row.getDouble("kwh") == 1.5, "id and kwh");
                        check(row.getObject("ts", LocalDateTime.class).equals(start.plusHours(3)), "the time");
                        check(!row.getBoolean("ok") && row.getString("note") == null && row.wasNull(), "false and NULL");
                        int more = 0;
                        while (row.next()) more++;
                        check(more == 16, "16 more rows, not " + more);
                    }
                }
            }
            // Rows in portions.
            db.setAutoCommit(false);
            try (Statement statement = db.createStatement()) {
                statement.setFetchSize(6);
                try (ResultSet rows = statement.executeQuery("SELECT kwh FROM jdbc ORDER BY ts")) {
                    double sum = 0;
                    while (rows.next()) sum += rows.getDouble(1);
                    check(sum == 95, "the sum is 95, not " + sum);
                }
            }
            db.commit();
            db.setAutoCommit(true);
            // An array as a single parameter; an update that depends on the row's old value.
            db.setAutoCommit(false);
            try (PreparedStatement change = db.prepareStatement("UPDATE jdbc SET kwh = kwh + ? WHERE id = ANY(?) AND note = 'hour 1'")) {
                change.setDouble(1, 0.25);
                change.setArray(2, db.createArrayOf("bigint", new Long[] {7L, 8L}));
                check(change.executeUpdate() == 1, "one row is changed");
            }
            db.commit();
            db.setAutoCommit(true);
            try (Statement statement = db.createStatement(); ResultSet row = statement.executeQuery("SELECT max(kwh), count(*) FROM jdbc WHERE note = 'hour 1'")) {
                check(row.next() && row.getDouble("max") == 0.75 && row.getLong("count") == 1, "the row has what it had and more");
            }
            DatabaseMetaData about = db.getMetaData();
            try (ResultSet tables = about.getTables(null, "public", "jdbc", new String[] {"TABLE"})) {
                check(tables.next() && tables.getString("TABLE_NAME").equals("jdbc"), "getTables finds the table");
            }
            try (ResultSet keys = about.getPrimaryKeys(null, "public", "jdbc")) {
                StringBuilder names = new StringBuilder();
                while (keys.next()) names.append(keys.getInt("KEY_SEQ")).append(' ').append(keys.getString("COLUMN_NAME")).append(", ");
                check(names.toString().equals("1 id, 2 ts, "), "getPrimaryKeys: " + names);
            }
            try (ResultSet index = about.getIndexInfo(null, "public", "jdbc", true, false)) {
                StringBuilder names = new StringBuilder();
                while (index.next()) names.append(index.getInt("ORDINAL_POSITION")).append(' ').append(index.getString("COLUMN_NAME")).append(index.getString("ASC_OR_DESC")).append(", ");
                check(names.toString().equals("1 idA, 2 tsA, "), "getIndexInfo: " + names);
            }
            try (ResultSet key = about.getBestRowIdentifier(null, "public", "jdbc", DatabaseMetaData.bestRowSession, false)) {
                StringBuilder names = new StringBuilder();
                while (key.next()) names.append(key.getString("COLUMN_NAME")).append(", ");
                check(names.toString().equals("id, ts, "), "getBestRowIdentifier: " + names);
            }
            try (ResultSet columns = about.getColumns(null, "public", "jdbc", null)) {
                StringBuilder names = new StringBuilder();
                while (columns.next()) names.append(columns.getString("COLUMN_NAME")).append(' ').append(columns.getInt("DATA_TYPE")).append(", ");
                String expected = "id -5, ts 93, kwh 8, ok -7, note 12, ";
                check(names.toString().equals(expected), "getColumns: " + names);
            }
            try (Statement statement = db.createStatement()) {
                statement.executeQuery("SELECT nothing FROM jdbc");
                check(false, "a wrong statement fails");
            } catch (SQLException e) {
                check(e.getSQLState().startsWith("42"), "SQLSTATE " + e.getSQLState());
                int position = ((org.postgresql.util.PSQLException) e).getServerErrorMessage().getPosition();
                check(position == 8, "the error is at " + position);
            }
        }
        System.out.println("all is well");
    }
}
