#!/usr/bin/env bash
# Reports in a real browser: see ci/report/check.js and ci/report/frames.js. Says so and does nothing where there is no
# browser, no node or no registry.
#
#   ci/report.sh             checks
#   ci/report.sh --pictures  also writes pictures of reports, target/pictures/report-*.png
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
[[ $# -eq 0 || ($# -eq 1 && $1 == --pictures) ]] || { echo "usage: ci/report.sh [--pictures]" >&2; exit 2; }
for tool in node npm; do
    command -v "$tool" >/dev/null || { echo "report: SKIPPED, no $tool"; exit 0; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if ! command -v chromium >/dev/null && [[ $(id -u) == 0 ]] && command -v apt-get >/dev/null; then
    { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends chromium; } >"$work/apt" 2>&1 || true
fi
command -v chromium >/dev/null || { echo "report: SKIPPED, no chromium; apt-get install chromium"; exit 0; }
cp ci/report/*.js ci/report/package.json ci/report/package-lock.json "$work"
if ! (cd "$work" && npm ci --silent --no-audit --no-fund >npm 2>&1); then
    echo "report: SKIPPED, playwright-core and axe-core are not to be had: $(grep . "$work/npm" | tail -n 1)"
    exit 0
fi

[[ -n ${PAGESET_BUILT:-} ]] || cargo build -q --locked -p pageset-cli -p pageset-lab
pageset=$(realpath "${PAGESET_BUILT:-${CARGO_TARGET_DIR:-target}/debug}")/pageset
make() { # NAME INPUT [-lab]: a page
    "$pageset${3:-}" report "$2" -o "$work/$1.html"
}
"$pageset" replay traces/sock-q1.events.zst --rules kernel,linux-4.17,linux-5.18,linux-6.7,pageset \
    --json="$work/replay.json" >/dev/null 2>"$work/said" || { cat "$work/said" >&2; exit 1; }
"$pageset" advise traces/sock-q1.events.zst --json="$work/advise.json" >/dev/null 2>"$work/said" || { cat "$work/said" >&2; exit 1; }
"$pageset-lab" sim page_fault1 --machine lkp-sb02 --rules linux-4.17,linux-6.18 --tasks 1,4 --duration 20ms --warm-up 0.01 \
    --seeds 3 --json >"$work/run.json" 2>/dev/null
node "$work/looks.js" 40 12 >"$work/looks.json"
node "$work/looks.js" 10001 4 >"$work/frames.json"
make replay "$work/replay.json"
make advise "$work/advise.json"
make run "$work/run.json" -lab
make recording traces/sock-q1.events.zst
make looks "$work/looks.json"
make frames "$work/frames.json"
timeout 300 node "$work/check.js" "$(command -v chromium)" "$work"/{replay,advise,run,recording,looks}.html
timeout 60 node "$work/frames.js" "$(command -v chromium)" "$work/frames.html"
[[ ${1:-} == --pictures ]] || exit 0
pictures=${CARGO_TARGET_DIR:-target}/pictures
mkdir -p "$pictures"
timeout 120 node "$work/pictures.js" "$(command -v chromium)" "$pictures" "$work/replay.html" "$work/looks.html"
