#!/usr/bin/env bash
# The adapters against the crates whose traits they implement: each feature alone, without a standard library, and in a kernel
# with OSTD under QEMU. `ci/test` runs the adapters' own tests. About five minutes on 2 CPUs if nothing is built yet.
#
# Prints `SKIPPED ostd: REASON` where the nightly toolchain of adapters/ostd or QEMU cannot be installed.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/tools.sh" ostd
cd "$(dirname "${BASH_SOURCE[0]}")/.."

for features in '' x86_64 global; do
    cargo clippy --quiet --locked -p pageset-adapters --features "$features" -- -D warnings
done
if rustup target list --installed 2>/dev/null | grep -q '^x86_64-unknown-none$'; then
    cargo check --quiet --locked -p pageset-adapters --features x86_64 --target x86_64-unknown-none
fi

cd adapters/ostd
command -v rustup >/dev/null || skip "there is no rustup to install the nightly toolchain of rust-toolchain.toml"
toolchain=$(sed -n 's/^channel = "\(.*\)"/\1/p' rust-toolchain.toml)
rustup run "$toolchain" cargo clippy --version >/dev/null 2>&1 && [ -d "$(rustup run "$toolchain" rustc --print sysroot)/lib/rustlib/src" ] ||
    rustup toolchain install "$toolchain" --profile minimal -c rust-src -c clippy -t x86_64-unknown-none >/dev/null 2>&1 ||
    skip "the toolchain $toolchain cannot be installed"
cargo clippy --quiet --locked -p pageset-ostd --target x86_64-unknown-none -- -D warnings
need qemu-system-x86_64 qemu-system-x86

said=$(mktemp)
trap 'rm -f "$said"' EXIT
shown='^running [0-9]+ tests in crate|^test result'
boot --cpus 4
boot --cpus 1 --memory 512
