#!/bin/sh
# The small protocols between threads under loom: crates/pageset/src/models.rs and crates/pageset-host/src/wait_model_tests.rs. Built
# apart, since every crate is built anew with `--cfg loom`.
set -eu
cd "$(dirname "$0")/.."
RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/loom" \
    cargo test --locked -p pageset -p pageset-host --lib -- models:: wait_model_tests::
