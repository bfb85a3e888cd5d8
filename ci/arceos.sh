#!/usr/bin/env bash
# Boots ArceOS with adapters/arceos under QEMU, on 4 CPUs and on one. About two minutes on 2 CPUs if nothing is built yet.
#
# Prints `SKIPPED arceos: REASON` where the target x86_64-unknown-none, ArceOS' crates or QEMU cannot be installed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../adapters/arceos"

skip() {
    echo "SKIPPED arceos: $1"
    exit 0
}
rustup target list --installed 2>/dev/null | grep -q '^x86_64-unknown-none$' ||
    rustup target add x86_64-unknown-none >/dev/null 2>&1 || skip "the target x86_64-unknown-none cannot be installed"
cargo fetch --quiet --locked --target x86_64-unknown-none || skip "the crates of adapters/arceos/Cargo.lock cannot be downloaded"
if ! command -v qemu-system-x86_64 >/dev/null; then
    [ "$(id -u)" = 0 ] || skip "QEMU is missing, and installing it takes root"
    command -v apt-get >/dev/null || skip "QEMU is missing, and there is no apt-get"
    { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends qemu-system-x86; } \
        >/dev/null 2>&1 || skip "QEMU cannot be installed"
fi

said=$(mktemp)
trap 'rm -f "$said"' EXIT
boot() {
    echo "== adapters/arceos/run.sh $*"
    ./run.sh "$@" >"$said" 2>&1 || { cat "$said" && exit 1; }
    grep -aE "^(operations|audit|zone)" "$said"
}
boot --cpus 4
boot --cpus 1 --memory 256
