#!/usr/bin/env bash
# The global allocator under programs that were not written for it: a compiler, an interpreter with four threads, a parallel sort, and
# this repository's own replay, preloaded with crates/pageset-adapters/examples/preload.rs. Each must compute byte for byte what it
# computes under the system's allocator, and the pool must be consistent at its end. Says so where a program is not installed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
[[ $(getconf GNU_LIBC_VERSION 2>/dev/null) ]] || { echo "SKIPPED preload: the C library is not glibc" && exit 0; }
# A selection of the whole workspace, so that the crates of the tests' build serve.
cargo build --quiet --locked --workspace --all-features --example preload --bin pageset
built=${PAGESET_BUILT:-${CARGO_TARGET_DIR:-target}/debug}
library=$(realpath "$built/examples/libpreload.so")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# compare NAME LEAST COMMAND...: runs the command with both allocators; it writes to standard output. The allocator must have been called at
# least LEAST times by one of its processes.
compare() {
    local name=$1 least=$2
    shift 2
    command -v "$1" >/dev/null || { echo "SKIPPED preload $name: no $1" && return; }
    "$@" >"$work/system" || { echo "error: $name fails under the system's allocator" >&2 && exit 1; }
    rm -f "$work/report"
    LD_PRELOAD=$library PAGESET_PRELOAD_REPORT=$work/report "$@" >"$work/pool" ||
        { echo "error: $name fails on the pool" >&2 && exit 1; }
    cmp "$work/system" "$work/pool" || { echo "error: $name computes something else on the pool" >&2 && exit 1; }
    [[ -s $work/system && -s $work/report ]] || { echo "error: $name did not run on the pool" >&2 && exit 1; }
    # The words from the end: the name of a program may have spaces.
    awk -v name="$name" -v least="$least" -v bytes="$(wc -c <"$work/system")" '
        { calls = $(NF - 6); if (calls + 0 > most) { most = calls + 0; line = $0 } }
        END {
            print name ": " bytes " bytes are the same, " NR " processes, the largest: " line
            if (most < least) { print "error: " name " called the allocator " most " times, not " least; exit 1 }
        }' "$work/report"
}

compile() {
    rm -f "$work/$1.o"
    cc -std=c11 -D_POSIX_C_SOURCE=200809L -O2 -g -I crates/pageset-c/include -c "crates/pageset-c/tests/$1.c" -o "$work/$1.o"
    cat "$work/$1.o"
}
export -f compile
export work
if ! command -v cc >/dev/null; then echo "SKIPPED preload a compiler: no cc"; else compare "a compiler" 10000 bash -ec 'for source in bad_use features for_programs; do compile "$source"; done'; fi

cat >"$work/threads.py" <<'PYTHON'
import hashlib, json, random, re, zlib
from concurrent.futures import ThreadPoolExecutor

def work(seed):
    numbers = random.Random(seed)
    rows = [{"id": n, "name": "page %d" % numbers.randrange(10**9), "parts": [numbers.random() for _ in range(n % 40)]}
            for n in range(3000)]
    text = json.dumps(rows)
    words = sorted(re.findall(r"[0-9a-z.]+", text))
    packed = zlib.compress(text.encode(), 6)
    assert json.loads(zlib.decompress(packed)) == rows
    return hashlib.sha256(packed + " ".join(words).encode()).hexdigest()

with ThreadPoolExecutor(4) as pool:
    print("\n".join(pool.map(work, range(8))))
PYTHON
# Objects of each size from the C library's functions, not from Python's own arenas.
PYTHONMALLOC=malloc PYTHONHASHSEED=1 compare "an interpreter with four threads" 1000000 python3 "$work/threads.py"

seq 1 300000 | awk '{ print ($1 * 7919) % 1000003, $1 }' >"$work/numbers"
LC_ALL=C compare "a parallel sort" 10 sort --parallel=4 -S 8M -n "$work/numbers"
compare "a replay" 10000 "$built/pageset" replay traces/sock-q1.events.zst
