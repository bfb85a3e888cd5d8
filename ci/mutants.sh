#!/usr/bin/env bash
# Mutation testing of rules, zones, buddy, stores, pagesets and fast path: changes a random sample of places, one at a time, and lists the
# changes that no test of the allocator notices. Needs cargo-mutants (cargo install cargo-mutants --locked). A mutant takes
# more than 100 s on one CPU (28 November 2026), so this is not part of .ci/run.
#
#     ci/mutants.sh [COUNT [SEED]] [OPTION OF CARGO-MUTANTS...]
#
# Results are in mutants.out; missed.txt lists the survivors.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
command -v cargo-mutants >/dev/null || {
    echo "error: cargo-mutants is not installed; try cargo install cargo-mutants --locked" >&2
    exit 3
}
count=200
seed=$RANDOM
case ${1-} in [0-9]*) count=$1 && shift ;; esac
case ${1-} in [0-9]*) seed=$1 && shift ;; esac

files=()
for file in 'policy/[!p]*' 'zone/*' 'zone/*/*' 'buddy/*' 'store/*' 'pcp/*' 'pcp/*/*' 'research/[cr-s]*' alloc/fast alloc/general; do
    files+=(-f "crates/pageset/src/$file.rs")
done

# Tests, and what --all-features does not compile.
files+=(-e '**/tests.rs' -e '**/no_research.rs')

# The same seed gives the same sample of the same code.
stream() { while :; do echo "$seed"; done; }
mapfile -t names < <(cargo mutants -p pageset --list "${files[@]}" | shuf -n "$count" --random-source=<(stream))
echo "== ${#names[@]} mutants, seed $seed"
sample=()
for name in "${names[@]}"; do
    sample+=(-F "^$(printf '%s' "$name" | sed 's/[][\.*^$+?(){}|]/\\&/g')$")
done
# The tests of the crate itself; a mutant that hangs is stopped.
cargo mutants -p pageset --all-features --shuffle --timeout 120 --build-timeout 300 "${files[@]}" "${sample[@]}" \
    --cargo-test-arg=--lib --cargo-test-arg=--test=suite "$@"
