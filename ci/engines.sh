#!/usr/bin/env bash
# Real engines on the library: a buffer manager, and SQLite's page cache. Prints `SKIPPED ENGINES: REASON` where the source package of SQLite or a tool is
# missing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The buffer manager ends with 1 if a page has wrong content or a frame is lost. Short phases, no picture.
MS=200 ROUNDS=1 BUDGET_MIB=64 THREADS=2 bash engines/vmcache.sh "$work"
for memory in pageset pageset-base jemalloc mimalloc mmap; do
    grep -q "^$memory,1,2,tenth," "$work/vmcache.csv" || { echo "error: the buffer manager did not run on $memory" >&2 && exit 1; }
done
echo "The buffer manager's pages have the right content, and no frame is lost"

to=${CARGO_TARGET_DIR:-target}/engines
status=0
said=$(bash engines/build.sh "$to" 2>&1) || status=$?
((status != 3)) || { echo "SKIPPED ENGINES: $said" && exit; }
((status == 0)) || { echo "$said" >&2 && exit "$status"; }
"$to/test" "$work"

# SQLite's speed test reads the same with its own cache and with ours.
hash_of() { rm -f "$work"/speed.db* && "$@" "$to/speedtest1" --size 5 --cachesize 100 --verify "$work/speed.db" | grep '^Verification Hash'; }
own=$(hash_of env)
ours=$(hash_of env PAGESET_PCACHE_MIB=64)
[[ $own == "$ours" ]] || { echo "error: SQLite's speed test reads $ours with our page cache, and $own with its own" >&2 && exit 1; }
echo "SQLite's speed test: $ours"
