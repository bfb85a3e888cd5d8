#!/usr/bin/env bash
# What the entry points of the allocator cost, counted: instructions under valgrind, and locks taken, which are the atomic
# exchanges. `ci/costs.sh` compares with docs/costs.txt; `ci/costs.sh --write` writes that table anew.
#
# Needs valgrind; says so and does nothing where there is none. Instructions differ between compilers: the table says which
# one it is from, and with another the comparison is left out.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# A figure may be so much larger: the compiler lays code out anew when something next to it changes. In per cent, and at
# least this many instructions. A guess at what is no news.
percent=4
least=2

command -v valgrind >/dev/null || { echo "SKIPPED costs: no valgrind" && exit 0; }
golden=docs/costs.txt
compiler=$(rustc -V | cut -d' ' -f1,2)
cargo build --quiet --locked --release -p pageset --features alloc --example costs
costs=${CARGO_TARGET_DIR:-target}/release/examples/costs
measured=$(mktemp)
trap 'rm -f "$measured"' EXIT

instructions() {
    valgrind --tool=callgrind --callgrind-out-file=/dev/null --toggle-collect='*subject_*' "$costs" run "$1" 2>&1 |
        sed -n 's/.*Collected : //p'
}

{
    echo "# Instructions and locks of one call under the default rules, on one CPU with one zone of 4 GiB. In the first column a"
    echo "# function of its own is entered and left; the line harness is that alone. Written by ci/costs.sh; $compiler"
    printf '%-16s %12s %6s\n' "# call" instructions locks
    for name in $("$costs" list); do
        read -r calls locks < <("$costs" locks "$name")
        awk -v name="$name" -v instructions="$(instructions "$name")" -v calls="$calls" -v locks="$locks" \
            'BEGIN { printf "%-16s %12d %6s\n", name, instructions / calls, sprintf("%.3g", locks / calls) }'
    done
} >"$measured"

if [[ ${1:-} == --write ]]; then
    cp "$measured" "$golden"
    cat "$golden"
    exit
fi
cat "$measured"
[[ -f $golden ]] || { echo "error: there is no $golden to compare with; ci/costs.sh --write writes it" >&2 && exit 1; }
grep -q "$compiler" "$golden" || { echo "SKIPPED the comparison: $golden is not from $compiler" && exit 0; }
awk -v percent="$percent" -v least="$least" '
    /^#/ { next }
    NR == FNR { instructions[$1] = $2; locks[$1] = $3; next }
    {
        most = instructions[$1] + (instructions[$1] * percent / 100 > least ? instructions[$1] * percent / 100 : least)
        if (!($1 in instructions)) { print "error: " $1 " is not in the table"; wrong = 1; next }
        if ($2 > most || $3 > locks[$1] * 1.02) {
            print "error: " $1 " costs " $2 " instructions and " $3 " locks; the table says " instructions[$1] " and " locks[$1]
            wrong = 1
        }
    }
    END {
        if (wrong) print "help: ci/costs.sh --write, where that is meant"
        exit wrong
    }' "$golden" "$measured"
