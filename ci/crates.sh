#!/usr/bin/env bash
# Each crate as `cargo publish` sends it, compiled without the rest of the repository: files that are not packed, and versions that
# dependencies lack. The crates that they depend on are those that `cargo doc` has checked.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cargo package --locked --quiet --workspace --no-verify --target-dir "$work/target"
mkdir "$work/crates"
for packed in "$work"/target/package/*.crate; do tar -xzf "$packed" -C "$work/crates"; done
{
    cat Cargo.toml
    echo "[patch.crates-io]"
    for folder in "$work"/crates/*; do
        name=$(basename "$folder")
        echo "${name%-*} = { path = \"crates/$name\" }"
    done
} >"$work/Cargo.toml"
cp Cargo.lock "$work"
cd "$work"
cargo check --quiet --offline --workspace --all-features --target-dir "$target"
echo "$(ls crates | wc -l) crates compile from their packages"
