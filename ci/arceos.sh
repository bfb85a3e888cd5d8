#!/usr/bin/env bash
# Boots ArceOS with adapters/arceos under QEMU, on 4 CPUs and on one. About two minutes on 2 CPUs if nothing is built yet.
#
# Prints `SKIPPED arceos: REASON` where the target x86_64-unknown-none, ArceOS' crates or QEMU cannot be installed.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/tools.sh" arceos
cd "$(dirname "${BASH_SOURCE[0]}")/../adapters/arceos"

rustup target list --installed 2>/dev/null | grep -q '^x86_64-unknown-none$' ||
    rustup target add x86_64-unknown-none >/dev/null 2>&1 || skip "the target x86_64-unknown-none cannot be installed"
cargo fetch --quiet --locked --target x86_64-unknown-none || skip "the crates of adapters/arceos/Cargo.lock cannot be downloaded"
need qemu-system-x86_64 qemu-system-x86

said=$(mktemp)
trap 'rm -f "$said"' EXIT
shown='^(operations|audit|zone)'
boot --cpus 4
boot --cpus 1 --memory 256
