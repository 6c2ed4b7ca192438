// Tests pgx with a FleetDB server: go run . PORT
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

func check(err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func main() {
	all := context.Background()
	db, err := pgx.Connect(all, "postgres://me@127.0.0.1:"+os.Args[1]+"/fleetdb?sslmode=disable")
	check(err)
	defer db.Close(all)
	_, err = db.Exec(all, "CREATE TABLE pgx (id BIGINT, ts TIMESTAMP, kwh DOUBLE, note TEXT, PRIMARY KEY (id, ts))")
	check(err)
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	tx, err := db.Begin(all)
	check(err)
	for hour := range 20 {
		ts := start.Add(time.Duration(hour) * time.Hour)
		_, err = tx.Exec(all, "INSERT INTO pgx VALUES ($1, $2, $3, $4)", 7, ts, float64(hour)*0.5, fmt.Sprint("hour ", hour))
		check(err)
	}
	// A nested transaction is a savepoint.
	inner, err := tx.Begin(all)
	check(err)
	_, err = inner.Exec(all, "INSERT INTO pgx VALUES (9, $1, 1, NULL)", start)
	check(err)
	check(inner.Rollback(all))
	check(tx.Commit(all))
	var nines int
	check(db.QueryRow(all, "SELECT count(*) FROM pgx WHERE id = 9").Scan(&nines))
	if nines != 0 {
		check(fmt.Errorf("%d rows were rolled back to a savepoint", nines))
	}
	reading, err := db.BeginTx(all, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	check(err)
	_, err = reading.Exec(all, "INSERT INTO pgx VALUES (9, $1, 1, NULL)", start)
	var readOnly *pgconn.PgError
	if !errors.As(err, &readOnly) || readOnly.Code != "25006" {
		check(fmt.Errorf("a transaction that only reads writes: %v", err))
	}
	check(reading.Rollback(all))
	// The statements of a batch are sent together.
	batch := &pgx.Batch{}
	for hour := range 20 {
		batch.Queue("INSERT INTO pgx VALUES ($1, $2, $3, NULL)", 8, start.Add(time.Duration(hour)*time.Hour), 1.0)
	}
	check(db.SendBatch(all, batch).Close())
	rows, err := db.Query(all, "SELECT ts, kwh, note FROM pgx WHERE id = $1 ORDER BY ts", 7)
	check(err)
	sum, count := 0.0, 0
	for rows.Next() {
		var ts time.Time
		var kwh float64
		var note *string
		check(rows.Scan(&ts, &kwh, &note))
		if !ts.Equal(start.Add(time.Duration(count)*time.Hour)) || *note != fmt.Sprint("hour ", count) {
			check(fmt.Errorf("row %d is %v %v", count, ts, *note))
		}
		sum, count = sum+kwh, count+1
	}
	check(rows.Err())
	if count != 20 || sum != 95 {
		check(fmt.Errorf("%d rows with the sum %v", count, sum))
	}
	var refused *pgconn.PgError
	if _, err = db.Exec(all, "SELECT nothing FROM pgx"); !errors.As(err, &refused) || refused.Code[:2] != "42" {
		check(fmt.Errorf("a wrong statement: %v", err))
	}
	// Rows in COPY's binary form.
	many := make([][]any, 10_000)
	for row := range many {
		many[row] = []any{int64(9), start.Add(time.Duration(row) * time.Minute), float64(row), nil}
	}
	columns := []string{"id", "ts", "kwh", "note"}
	copied, err := db.CopyFrom(all, pgx.Identifier{"pgx"}, columns, pgx.CopyFromRows(many))
	check(err)
	var there int64
	check(db.QueryRow(all, "SELECT count(*) FROM pgx WHERE id = 9 AND note IS NULL").Scan(&there))
	if copied != 10_000 || there != 10_000 {
		check(fmt.Errorf("%d rows were copied, %d are there", copied, there))
	}
	// An array as a single parameter; the server infers the types of an UPDATE's parameters.
	changed, err := db.Exec(all, "UPDATE pgx SET kwh = kwh + $1 WHERE id = ANY($2) AND note = ANY($3)", 0.25, []int64{7, 8}, []string{"hour 1", "hour 2"})
	check(err)
	var first float64
	check(db.QueryRow(all, "SELECT sum(kwh) FROM pgx WHERE id = ANY($1) AND ts < $2::timestamp + $3", []int32{7}, start, 3*time.Hour).Scan(&first))
	if changed.RowsAffected() != 2 || first != 2 {
		check(fmt.Errorf("%d rows were changed, their sum is %f", changed.RowsAffected(), first))
	}
	// RETURNING returns what was written.
	var written time.Time
	var kwh float64
	returning := "INSERT INTO pgx (id, ts, kwh) VALUES ($1, $2, $3) RETURNING ts, kwh"
	check(db.QueryRow(all, returning, 10, start, 2.5).Scan(&written, &kwh))
	if !written.Equal(start) || kwh != 2.5 {
		check(fmt.Errorf("%v and %f were written", written, kwh))
	}
	// Parameters of a table function.
	var series int64
	check(db.QueryRow(all, "SELECT count(*) FROM generate_series($1::timestamp, $2::timestamp, INTERVAL '1 hour')", start, start.Add(9*time.Hour)).Scan(&series))
	if series != 10 {
		check(fmt.Errorf("%d hours", series))
	}
	triesAgain(all, db)
	fmt.Println("all is well")
}

// Increments counters in transactions that conflict with another connection, and retries: no increment of either row is lost.
func triesAgain(all context.Context, db *pgx.Conn) {
	other, err := pgx.Connect(all, "postgres://me@127.0.0.1:"+os.Args[1]+"/fleetdb?sslmode=disable")
	check(err)
	defer other.Close(all)
	for _, statement := range []string{"CREATE TABLE pgx_counters (id BIGINT PRIMARY KEY, v BIGINT)", "INSERT INTO pgx_counters VALUES (1, 0), (2, 0)"} {
		_, err = db.Exec(all, statement)
		check(err)
	}
	add := "UPDATE pgx_counters SET v = v + 1 WHERE id = $1"
	refused := 0
	for done := 0; done < 10; {
		err = pgx.BeginFunc(all, db, func(tx pgx.Tx) error {
			for _, id := range []int64{1, 2} {
				if _, err := tx.Exec(all, add, id); err != nil {
					return err
				}
			}
			if refused == done {
				_, err := other.Exec(all, add, 1)
				return err
			}
			return nil
		})
		var failed *pgconn.PgError
		if errors.As(err, &failed) && failed.Code == "40001" {
			refused++
		} else {
			check(err)
			done++
		}
		if status := db.PgConn().TxStatus(); status != 'I' {
			check(fmt.Errorf("status %c behind the end of a transaction", status))
		}
	}
	var most, least int64
	check(db.QueryRow(all, "SELECT max(v), min(v) FROM pgx_counters").Scan(&most, &least))
	if most != 20 || least != 10 || refused != 10 {
		check(fmt.Errorf("%d and %d after %d refusals", most, least, refused))
	}
}
