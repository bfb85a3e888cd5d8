#!/usr/bin/env bash
# The module of linux/ in a stock kernel: the comparison with alloc_pages, and a short survival test with planted faults, whose zones
# `pageset top` has to show. Prints `SKIPPED linux: REASON` where packages, QEMU or a nightly toolchain cannot be had.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

bash linux/test.sh
said=$(mktemp)
trap 'rm -f "$said"' EXIT
run() {
    local status=0
    bash linux/run.sh --dir "${LINUX_DIR:-$PWD/target/linux}" "$@" 2>"$said" || status=$?
    ((status != 3)) || { echo "SKIPPED linux: $(sed -n 's/^error: //p' "$said" | tail -n 1)" && exit 0; }
    ((status == 0)) || { cat "$said" >&2 && exit 1; }
}
table=$(run 6.12)
echo "$table"
[[ $table != SKIPPED* ]] || exit 0
grep -q 'than alloc_pages in all [0-9]* cells' <<<"$table" || { echo "error: alloc_pages takes fewer instructions in a cell" && exit 1; }
survived=$(run --survive --operations 500000 6.12)
echo "$survived"
zones=$(sed -n 's/^pageset top --from \(.*\) shows its zones.$/\1/p' <<<"$survived")
top=${PAGESET_BUILT:-$PWD/target/debug}/pageset
[[ -x $top ]] || { echo "SKIPPED the module's zones in pageset top: $top is not built" && exit; }
"$top" top --from "$zones" --once --plain 2>/dev/null | grep -E '^ 0 Normal +[a-z]+ +65,536 ' ||
    { echo "error: pageset top does not show the module's 65,536 pages, from $zones" && exit 1; }
