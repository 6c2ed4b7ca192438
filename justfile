# Every test
test:
    cargo test --workspace

# What CI runs
ci:
    .ci/run

# The benchmarks of docs/benchmarks.md
bench:
    cargo run --bin fleetdb-bench -- run billing
    cargo run --bin fleetdb-bench -- run edge
    cargo run --bin fleetdb-bench -- run edge --targets fleetdb-edge
    cargo run --bin fleetdb-bench -- run tsbs
    cargo run --bin fleetdb-bench -- run soak bills
    cargo run --bin fleetdb-bench -- run soak many
    cargo run --bin fleetdb-bench -- run soak year

# Fresh seeds of the crash simulator
sim seeds="5000":
    cargo run --bin fleetdb-sim -- --seeds {{seeds}}

# More cases of the model test
model cases="100000":
    FLEETDB_CASES={{cases}} cargo test --workspace --test model

# Makes tests/expected/tsbs.json anew (needs duckdb and pyarrow)
expected:
    python3 tests/expected/make.py ../shared/data > tests/expected/tsbs.json
