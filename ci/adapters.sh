#!/usr/bin/env bash
# The adapters against the crates whose traits they implement: each feature alone, without a standard library, and in a kernel
# with OSTD under QEMU. `ci/test` runs the adapters' own tests. About five minutes on 2 CPUs if nothing is built yet.
#
# Prints `SKIPPED ostd: REASON` where the nightly toolchain of adapters/ostd or QEMU cannot be installed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

for features in '' x86_64 global; do
    cargo clippy --quiet --locked -p pageset-adapters --features "$features" -- -D warnings
done
if rustup target list --installed 2>/dev/null | grep -q '^x86_64-unknown-none$'; then
    cargo check --quiet --locked -p pageset-adapters --features x86_64 --target x86_64-unknown-none
fi

skip() {
    echo "SKIPPED ostd: $1"
    exit 0
}
cd adapters/ostd
command -v rustup >/dev/null || skip "there is no rustup to install the nightly toolchain of rust-toolchain.toml"
toolchain=$(sed -n 's/^channel = "\(.*\)"/\1/p' rust-toolchain.toml)
rustup run "$toolchain" cargo clippy --version >/dev/null 2>&1 && [ -d "$(rustup run "$toolchain" rustc --print sysroot)/lib/rustlib/src" ] ||
    rustup toolchain install "$toolchain" --profile minimal -c rust-src -c clippy -t x86_64-unknown-none >/dev/null 2>&1 ||
    skip "the toolchain $toolchain cannot be installed"
cargo clippy --quiet --locked -p pageset-ostd --target x86_64-unknown-none -- -D warnings
if ! command -v qemu-system-x86_64 >/dev/null; then
    [ "$(id -u)" = 0 ] || skip "QEMU is missing, and installing it takes root"
    command -v apt-get >/dev/null || skip "QEMU is missing, and there is no apt-get"
    { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends qemu-system-x86; } \
        >/dev/null 2>&1 || skip "QEMU cannot be installed"
fi

said=$(mktemp)
trap 'rm -f "$said"' EXIT
boot() {
    echo "== adapters/ostd/run.sh $*"
    ./run.sh "$@" >"$said" 2>&1 || { cat "$said" && exit 1; }
    grep -aE "^running [0-9]+ tests in crate|^test result" "$said"
}
boot --cpus 4
boot --cpus 1 --memory 512
