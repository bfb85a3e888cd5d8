#!/usr/bin/env bash
# What the entry points of the allocator cost in each state of a zone, in instructions, counted under valgrind. `ci/states.sh` compares
# with docs/states.txt; `ci/states.sh --write` writes that table anew. A hot call that costs more than three times its best of all states
# must have a reason in crates/pageset/examples/states.rs.
#
# Needs valgrind; says so and does nothing where it is missing, or where the table is from another compiler or processor.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source ci/parallel.sh

# As in ci/costs.sh: a figure may be so much larger.
percent=4
least=4
# The hot calls: a pageset serves them.
hot="alloc free alloc_unmovable free_unmovable alloc_3 free_3 alloc_9 free_9 alloc_non_blocking free_undrained alloc_bulk free_bulk"
calls="$hot free_deferred alloc_4 free_part alloc_direct free_direct alloc_exact free_exact alloc_contig free_contig refill drain tick"

command -v valgrind >/dev/null || { echo "SKIPPED states: no valgrind" && exit 0; }
[[ $(uname -m) == x86_64 ]] || { echo "SKIPPED states: the table is of x86-64" && exit 0; }
golden=docs/states.txt
compiler=$(rustc -V | cut -d' ' -f1,2)
states=${PAGESET_STATES:-}
if [[ -z $states ]]; then
    cargo build --quiet --locked --release -p pageset --features alloc --example states
    states=${CARGO_TARGET_DIR:-target}/release/examples/states
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# count STATE: a line "CALL INSTRUCTIONS" for each call, per call; "-" where the state does not allow it. In the profile a function's part
# begins with "fn="; its lines are "LINE COUNT", and the line after "calls=" counts the callee.
count() {
    valgrind --tool=callgrind --callgrind-out-file="$work/$1.profile" --compress-strings=no --compress-pos=no \
        --toggle-collect='*subject*' "$states" run "$1" >"$work/$1.failed" 2>"$work/$1.said" || { cat "$work/$1.said" >&2 && exit 1; }
    awk -v order="$calls" '
        FILENAME == ARGV[1] { failed[$1]; next }
        /^fn=/ {
            name = ""
            if (match($0, /subject::[a-z_0-9]+/)) name = substr($0, RSTART + 9, RLENGTH - 9)
            next
        }
        /^calls=/ { split($1, part, "="); next }
        /^[0-9+*-]/ && name != "" { all[name] += $NF }
        /^cfn=/ && match($0, /subject::[a-z_0-9]+/) { callee = substr($0, RSTART + 9, RLENGTH - 9) }
        END {
            n = split(order, call, " ")
            for (i = 1; i <= n; i++) print call[i], call[i] in failed || !(call[i] in all) ? "-" : int(all[call[i]] / 48)
        }' "$work/$1.failed" "$work/$1.profile" >"$work/$1.counts"
}

mapfile -t names < <("$states" list)
parallel count "${names[@]}"
for state in "${names[@]}"; do
    awk -v state="$state" '{ line = line " " $2 } END { print state line }' "$work/$state.counts"
done >"$work/rows"
"$states" reasons >"$work/reasons"

# The table has a row for each call and a column for each state would be too wide: a row for each state, and the best of each call.
awk -v order="$calls" -v hot="$hot" -v compiler="$compiler" '
    BEGIN {
        print "# Instructions of one call in each state of a zone. crates/pageset/examples/states.rs says what each state is. A dash: the call"
        print "# fails there. A star: more than three times the best of all states; the reasons follow below. Written by ci/states.sh; " compiler
        n = split(order, call, " ")
        hots = split(hot, is_hot, " ")
    }
    FILENAME ~ /rows$/ {
        states[++count] = $1
        for (i = 1; i <= n; i++) {
            cost[count, i] = $(i + 1)
            if ($(i + 1) != "-" && (!(i in best) || $(i + 1) < best[i])) best[i] = $(i + 1)
        }
        next
    }
    { reasons[++said] = $0 }
    END {
        printf "%-24s", "# state"
        for (i = 1; i <= n; i++) printf " %s", call[i]
        print ""
        for (s = 1; s <= count; s++) {
            printf "%-24s", states[s]
            for (i = 1; i <= n; i++) {
                slow = i <= hots && cost[s, i] != "-" && cost[s, i] > 3 * best[i]
                printf " %*s", length(call[i]), cost[s, i] (slow ? "*" : "")
            }
            print ""
        }
        for (r = 1; r <= said; r++) print "# " reasons[r]
    }' "$work/rows" "$work/reasons" >"$work/measured"

if [[ ${1:-} == --write ]]; then
    cp "$work/measured" "$golden"
    cat "$golden"
fi
awk '
    /^# state / { for (i = 3; i <= NF; i++) call[i - 1] = $i; next }
    /^# [a-z0-9.-]+: / && NR > 3 {
        split($0, part, ": ")
        n = split(part[2], some, " ")
        for (i = 1; i <= n; i++) given[substr(part[1], 3), some[i]]
        next
    }
    /^#/ { next }
    { for (i = 2; i <= NF; i++) if ($i ~ /\*$/) slow[$1, call[i]] }
    END {
        for (at in slow) if (!(at in given)) { split(at, part, SUBSEP); print "error: no reason why " part[2] " is slow in the state " part[1]; wrong = 1 }
        for (at in given) if (!(at in slow)) { split(at, part, SUBSEP); print "error: " part[2] " is not slow in the state " part[1] "; delete the reason"; wrong = 1 }
        exit wrong
    }' "$work/measured"
[[ ${1:-} == --write ]] && exit
cat "$work/measured"
[[ -f $golden ]] || { echo "error: there is no $golden to compare with; ci/states.sh --write writes it" >&2 && exit 1; }
grep -q "$compiler" "$golden" || { echo "SKIPPED the comparison: $golden is not from $compiler" && exit 0; }
awk -v percent="$percent" -v least="$least" '
    /^# state / { for (i = 3; i <= NF; i++) call[i - 1] = $i }
    /^#/ { next }
    # What had a star is text, until it is a number again.
    { for (i = 2; i <= NF; i++) if (sub(/\*/, "", $i)) $i += 0 }
    NR == FNR { for (i = 2; i <= NF; i++) table[$1, i] = $i; next }
    !(($1, 2) in table) { print "error: the state " $1 " is not in the table"; wrong = 1; next }
    {
        for (i = 2; i <= NF; i++) {
            old = table[$1, i]
            most = old + (old * percent / 100 > least ? old * percent / 100 : least)
            if (old != "-" && ($i == "-" || $i > most)) {
                print "error: " call[i] " in the state " $1 " costs " $i " instructions; the table says " old
                wrong = 1
            }
        }
    }
    END {
        if (wrong) print "help: ci/states.sh --write, where that is meant"
        exit wrong
    }' "$golden" "$work/measured"
