/* Samples a sensor at 1 kHz, writes the rows twice a second, and prints the newest row and the totals.
 *
 *     cc sampler.c -lfleetdb -o sampler && ./sampler DIRECTORY [SAMPLES]
 *
 * With -I and -L for the folders of fleetdb.h and of the library, if the compiler does not know them. */
#define _POSIX_C_SOURCE 200809L
#include <fleetdb.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static int check(int result) {
    if (result == FLEETDB_OK || result == FLEETDB_ROW || result == FLEETDB_DONE) return result;
    const char *sqlstate, *message = fleetdb_error_message(&sqlstate);
    fprintf(stderr, "sampler: %s (%s)\n", message, sqlstate);
    exit(1);
}

static double read_sensor(int64_t sample) { return 20.0 + (double)(sample % 100) / 10.0; }

static int64_t microseconds(struct timespec time) {
    return (int64_t)time.tv_sec * 1000000 + time.tv_nsec / 1000;
}

int main(int count, char **arguments) {
    int64_t samples = count > 2 ? strtoll(arguments[2], NULL, 10) : 10000;
    fleetdb *db;
    fleetdb_statement *rows, *last;
    check(fleetdb_open(count > 1 ? arguments[1] : "sampler-data", "profile=edge durability=interval", &db));
    check(fleetdb_exec(db, "CREATE TABLE IF NOT EXISTS samples (device BIGINT, ts TIMESTAMP(6), celsius DOUBLE,"
                           " PRIMARY KEY (device, ts))", NULL));
    check(fleetdb_rows_begin(db, &rows));

    struct timespec next, now;
    clock_gettime(CLOCK_MONOTONIC, &next);
    clock_gettime(CLOCK_REALTIME, &now);
    const int64_t start = microseconds(now);
    for (int64_t sample = 0; sample < samples; sample++) {
        fleetdb_value row[] = {fleetdb_integer(7), fleetdb_integer(start + sample * 1000),
                               fleetdb_real(read_sensor(sample))};
        check(fleetdb_rows_push(rows, "samples", row, 3));
        if (sample % 500 == 499) check(fleetdb_rows_commit(rows));
        next.tv_nsec += 1000000;
        if (next.tv_nsec >= 1000000000) next.tv_sec++, next.tv_nsec -= 1000000000;
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL)) {}
    }
    check(fleetdb_rows_commit(rows));
    check(fleetdb_finalize(rows));

    const fleetdb_value key[] = {fleetdb_integer(7)};
    fleetdb_value value;
    const char *name;
    check(fleetdb_last(db, "samples", key, 1, &last));
    if (check(fleetdb_step(last)) == FLEETDB_ROW) {
        check(fleetdb_column(last, 2, &value, &name));
        printf("newest %s: %.1f\n", name, value.as.real);
    }
    check(fleetdb_finalize(last));
    fleetdb_totals totals;
    check(fleetdb_aggregate(db, "samples", key, 1, "celsius", start, INT64_MAX, &totals));
    printf("%" PRId64 " samples, %.1f to %.1f, mean %.3f\n", totals.count, totals.minimum, totals.maximum,
           totals.sum / (double)totals.count);
    return check(fleetdb_close(db));
}
