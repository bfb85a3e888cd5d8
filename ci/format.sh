#!/bin/sh
# The form of all Rust code in this repository, that of other workspaces included.
set -eu
cd "$(dirname "$0")/.."
cargo fmt --all --check
for other in engines/vmcache fuzz kernel lab/purgers linux; do
    cargo fmt --manifest-path $other/Cargo.toml --check
done
rustfmt --edition 2024 --check adapters/ostd/src/lib.rs adapters/ostd/test-kernel/build.rs adapters/ostd/test-kernel/src/*.rs \
    adapters/arceos/src/lib.rs adapters/arceos/app/src/main.rs
