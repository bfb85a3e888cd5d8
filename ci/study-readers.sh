#!/usr/bin/env bash
# Reads a study's table with DuckDB, pandas and Polars, and checks its manifest against the schema of Kubernetes: see
# ci/study-readers.py. The packages come from PyPI, into a folder that is removed. Prints `SKIPPED` without python3, or if pip
# cannot install the packages.
# PAGESET_BUILT is a folder with a built `pageset`; without it, the script builds one.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
command -v python3 >/dev/null || { echo "study readers: SKIPPED, no python3"; exit 0; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
packages=(duckdb==2.0.1 pandas==3.1.1 polars==2.1.0 pyarrow==26.0.1 kubernetes-validate==1.37.0)
if ! { python3 -m venv "$work/python" && "$work/python/bin/pip" install --quiet "${packages[@]}"; } >"$work/said" 2>&1; then
    echo "study readers: SKIPPED, cannot install ${packages[*]}: $(grep . "$work/said" | tail -n 1)"
    exit 0
fi

[ -n "${PAGESET_BUILT:-}" ] || cargo build --locked --quiet -p pageset-lab
pageset=$(realpath "${PAGESET_BUILT:-${CARGO_TARGET_DIR:-target}/debug}")/pageset-lab
cat >"$work/study.toml" <<'EOF'
machines = ["lkp-sb02", "lkp-hsw-d01"]
workloads = ["page_fault1", "af-unix"]
rules = ["linux-4.17"]
tasks = [1, 2]
seconds = 0.01
warm_up = 0.01

[set]
batch = [31, 63]
EOF
"$pageset" study run "$work/study.toml" --out "$work/results" >"$work/said" 2>&1 || { cat "$work/said" >&2; exit 1; }
"$pageset" study run "$work/study.toml" --out shared --executor kubernetes --image pageset:0.1 --claim shared --dry-run \
    >"$work/manifest.json"
"$work/python/bin/python" ci/study-readers.py "$work/results/results.parquet" "$work/manifest.json" 16
