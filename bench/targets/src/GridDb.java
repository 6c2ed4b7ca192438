import com.toshiba.mwcloud.gs.AggregationResult;
import com.toshiba.mwcloud.gs.ColumnInfo;
import com.toshiba.mwcloud.gs.Container;
import com.toshiba.mwcloud.gs.ContainerInfo;
import com.toshiba.mwcloud.gs.ContainerType;
import com.toshiba.mwcloud.gs.GSException;
import com.toshiba.mwcloud.gs.GSType;
import com.toshiba.mwcloud.gs.GridStore;
import com.toshiba.mwcloud.gs.GridStoreFactory;
import com.toshiba.mwcloud.gs.PartitionController;
import com.toshiba.mwcloud.gs.Query;
import com.toshiba.mwcloud.gs.Row;
import com.toshiba.mwcloud.gs.RowSet;
import com.toshiba.mwcloud.gs.TimeUnit;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.Writer;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.channels.Channels;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.sql.Timestamp;
import java.util.ArrayList;
import java.util.Date;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;

/**
 * Speaks with the suite for GridDB's client, over a socket. Each connection is a GridStore of its own.
 *
 * <p>A request and its answer are lines of cells as in PostgreSQL's COPY: separated by tabs, \N for null,
 * \\ \t \n \r in texts; times are nanoseconds since 1970. A line \. ends them; an answer that ends with \! and
 * a message is an error. The first line of a request is one of these:
 *
 * <pre>
 * open                  rows of a property and its value    connects
 * table NAME KIND       rows of a column and its type       tells how containers of a table look; the row key is first
 * create TABLE          rows of a container                 creates them, unless they exist
 * write                 rows of a table, a container and values; a container's are a transaction
 * rows TABLE            rows of a container and a query     answers the query's number and the values of each row
 * numbers TYPE          the same                            answers the query's number and its aggregate, if it has one
 * list                                                      answers the names of all containers
 * drop                  rows of a container                 drops them
 * </pre>
 */
public final class GridDb {
    private static final long SECOND_NS = 1_000_000_000L;
    private static final long MILLISECOND_NS = 1_000_000L;

    private record Column(String name, String type) {}

    /** A table; its containers have these columns. The empty row is copied: it knows its columns already. */
    private record Table(ContainerType kind, List<Column> columns, Row empty) {}

    private final Map<String, Table> tables = new HashMap<>();
    private final Map<String, Container<Object, Row>> containers = new HashMap<>();
    private GridStore store;

    public static void main(String[] arguments) throws IOException {
        if (arguments.length != 1) {
            System.err.println("usage: java GridDb SOCKET");
            System.exit(2);
        }
        try (ServerSocketChannel server = ServerSocketChannel.open(StandardProtocolFamily.UNIX)) {
            server.bind(UnixDomainSocketAddress.of(Path.of(arguments[0])));
            Thread parent = new Thread(GridDb::endWithParent);
            parent.setDaemon(true);
            parent.start();
            System.out.println("ready");
            while (true) {
                SocketChannel peer = server.accept();
                new Thread(() -> serve(peer)).start();
            }
        }
    }

    /** The input ends when the suite does, however it ends. */
    private static void endWithParent() {
        try {
            while (System.in.read() >= 0) {}
        } catch (IOException error) {
            System.err.println(error);
        }
        System.exit(0);
    }

    private static void serve(SocketChannel peer) {
        GridDb connection = new GridDb();
        try (peer;
                BufferedReader in = new BufferedReader(Channels.newReader(peer, StandardCharsets.UTF_8));
                Writer out = Channels.newWriter(peer, StandardCharsets.UTF_8)) {
            String first;
            while ((first = in.readLine()) != null) {
                List<String[]> rows = new ArrayList<>();
                String line;
                while ((line = in.readLine()) != null && !line.equals("\\.")) {
                    rows.add(cells(line));
                }
                StringBuilder answer = new StringBuilder();
                try {
                    connection.answer(cells(first), rows, answer);
                    answer.append("\\.\n");
                } catch (GSException | RuntimeException error) {
                    answer.append("\\!");
                    add(answer, error.getMessage() == null ? error.toString() : error.getMessage());
                    answer.append('\n');
                }
                out.append(answer).flush();
            }
            if (connection.store != null) {
                connection.store.close();
            }
        } catch (IOException error) {
            System.err.println(error);
        }
    }

    private void answer(String[] request, List<String[]> rows, StringBuilder answer) throws GSException {
        switch (request[0]) {
            case "open" -> open(rows);
            case "table" -> table(request[1], request[2], rows);
            case "create" -> create(table(request[1]), rows);
            case "write" -> write(rows);
            case "rows" -> rows(table(request[1]), rows, answer);
            case "numbers" -> numbers(request[1], rows, answer);
            case "list" -> list(answer);
            case "drop" -> drop(rows);
            default -> throw new IllegalArgumentException("unknown request " + request[0]);
        }
    }

    private void open(List<String[]> rows) throws GSException {
        Properties properties = new Properties();
        rows.forEach(row -> properties.setProperty(row[0], row[1]));
        store = GridStoreFactory.getInstance().getGridStore(properties);
        // It connects and logs in only when it is asked something.
        store.getPartitionController().getPartitionCount();
    }

    private GridStore store() {
        if (store == null) {
            throw new IllegalStateException("nothing was opened");
        }
        return store;
    }

    private void table(String name, String kind, List<String[]> rows) throws GSException {
        List<Column> columns = rows.stream().map(row -> new Column(row[0], row[1])).toList();
        ContainerType type = ContainerType.valueOf(kind);
        tables.put(name, new Table(type, columns, store().createRow(info(type, columns))));
    }

    private Table table(String name) {
        Table table = tables.get(name);
        if (table == null) {
            throw new IllegalArgumentException("unknown table " + name);
        }
        return table;
    }

    private static ContainerInfo info(ContainerType kind, List<Column> columns) {
        List<ColumnInfo> all = new ArrayList<>();
        for (Column column : columns) {
            ColumnInfo.Builder info = new ColumnInfo.Builder();
            info.setName(column.name()).setNullable(!all.isEmpty());
            switch (column.type()) {
                case "MILLISECONDS" -> info.setType(GSType.TIMESTAMP);
                case "MICROSECONDS" -> info.setType(GSType.TIMESTAMP).setTimePrecision(TimeUnit.MICROSECOND);
                default -> info.setType(GSType.valueOf(column.type()));
            }
            all.add(info.toInfo());
        }
        return new ContainerInfo(null, kind, all, true);
    }

    private void create(Table table, List<String[]> rows) throws GSException {
        ContainerInfo info = info(table.kind(), table.columns());
        for (String[] row : rows) {
            containers.put(row[0], store().putContainer(row[0], info, false));
        }
    }

    /** A container, which is looked up once; null if there is none. */
    private Container<Object, Row> container(String name) throws GSException {
        Container<Object, Row> container = containers.get(name);
        if (container == null) {
            container = store().getContainer(name);
            if (container != null) {
                containers.put(name, container);
            }
        }
        return container;
    }

    private void write(List<String[]> rows) throws GSException {
        Map<String, List<Row>> all = new LinkedHashMap<>();
        for (String[] cells : rows) {
            all.computeIfAbsent(cells[1], name -> new ArrayList<>()).add(row(table(cells[0]), cells));
        }
        // A server on the same machine takes longer for multiPut than for these requests in turn.
        for (Map.Entry<String, List<Row>> one : all.entrySet()) {
            Container<Object, Row> container = container(one.getKey());
            if (container == null) {
                throw new IllegalArgumentException("there is no container " + one.getKey());
            }
            if (one.getValue().size() == 1) {
                container.put(one.getValue().get(0));
            } else {
                put(container, one.getValue());
            }
        }
    }

    /** A transaction. Without it, each row would be one of its own, with a sync of its own. */
    private static void put(Container<Object, Row> container, List<Row> rows) throws GSException {
        container.setAutoCommit(false);
        try {
            container.put(rows);
            container.commit();
        } catch (GSException | RuntimeException error) {
            try {
                container.abort();
            } catch (GSException | RuntimeException another) {
                error.addSuppressed(another);
            }
            throw error;
        } finally {
            // Queries would be part of a transaction otherwise.
            container.setAutoCommit(true);
        }
    }

    /** A row of values, which begin with the third cell. */
    private static Row row(Table table, String[] cells) throws GSException {
        Row row = table.empty().createRow();
        for (int place = 0; place < table.columns().size(); place++) {
            String cell = cells[place + 2];
            if (cell == null) {
                row.setNull(place);
                continue;
            }
            switch (table.columns().get(place).type()) {
                case "LONG" -> row.setLong(place, Long.parseLong(cell));
                case "DOUBLE" -> row.setDouble(place, number(cell));
                case "MILLISECONDS" -> row.setTimestamp(place, new Date(milliseconds(cell)));
                case "MICROSECONDS" -> {
                    Timestamp time = new Timestamp(milliseconds(cell));
                    time.setNanos((int) Math.floorMod(Long.parseLong(cell), SECOND_NS));
                    row.setPreciseTimestamp(place, time);
                }
                default -> row.setString(place, cell);
            }
        }
        return row;
    }

    private static long milliseconds(String cell) {
        return Math.floorDiv(Long.parseLong(cell), MILLISECOND_NS);
    }

    /** A number as Rust writes it. */
    private static double number(String cell) {
        return switch (cell) {
            case "inf" -> Double.POSITIVE_INFINITY;
            case "-inf" -> Double.NEGATIVE_INFINITY;
            default -> Double.parseDouble(cell);
        };
    }

    private void rows(Table table, List<String[]> asked, StringBuilder answer) throws GSException {
        List<RowSet<Row>> sets = fetch(asked, Row.class);
        for (int number = 0; number < sets.size(); number++) {
            RowSet<Row> set = sets.get(number);
            while (set != null && set.hasNext()) {
                Row row = set.next();
                answer.append(number);
                for (int place = 0; place < table.columns().size(); place++) {
                    answer.append('\t');
                    add(answer, row.isNull(place) ? null : value(row, place, table.columns().get(place).type()));
                }
                answer.append('\n');
            }
        }
    }

    private static String value(Row row, int place, String type) throws GSException {
        return switch (type) {
            case "LONG" -> Long.toString(row.getLong(place));
            case "DOUBLE" -> Double.toString(row.getDouble(place));
            case "MILLISECONDS" -> Long.toString(row.getTimestamp(place).getTime() * MILLISECOND_NS);
            case "MICROSECONDS" -> {
                Timestamp time = row.getPreciseTimestamp(place);
                yield Long.toString(Math.floorDiv(time.getTime(), 1_000L) * SECOND_NS + time.getNanos());
            }
            default -> row.getString(place);
        };
    }

    private void numbers(String type, List<String[]> asked, StringBuilder answer) throws GSException {
        List<RowSet<AggregationResult>> sets = fetch(asked, AggregationResult.class);
        for (int number = 0; number < sets.size(); number++) {
            RowSet<AggregationResult> set = sets.get(number);
            if (set != null && set.hasNext()) {
                AggregationResult result = set.next();
                // The operator ?: would make a double of both.
                Object value = result.getDouble();
                if (type.equals("LONG")) {
                    value = result.getLong();
                }
                answer.append(number).append('\t');
                add(answer, value == null ? null : value.toString());
                answer.append('\n');
            }
        }
    }

    /** The answers of containers to queries, in one request; null where there is no container. */
    private <R> List<RowSet<R>> fetch(List<String[]> asked, Class<R> type) throws GSException {
        List<Query<R>> all = new ArrayList<>();
        List<Query<R>> queries = new ArrayList<>();
        for (String[] row : asked) {
            Container<Object, Row> container = container(row[0]);
            Query<R> query = container == null ? null : container.query(row[1], type);
            all.add(query);
            if (query != null) {
                queries.add(query);
            }
        }
        List<RowSet<R>> sets = new ArrayList<>();
        if (queries.size() > 1) {
            store().fetchAll(queries);
        }
        for (Query<R> query : all) {
            sets.add(query == null ? null : queries.size() > 1 ? query.getRowSet() : query.fetch());
        }
        return sets;
    }

    private void list(StringBuilder answer) throws GSException {
        PartitionController partitions = store().getPartitionController();
        int count = partitions.getPartitionCount();
        for (int partition = 0; partition < count; partition++) {
            for (String name : partitions.getContainerNames(partition, 0, null)) {
                add(answer, name);
                answer.append('\n');
            }
        }
    }

    private void drop(List<String[]> rows) throws GSException {
        for (String[] row : rows) {
            containers.remove(row[0]);
            store().dropContainer(row[0]);
        }
    }

    /** The cells of a line; null for \N. */
    private static String[] cells(String line) {
        String[] cells = line.split("\t", -1);
        for (int place = 0; place < cells.length; place++) {
            cells[place] = cells[place].equals("\\N") ? null : text(cells[place]);
        }
        return cells;
    }

    private static String text(String cell) {
        if (cell.indexOf('\\') < 0) {
            return cell;
        }
        StringBuilder text = new StringBuilder();
        for (int place = 0; place < cell.length(); place++) {
            char next = cell.charAt(place);
            if (next == '\\' && place + 1 < cell.length()) {
                place++;
                next = switch (cell.charAt(place)) {
                    case 't' -> '\t';
                    case 'n' -> '\n';
                    case 'r' -> '\r';
                    default -> cell.charAt(place);
                };
            }
            text.append(next);
        }
        return text.toString();
    }

    private static void add(StringBuilder line, String cell) {
        if (cell == null) {
            line.append("\\N");
            return;
        }
        for (int place = 0; place < cell.length(); place++) {
            char next = cell.charAt(place);
            switch (next) {
                case '\\' -> line.append("\\\\");
                case '\t' -> line.append("\\t");
                case '\n' -> line.append("\\n");
                case '\r' -> line.append("\\r");
                default -> line.append(next);
            }
        }
    }
}
