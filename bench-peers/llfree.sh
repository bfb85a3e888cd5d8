#!/usr/bin/env bash
# LLFree's own benchmarks with a pool of pageset as one more allocator.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

usage='usage: llfree.sh CHECKOUT ARGUMENT...

CHECKOUT is a checkout of https://github.com/luhsra/llfree-rs, which stays as it is. The arguments are those of its benchmark
program: a benchmark (bulk, repeat, rand) and allocators (LLFree, pageset, pageset-lists), then options, as in

  llfree.sh ~/llfree-rs bulk LLFree pageset -x 1 -x 2 -t 2 -s 0 -s 3 -m 4 -o out.csv

The result is CSV, in ns per call: for bulk and rand `get_avg` and `put_avg`, for repeat a pair of calls.'

(($# > 1)) || { echo "$usage" >&2 && exit 2; }
[ -f "$1/eval/src/bin/bench.rs" ] || { echo "error: $1 is no checkout of LLFree: it has no eval/src/bin/bench.rs" >&2 && exit 2; }
copy=${CARGO_TARGET_DIR:-$here/target}/llfree
mkdir -p "$copy"
cp -r "$1/Cargo.toml" "$1/README.md" "$1/core" "$1/eval" "$copy"
sed -i "/^\[dependencies\]/a pageset = { path = \"$here/../crates/pageset\" }\npageset-host = { path = \"$here/../crates/pageset-host\" }" "$copy/eval/Cargo.toml"
sed -i -e "s|^static CORES|#[path = \"$here/llfree/peer.rs\"]\nmod pageset_peer;\n\n&|" \
    -e 's|^    panic!("Unknown allocator.*|    if let Some(pool) = pageset_peer::new(name, zone.len()) {\n        return pool;\n    }\n&|' \
    "$copy/eval/src/bin/bench.rs"
grep -q "pageset_peer::new" "$copy/eval/src/bin/bench.rs" ||
    { echo "error: this version of LLFree's benchmark has another form; the last known to fit is 441c8d1" >&2 && exit 1; }
shift
cargo run --quiet --release --manifest-path "$copy/Cargo.toml" -p llfree-eval --bin bench -- "$@"
