#!/usr/bin/env bash
# What the entry points of the allocator cost, counted: instructions, atomic ones and cache lines written under valgrind, and locks
# taken. `ci/costs.sh` compares with docs/costs.txt; `ci/costs.sh --write` writes that table anew. Before that it tests that
# 512 GiB come online in less than 100 ms of CPU time, at the start and at run time.
#
# Needs valgrind and binutils; says so and does nothing where one is missing. Instructions differ between compilers: the table says
# which one it is from, and with another the comparison is left out.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source ci/parallel.sh

# A figure may be so much larger: the compiler lays code out anew when something next to it changes. In per cent, and at
# least this many instructions. A guess at what is no news.
percent=4
least=2

cargo build --quiet --locked --release -p pageset --features alloc --example costs --example online
# The best of three: other work takes caches and memory.
"${CARGO_TARGET_DIR:-target}/release/examples/online" | awk '
    { print }
    / online / { what = / run time / ? 1 : 0; if (!(what in best) || $(NF - 1) < best[what]) best[what] = $(NF - 1) }
    END { if (!(0 in best) || !(1 in best) || best[0] >= 100 || best[1] >= 100) { print "error: 512 GiB do not come online in 100 ms"; exit 1 } }'
command -v valgrind >/dev/null || { echo "SKIPPED costs: no valgrind" && exit 0; }
command -v objdump >/dev/null || { echo "SKIPPED costs: no objdump (binutils)" && exit 0; }
[[ $(uname -m) == x86_64 ]] || { echo "SKIPPED costs: atomic instructions are known for x86-64 only" && exit 0; }
golden=docs/costs.txt
compiler=$(rustc -V | cut -d' ' -f1,2)
costs=${CARGO_TARGET_DIR:-target}/release/examples/costs
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
measured=$work/measured

# The addresses of atomic instructions: those with a lock prefix, and exchanges with memory. Then the fences.
objdump -d --no-show-raw-insn "$costs" |
    awk '$2 == "lock" || $2 == "mfence" || ($2 ~ /^xchg/ && /\(/) { sub(":", "", $1); print $1 }' >"$work/atomic"
# Valgrind loads the program at the same place each time.
mark=$(valgrind --quiet --tool=none "$costs" mark | sed 's/^0x//')

# instructions NAME: all instructions of the counted functions, and the atomic ones. The profile has a line "0xADDRESS LINE COUNT" for
# each; the line after "calls=" counts the callee once more.
instructions() {
    valgrind --tool=callgrind --callgrind-out-file="$work/$1.profile" --dump-instr=yes --compress-pos=no \
        --toggle-collect='*subject_*' "$costs" run "$1" >"$work/$1.said" 2>&1
    awk '
        NR == FNR { atomic["0x" $1]; next }
        /^calls=/ { getline; next }
        /^0x/ { all += $3; if ($1 in atomic) atomics += $3 }
        END { print all, atomics + 0 }' "$work/atomic" "$work/$1.profile"
}

# lines NAME: the number of counted calls, and the cache lines that they write, without those of the stack. A line counts once for each
# call. The trace has "S ADDRESS,SIZE" for a write, and "M" for a change in place.
lines() {
    valgrind --tool=lackey --trace-mem=yes --log-fd=9 "$costs" lines "$1" 9>&1 >"$work/$1.calls" |
        awk -v mark="$mark" '
            function number(hex,    i, n) {
                for (i = 1; i <= length(hex); i++) n = n * 16 + index("0123456789abcdef", substr(hex, i, 1)) - 1
                return n
            }
            $1 != "S" && $1 != "M" { next }
            {
                split($2, part, ",")
                sub(/^0*/, "", part[1])
            }
            part[1] == mark { inside = !inside; split("", seen); next }
            # The stack of the first thread.
            !inside || part[1] ~ /^1ff/ && length(part[1]) == 10 { next }
            {
                at = number(part[1])
                for (line = int(at / 64); line <= int((at + part[2] - 1) / 64); line++)
                    if (!(line in seen)) { seen[line]; written++ }
            }
            END { print written + 0 }' >"$work/$1.written"
    echo "$(cat "$work/$1.calls") $(cat "$work/$1.written")"
}

# row NAME: the row of the table, into a file.
row() {
    local calls locks instructions atomics traced written
    read -r calls locks < <("$costs" locks "$1")
    read -r instructions atomics < <(instructions "$1")
    read -r traced written < <(lines "$1")
    awk -v name="$1" -v instructions="$instructions" -v atomics="$atomics" -v calls="$calls" -v locks="$locks" \
        -v traced="$traced" -v written="$written" 'BEGIN {
            printf "%-20s %12d %7s %6s %6s\n", name, instructions / calls, sprintf("%.3g", atomics / calls),
                sprintf("%.3g", locks / calls), sprintf("%.3g", written / traced)
        }' >"$work/$1.row"
}

mapfile -t names < <("$costs" list)
parallel row "${names[@]}"
{
    echo "# Instructions, atomic instructions, locks taken and cache lines written of one call under the default rules, on one CPU with one"
    echo "# zone of 4 GiB. In the first column a function of its own is entered and left; the line harness is that alone. The stack's lines"
    echo "# do not count; the line of the result does in the names with half. Written by ci/costs.sh; $compiler"
    printf '%-20s %12s %7s %6s %6s\n' "# call" instructions atomics locks lines
    for name in "${names[@]}"; do cat "$work/$name.row"; done
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
    NR == FNR { for (i = 2; i <= 5; i++) table[$1, i] = $i; next }
    !(($1, 2) in table) { print "error: " $1 " is not in the table"; wrong = 1; next }
    {
        most = table[$1, 2] + (table[$1, 2] * percent / 100 > least ? table[$1, 2] * percent / 100 : least)
        # Atomics, locks and lines do not depend on the compiler. A line more may come from a value that crosses one.
        if ($2 > most || $3 > table[$1, 3] * 1.02 || $4 > table[$1, 4] * 1.02 || $5 > table[$1, 5] * 1.02 + 0.1) {
            print "error: " $1 " costs " $2 " instructions, " $3 " atomics, " $4 " locks and " $5 " lines; the table says " \
                table[$1, 2] ", " table[$1, 3] ", " table[$1, 4] " and " table[$1, 5]
            wrong = 1
        }
    }
    END {
        if (wrong) print "help: ci/costs.sh --write, where that is meant"
        exit wrong
    }' "$golden" "$measured"
