/* Uses every function of fleetdb.h, in right and in wrong ways: program DIRECTORY. Prints "all is well".
 * tests/c.rs compiles and runs it, plainly, with AddressSanitizer and under valgrind. */
#define _POSIX_C_SOURCE 200809L
#include <fleetdb.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TRUE(condition) expect((condition) != 0, #condition, __LINE__)
#define OK(call) gives((call), FLEETDB_OK, #call, __LINE__)
#define GIVES(result, call) gives((call), (result), #call, __LINE__)
/* The call fails with this result and this SQLSTATE. */
#define FAILS(result, sqlstate, call) fails((call), (result), (sqlstate), #call, __LINE__)

static void expect(int is_met, const char *what, int line) {
    if (is_met) return;
    const char *state, *message = fleetdb_error_message(&state);
    fprintf(stderr, "line %d: %s; the last error: %s (%s)\n", line, what, message, state);
    exit(1);
}

static void gives(int result, int expected, const char *call, int line) {
    if (result != expected) fprintf(stderr, "gave %d, not %d\n", result, expected);
    expect(result == expected, call, line);
}

static void fails(int result, int expected, const char *sqlstate, const char *call, int line) {
    gives(result, expected, call, line);
    const char *state, *message = fleetdb_error_message(&state);
    expect(strcmp(state, sqlstate) == 0 && strlen(message) > 0, call, line);
}

static const fleetdb_value seven[] = {fleetdb_integer(7)};

static fleetdb_value column(fleetdb_statement *statement, int number) {
    fleetdb_value value;
    OK(fleetdb_column(statement, number, &value, NULL));
    return value;
}

static int is_text(fleetdb_value value, const char *text) {
    /* A NUL is behind the text. */
    return value.type == FLEETDB_TEXT && (size_t)value.as.bytes.length == strlen(text) &&
           strcmp(value.as.bytes.pointer, text) == 0;
}

static int64_t number(fleetdb *db, const char *sql) {
    fleetdb_statement *statement;
    OK(fleetdb_prepare(db, sql, -1, &statement));
    GIVES(FLEETDB_ROW, fleetdb_step(statement));
    fleetdb_value value = column(statement, 0);
    TRUE(value.type == FLEETDB_INTEGER);
    OK(fleetdb_finalize(statement));
    return value.as.integer;
}

static void opening(const char *path) {
    fleetdb *db = (fleetdb *)1, *other;
    FAILS(FLEETDB_MISUSE, "HY010", fleetdb_open(NULL, NULL, &db));
    TRUE(db == NULL);
    FAILS(FLEETDB_MISUSE, "HY010", fleetdb_open(path, NULL, NULL));
    FAILS(FLEETDB_INVALID, "22023", fleetdb_open(path, "speed=11", &db));
    FAILS(FLEETDB_INVALID, "22023", fleetdb_open(path, "durability=never", &db));
    FAILS(FLEETDB_INVALID, "22P02", fleetdb_open("\xff", NULL, &db));
    FAILS(FLEETDB_MISUSE, "HY010", fleetdb_exec(NULL, "SELECT 1", NULL));
    OK(fleetdb_close(NULL));
    OK(fleetdb_finalize(NULL));
    TRUE(strchr(fleetdb_version(), '.') != NULL);

    OK(fleetdb_open(path, "durability=os memory_limit=67108864", &db));
    OK(fleetdb_open(path, NULL, &other));
    OK(fleetdb_exec(db, "CREATE TABLE reads (meter BIGINT, ts TIMESTAMP(3), kwh DOUBLE, note TEXT,"
                        " PRIMARY KEY (meter, ts)); CREATE TABLE meters (id BIGINT, site TEXT, PRIMARY KEY (id))",
                    NULL));
    TRUE(number(other, "SELECT count(*) FROM reads") == 0);
    FAILS(FLEETDB_INVALID, "22023", fleetdb_open(path, "memory_limit=134217728", &(fleetdb *){NULL}));
    OK(fleetdb_close(other));
    FAILS(FLEETDB_MISUSE, "HY010", fleetdb_exec(other, "SELECT 1", NULL));
    FAILS(FLEETDB_MISUSE, "HY010", fleetdb_close(other));
    FAILS(FLEETDB_MISUSE, "HY010", fleetdb_step((fleetdb_statement *)db));
    FAILS(FLEETDB_MISUSE, "HY010", fleetdb_exec((fleetdb *)0x1234567, "SELECT 1", NULL));
    OK(fleetdb_close(db));
}

static void rows(fleetdb *db) {
    fleetdb_statement *rows;
    int64_t changed = -1;
    OK(fleetdb_rows_begin(db, &rows));
    for (int64_t hour = 0; hour < 1000; hour++) {
        fleetdb_value row[] = {seven[0], fleetdb_integer(hour * 3600000), fleetdb_real(0.5), fleetdb_text("a\xc3\xa4")};
        OK(fleetdb_rows_push(rows, "reads", row, hour % 2 ? 3 : 4));
    }
    const fleetdb_value meter[] = {seven[0], {.type = FLEETDB_TEXT, .as.bytes = {"Berlin and more", 6}}};
    OK(fleetdb_rows_push(rows, "meters", meter, 2));
    TRUE(number(db, "SELECT count(*) FROM reads") == 0);
    OK(fleetdb_rows_commit(rows));
    TRUE(number(db, "SELECT count(*) FROM reads") == 1000);
    TRUE(number(db, "SELECT count(*) FROM meters WHERE site = 'Berlin'") == 1);
    OK(fleetdb_rows_commit(rows));

    /* A row that does not fit is not added; the others are. */
    fleetdb_value row[] = {seven[0], fleetdb_text("1969-12-31 23:00"), fleetdb_integer(1), fleetdb_null()};
    OK(fleetdb_rows_push(rows, "reads", row, 4));
    row[1] = fleetdb_null();
    FAILS(FLEETDB_INVALID, "23502", fleetdb_rows_push(rows, "reads", row, 4));
    row[1] = fleetdb_text("soon");
    FAILS(FLEETDB_INVALID, "22007", fleetdb_rows_push(rows, "reads", row, 4));
    row[1] = fleetdb_real(1.5);
    FAILS(FLEETDB_INVALID, "22003", fleetdb_rows_push(rows, "reads", row, 4));
    row[1] = (fleetdb_value){.type = 99};
    FAILS(FLEETDB_MISUSE, "HY010", fleetdb_rows_push(rows, "reads", row, 4));
    row[1] = (fleetdb_value){.type = FLEETDB_NONE};
    FAILS(FLEETDB_MISUSE, "HY010", fleetdb_rows_push(rows, "reads", row, 4));
    row[1] = (fleetdb_value){.type = FLEETDB_TEXT, .as.bytes = {NULL, -1}};
    FAILS(FLEETDB_MISUSE, "HY010", fleetdb_rows_push(rows, "reads", row, 4));
    row[1] = (fleetdb_value){.type = FLEETDB_TEXT, .as.bytes = {"x", -2}};
    FAILS(FLEETDB_MISUSE, "HY010", fleetdb_rows_push(rows, "reads", row, 4));
    FAILS(FLEETDB_MISUSE, "HY010", fleetdb_rows_push(rows, "reads", row, -1));
    FAILS(FLEETDB_MISUSE, "HY010", fleetdb_rows_push(rows, "reads", NULL, 4));
    FAILS(FLEETDB_INVALID, "42P01", fleetdb_rows_push(rows, "nothing", seven, 1));
    const fleetdb_value many[] = {seven[0], seven[0], seven[0], seven[0], seven[0]};
    FAILS(FLEETDB_INVALID, "42000", fleetdb_rows_push(rows, "reads", many, 5));
    FAILS(FLEETDB_MISUSE, "HY010", fleetdb_step(rows));
    FAILS(FLEETDB_MISUSE, "HY010", fleetdb_bind(rows, 1, seven[0]));
    OK(fleetdb_rows_commit(rows));
    TRUE(number(db, "SELECT count(*) FROM reads") == 1001);

    /* In a transaction, and dropped. */
    OK(fleetdb_exec(db, "BEGIN", NULL));
    OK(fleetdb_rows_push(rows, "meters", (fleetdb_value[]){fleetdb_integer(8)}, 1));
    OK(fleetdb_rows_commit(rows));
    TRUE(number(db, "SELECT count(*) FROM meters") == 2);
    OK(fleetdb_exec(db, "ROLLBACK", NULL));
    TRUE(number(db, "SELECT count(*) FROM meters") == 1);
    OK(fleetdb_rows_push(rows, "meters", (fleetdb_value[]){fleetdb_integer(9)}, 1));
    OK(fleetdb_finalize(rows));
    FAILS(FLEETDB_MISUSE, "HY010", fleetdb_rows_commit(rows));
    OK(fleetdb_exec(db, "DELETE FROM reads WHERE ts < '1970-01-01'", &changed));
    TRUE(changed == 1);
    OK(fleetdb_exec(db, "SELECT 1; UPDATE meters SET site = 'Bern' WHERE id = 7;", &changed));
    TRUE(changed == 1);
}

static void statements(fleetdb *db) {
    fleetdb_statement *query, *insert, *types;
    const char *name;
    fleetdb_value value;
    FAILS(FLEETDB_INVALID, "42P01", fleetdb_prepare(db, "SELECT * FROM nothing", -1, &query));
    TRUE(query == NULL);
    FAILS(FLEETDB_INVALID, "42601", fleetdb_prepare(db, "SELEC 1", -1, &query));
    FAILS(FLEETDB_MISUSE, "HY010", fleetdb_prepare(db, NULL, 3, &query));
    OK(fleetdb_prepare(db, "SELECT ts, kwh, note FROM reads WHERE meter = $1 AND ts >= $2 ORDER BY ts, and more", 73,
                       &query));
    OK(fleetdb_column(query, 1, &value, &name));
    TRUE(value.type == FLEETDB_NONE && strcmp(name, "kwh") == 0);
    FAILS(FLEETDB_INVALID, "42P02", fleetdb_bind(query, 3, seven[0]));
    FAILS(FLEETDB_INVALID, "42P02", fleetdb_bind(query, 0, seven[0]));
    GIVES(FLEETDB_DONE, fleetdb_step(query)); /* The parameters are NULL. */
    OK(fleetdb_bind(query, 1, seven[0]));
    OK(fleetdb_bind(query, 2, fleetdb_text("1970-02-11 14:00")));
    for (int run = 0; run < 2; run++) {
        GIVES(FLEETDB_ROW, fleetdb_step(query));
        TRUE(column(query, 0).as.integer == INT64_C(998) * 3600000);
        TRUE(column(query, 1).type == FLEETDB_REAL && column(query, 1).as.real == 0.5);
        const char *text = column(query, 2).as.bytes.pointer;
        TRUE(is_text(column(query, 2), "a\xc3\xa4") && column(query, 2).as.bytes.pointer == text);
        GIVES(FLEETDB_ROW, fleetdb_step(query));
        TRUE(column(query, 2).type == FLEETDB_NULL);
        OK(fleetdb_column(query, 3, &value, &name));
        TRUE(value.type == FLEETDB_NONE && name == NULL);
        TRUE(column(query, -1).type == FLEETDB_NONE);
        GIVES(FLEETDB_DONE, fleetdb_step(query));
        TRUE(column(query, 0).type == FLEETDB_NONE);
    }
    /* Two statements that take turns; binding ends a run. */
    GIVES(FLEETDB_ROW, fleetdb_step(query));
    TRUE(number(db, "SELECT count(*) FROM meters") == 1);
    GIVES(FLEETDB_ROW, fleetdb_step(query));
    OK(fleetdb_bind(query, 2, fleetdb_integer(INT64_C(999) * 3600000)));
    GIVES(FLEETDB_ROW, fleetdb_step(query));
    GIVES(FLEETDB_BUSY, fleetdb_close(db));
    OK(fleetdb_finalize(query));

    OK(fleetdb_prepare(db, "INSERT INTO meters VALUES ($1, $2) RETURNING id", -1, &insert));
    for (int64_t id = 20; id < 23; id++) {
        OK(fleetdb_bind(insert, 1, fleetdb_integer(id)));
        OK(fleetdb_bind(insert, 2, fleetdb_text("it's")));
        GIVES(FLEETDB_ROW, fleetdb_step(insert));
        TRUE(column(insert, 0).as.integer == id);
        GIVES(FLEETDB_DONE, fleetdb_step(insert));
    }
    FAILS(FLEETDB_INVALID, "22012", fleetdb_exec(db, "INSERT INTO meters SELECT id / 0, site FROM meters", NULL));
    OK(fleetdb_finalize(insert));

    OK(fleetdb_prepare(db, "SELECT true, 12.50::NUMERIC(6, 2), DATE '1970-01-03', TIME '00:00:01', '\\x00ff'::BYTEA, "
                           "ARRAY[1, NULL], 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::UUID, 1.5::REAL, NULL", -1, &types));
    GIVES(FLEETDB_ROW, fleetdb_step(types));
    TRUE(column(types, 0).type == FLEETDB_BOOLEAN && column(types, 0).as.integer == 1);
    TRUE(is_text(column(types, 1), "12.50"));
    TRUE(column(types, 2).as.integer == 2);
    TRUE(column(types, 3).as.integer == 1000000);
    value = column(types, 4);
    TRUE(value.type == FLEETDB_BLOB && value.as.bytes.length == 2 && memcmp(value.as.bytes.pointer, "\0\xff", 3) == 0);
    TRUE(is_text(column(types, 5), "{1,NULL}"));
    TRUE(is_text(column(types, 6), "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"));
    TRUE(column(types, 7).as.real == 1.5);
    TRUE(column(types, 8).type == FLEETDB_NULL);
    OK(fleetdb_finalize(types));
}

static void containers(fleetdb *db) {
    fleetdb_statement *scan;
    fleetdb_totals totals;
    int64_t count = 0, value;
    OK(fleetdb_last(db, "reads", seven, 1, &scan));
    GIVES(FLEETDB_ROW, fleetdb_step(scan));
    TRUE(column(scan, 1).as.integer == INT64_C(999) * 3600000);
    GIVES(FLEETDB_DONE, fleetdb_step(scan));
    GIVES(FLEETDB_ROW, fleetdb_step(scan));
    OK(fleetdb_finalize(scan));
    OK(fleetdb_last(db, "reads", NULL, 0, &scan));
    while (fleetdb_step(scan) == FLEETDB_ROW) count++;
    TRUE(count == 1);
    OK(fleetdb_finalize(scan));
    OK(fleetdb_last(db, "reads", (fleetdb_value[]){fleetdb_text("8")}, 1, &scan));
    GIVES(FLEETDB_DONE, fleetdb_step(scan));
    OK(fleetdb_finalize(scan));
    FAILS(FLEETDB_INVALID, "42000", fleetdb_last(db, "reads", (fleetdb_value[]){seven[0], seven[0]}, 2, &scan));
    FAILS(FLEETDB_INVALID, "42P01", fleetdb_last(db, "nothing", seven, 1, &scan));
    TRUE(scan == NULL);

    OK(fleetdb_range(db, "reads", seven, 1, 3600000, INT64_C(4) * 3600000, &scan));
    for (int64_t hour = 1; hour < 4; hour++) {
        GIVES(FLEETDB_ROW, fleetdb_step(scan));
        TRUE(column(scan, 1).as.integer == hour * 3600000);
    }
    GIVES(FLEETDB_DONE, fleetdb_step(scan));
    OK(fleetdb_finalize(scan));
    OK(fleetdb_range(db, "reads", seven, 1, 5, 5, &scan));
    GIVES(FLEETDB_DONE, fleetdb_step(scan));
    OK(fleetdb_finalize(scan));

    OK(fleetdb_aggregate(db, "reads", seven, 1, "kwh", 0, 36000000, &totals));
    TRUE(totals.count == 10 && totals.minimum == 0.5 && totals.maximum == 0.5 && totals.sum == 5.0);
    OK(fleetdb_aggregate(db, "reads", seven, 1, "kwh", INT64_MIN, INT64_MAX, &totals));
    TRUE(totals.count == 1000);
    OK(fleetdb_aggregate(db, "reads", seven, 1, "kwh", 9, 9, &totals));
    TRUE(totals.count == 0 && isnan(totals.minimum) && isnan(totals.maximum) && totals.sum == 0);
    FAILS(FLEETDB_INVALID, "42703", fleetdb_aggregate(db, "reads", seven, 1, "watt", 0, 1, &totals));

    OK(fleetdb_status(db, "tables", &value));
    TRUE(value == 2);
    OK(fleetdb_status(db, "memtable_bytes", &value));
    TRUE(value > 0);
    FAILS(FLEETDB_INVALID, "42704", fleetdb_status(db, "luck", &value));
}

static void lines(fleetdb *db) {
    int64_t written = -1;
    OK(fleetdb_write_lines(db, "cpu,host=a usage=1i 1\ncpu,host=b usage=2i 2\n", -1, "s", &written));
    TRUE(written == 2);
    FAILS(FLEETDB_INVALID, "42000", fleetdb_write_lines(db, "cpu,host=a usage=3i 3\ncpu usage=x\n", -1, NULL, &written));
    TRUE(written == 1 && strstr(fleetdb_error_message(NULL), "line 2") != NULL);
    FAILS(FLEETDB_INVALID, "22023", fleetdb_write_lines(db, "cpu a=1", -1, "days", &written));
    OK(fleetdb_write_lines(db, "cpu,host=c usage=4i 4cpu", 21, "ns", NULL));
    OK(fleetdb_write_lines(db, NULL, 0, NULL, NULL));
    TRUE(number(db, "SELECT count(*) FROM cpu") == 4);
}

static atomic_int is_done;

static void *interrupter(void *db) {
    const struct timespec pause = {0, 5000000};
    while (!is_done) {
        nanosleep(&pause, NULL);
        OK(fleetdb_interrupt(db));
    }
    return NULL;
}

static void interrupting(fleetdb *db) {
    pthread_t thread;
    TRUE(pthread_create(&thread, NULL, interrupter, db) == 0);
    int result = fleetdb_exec(db, "SELECT count(*) FROM generate_series(1, 10000000) AS a(x), "
                                  "generate_series(1, 10000000) AS b(y) WHERE x + y < 0", NULL);
    is_done = 1;
    TRUE(pthread_join(thread, NULL) == 0);
    FAILS(FLEETDB_CANCELLED, "57014", result);
    TRUE(number(db, "SELECT count(*) FROM meters") > 0);
}

static void *worker(void *path) {
    fleetdb *db;
    fleetdb_statement *rows;
    OK(fleetdb_open(path, "durability=os", &db));
    OK(fleetdb_rows_begin(db, &rows));
    for (int64_t second = 0; second < 100; second++) {
        fleetdb_value row[] = {fleetdb_integer((int64_t)(size_t)rows), fleetdb_integer(second * 1000), fleetdb_real(1)};
        OK(fleetdb_rows_push(rows, "reads", row, 3));
        if (second % 10 == 9) OK(fleetdb_rows_commit(rows));
    }
    OK(fleetdb_finalize(rows));
    OK(fleetdb_close(db));
    return NULL;
}

static void threads(fleetdb *db, char *path) {
    pthread_t threads[4];
    int64_t before = number(db, "SELECT count(*) FROM reads");
    for (int thread = 0; thread < 4; thread++) TRUE(pthread_create(&threads[thread], NULL, worker, path) == 0);
    for (int thread = 0; thread < 4; thread++) TRUE(pthread_join(threads[thread], NULL) == 0);
    TRUE(number(db, "SELECT count(*) FROM reads") == before + 400);
}

static void copies(fleetdb *db, const char *path) {
    char backup[4096];
    fleetdb *copy, *reader;
    fleetdb_statement *rows;
    snprintf(backup, sizeof backup, "%s-backup", path);
    OK(fleetdb_backup(db, backup));
    OK(fleetdb_backup(db, backup));
    FAILS(FLEETDB_INVALID, "42000", fleetdb_backup(db, path));
    OK(fleetdb_open(path, "read_only=true", &reader));
    int64_t count = number(db, "SELECT count(*) FROM reads");
    TRUE(number(reader, "SELECT count(*) FROM reads") == count);
    FAILS(FLEETDB_INVALID, "25006", fleetdb_rows_begin(reader, &rows));
    FAILS(FLEETDB_INVALID, "25006", fleetdb_exec(reader, "DELETE FROM meters WHERE id = 7", NULL));
    OK(fleetdb_close(reader));
    OK(fleetdb_open(backup, NULL, &copy));
    TRUE(number(copy, "SELECT count(*) FROM reads") == count);
    OK(fleetdb_close(copy));
    OK(fleetdb_open(":memory:", NULL, &copy));
    FAILS(FLEETDB_INVALID, "42P01", fleetdb_exec(copy, "SELECT * FROM reads", NULL));
    OK(fleetdb_close(copy));
}

int main(int count, char **arguments) {
    fleetdb *db;
    TRUE(count == 2);
    const char *state, *message = fleetdb_error_message(&state);
    TRUE(strcmp(message, "") == 0 && strcmp(state, "00000") == 0);
    opening(arguments[1]);
    OK(fleetdb_open(arguments[1], "durability=os", &db));
    rows(db);
    statements(db);
    containers(db);
    lines(db);
    interrupting(db);
    threads(db, arguments[1]);
    copies(db, arguments[1]);
    OK(fleetdb_close(db));
    puts("all is well");
    return 0;
}
