#!/usr/bin/env bash
# The charting library of `pageset report`, from the npm registry by name, version and hash.
#
#   ci/vendor-uplot.sh          writes the vendored files anew
#   ci/vendor-uplot.sh --check  compares them with the package; says so and does nothing where there is no npm or registry
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
package=uplot@1.6.32
# The integrity that the registry publishes for this version.
wanted=sha512-KIMVnG68zvu5XXUbC4LQEPnhwOxBuLyW1AHtpm6IKTXImkbLgkMy+jabjLgSLMasNuGGzQm/ep3tOkyTxpiQIw==
vendor=crates/pageset-report/src/page/vendor
mode=${1:-write}
[[ $# -le 1 && ($mode == write || $mode == --check) ]] || { echo "usage: ci/vendor-uplot.sh [--check]" >&2; exit 2; }

skip() {
    [[ $mode == --check ]] || { echo "error: cannot fetch $package: $1" >&2; exit 1; }
    echo "uplot: SKIPPED, $1"
    exit 0
}
command -v npm >/dev/null || skip "no npm"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
npm pack --silent --pack-destination "$work" "$package" >"$work/said" 2>&1 || skip "$package is not to be had: $(tail -n 1 "$work/said")"
got=sha512-$(openssl dgst -sha512 -binary "$work"/uplot-*.tgz | base64 -w 0)
[[ $got == "$wanted" ]] || { echo "error: $package has the hash $got; expected: $wanted" >&2; exit 1; }
tar -xzf "$work"/uplot-*.tgz -C "$work"
for file in dist/uPlot.iife.min.js dist/uPlot.min.css LICENSE; do
    to=$vendor/$(basename "$file")
    [[ $file != LICENSE ]] || to=$vendor/LICENSE-uPlot
    if [[ $mode == --check ]]; then
        cmp "$work/package/$file" "$to" || { echo "help: run ci/vendor-uplot.sh" >&2; exit 1; }
    else
        cp "$work/package/$file" "$to"
        chmod 644 "$to"
    fi
done
echo "uplot: the vendored files are those of $package"
