# Every test
test:
    cargo test --workspace

# What CI runs
ci:
    .ci/run

# The benchmarks of docs/benchmarks.md
bench:
    cargo run --bin fleetdb-bench -- edge
    cargo run --bin fleetdb-bench -- container
    cargo run --bin fleetdb-bench -- container --settle
    cargo run --bin fleetdb-bench -- resident
    cargo run --bin fleetdb-bench -- queries
    cargo run --bin fleetdb-bench -- bills
    cargo run --bin fleetdb-bench -- many
    cargo run --bin fleetdb-bench -- year

# Fresh seeds of the crash simulator
sim seeds="5000":
    cargo run --bin fleetdb-sim -- --seeds {{seeds}}

# More cases of the model test
model cases="100000":
    FLEETDB_CASES={{cases}} cargo test --workspace --test model

# Makes tests/expected/tsbs.json anew (needs duckdb and pyarrow)
expected:
    python3 tests/expected/make.py ../shared/data > tests/expected/tsbs.json
