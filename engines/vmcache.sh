#!/usr/bin/env bash
# The curves of engines/README.md for vmcache: `engines/vmcache.sh [FOLDER]` measures for about five minutes, and writes vmcache*.csv and
# vmcache*.svg in FOLDER (default: engines). The order of the memories turns around each round.
#
# MS (1200) is how long phase "all" lasts, ROUNDS (3) how often each memory runs, BUDGET_MIB (512) the largest size of the buffers, and
# THREADS ("1 2") the numbers of threads. A memory that this machine does not have is left out, with a line that says why.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
folder=${1:-engines}
cargo build --quiet --locked --release --manifest-path engines/vmcache/Cargo.toml --target-dir "${CARGO_TARGET_DIR:-target}/vmcache"
program=${CARGO_TARGET_DIR:-target}/vmcache/release/pageset-vmcache
lines=$(mktemp)
trap 'rm -f "$lines"' EXIT
names=(pageset pageset-base jemalloc mimalloc mmap pageset-hugetlb)
for ((round = 1; round <= ${ROUNDS:-3}; round++)); do
    for threads in ${THREADS:-1 2}; do
        order=("${names[@]}")
        ((round % 2 == 1)) || mapfile -t order < <(printf '%s\n' "${names[@]}" | tac)
        for name in "${order[@]}"; do
            status=0
            "$program" "$name" "$threads" "${BUDGET_MIB:-512}" "${MS:-1200}" "$round" >>"$lines" || status=$?
            ((status == 0 || status == 3)) || exit "$status"
        done
    done
done
{
    echo memory,round,threads,phase,fixes,ms,cpu_ms,p50_ns,p99_ns,p999_ns,budget_bytes,held_bytes,resident_bytes
    sed -n 's/^phase,//p' "$lines"
} >"$folder/vmcache.csv"
{
    echo memory,round,threads,ms,budget_bytes,held_bytes,resident_bytes
    sed -n 's/^sample,//p' "$lines"
} >"$folder/vmcache-resident.csv"
[[ ${THREADS:-1 2} != "1 2" ]] || python3 engines/vmcache.py "$folder"
