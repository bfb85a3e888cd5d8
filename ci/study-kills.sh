#!/usr/bin/env bash
# A study of 1,000 cells whose workers are killed ten times at random, on this machine. The table has to be the same, byte for byte,
# as that of a run in peace; no finished cell may run twice; and the time above the sum of the cells is printed.
#
# STUDY_CELLS and STUDY_KILLS change the numbers, STUDY_SEED the moments of the kills. PAGESET_BUILT is a folder with a built
# `pageset`; without it, the script builds one.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

cells=${STUDY_CELLS:-1000}
kills=${STUDY_KILLS:-10}
RANDOM=${STUDY_SEED:-$$}
[ -n "${PAGESET_BUILT:-}" ] || cargo build --locked --quiet -p pageset-lab
pageset=$(realpath "${PAGESET_BUILT:-${CARGO_TARGET_DIR:-target}/debug}")/pageset-lab
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

cat >"$dir/study.toml" <<END
machines = ["lkp-sb02"]
workloads = ["page_fault1", "malloc1"]
rules = ["linux-4.17", "pageset"]
tasks = [1, "all"]
seeds = $((cells / 8))
seconds = ${STUDY_SECONDS:-0.05}
warm_up = 0.01
END
mkdir -p "$dir/killed/cells"
finished() {
    find "$dir/killed/cells" -name '*.jsonl' | wc -l
}
"$pageset" study run "$dir/study.toml" --out "$dir/peace" --jobs 2

began=$(date +%s.%N)
# The kills are spread over the study: the next comes when a random number of further cells is finished. An eighth of the cells is
# left for after the last kill, for a study that ends before it is no test.
for ((kill = 1; kill <= kills; kill++)); do
    before=$(finished)
    left=$((cells - cells / 8 - before))
    at=$((before + 1 + RANDOM % (1 + (left > 0 ? 2 * left / (kills + 2 - kill) : 0))))
    "$pageset" study run "$dir/study.toml" --out "$dir/killed" --jobs 2 >/dev/null 2>&1 &
    worker=$!
    while [ "$(finished)" -lt "$at" ] && kill -0 "$worker" 2>/dev/null; do sleep 0.02; done
    kill -0 "$worker" 2>/dev/null || { echo "error: the study ended before kill $kill; try another STUDY_SEED"; exit 1; }
    kill -KILL "$worker"
    wait "$worker" 2>/dev/null || true
    after=$(finished)
    [ "$after" -ge "$before" ] || { echo "error: kill $kill lost finished cells: $before, then $after"; exit 1; }
    echo "kill $kill: $after of $cells cells finished"
done
last=$(finished)
out=$("$pageset" study run "$dir/study.toml" --out "$dir/killed" --jobs 2)
echo "$out"
grep -q "$cells cells: $((cells - last)) finished now $last found 0 failed; " <<<"${out//,/}" || {
    echo "error: finished cells ran again"
    exit 1
}
awk -v began="$began" -v now="$(date +%s.%N)" 'BEGIN { printf "%.1f s with the kills and restarts\n", now - began }'
cmp "$dir/peace/results.parquet" "$dir/killed/results.parquet"
echo "the table of $cells cells is the same after $kills kills"
