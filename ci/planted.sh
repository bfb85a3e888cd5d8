#!/bin/sh
# Runs a program with planted errors under a checker of memory: each error must be reported, and the correct program must not be.
#
#     ci/planted.sh "TEXT OF A REPORT" "ERRORS" PROGRAM [RUNNER...]
#
# The program gets the name of an error, or `correct`, as its last argument.
set -eu
report=$1 errors=$2 program=$3
shift 3
out=$(mktemp)
trap 'rm -f "$out"' EXIT
fail() {
    cat "$out"
    echo "error: $1" >&2
    exit 1
}
"$@" "$program" correct >"$out" 2>&1 || fail "the correct program was reported, or failed"
for planted in $errors; do
    if "$@" "$program" "$planted" >"$out" 2>&1; then
        fail "$planted was not reported"
    fi
    grep -q "$report" "$out" || fail "$planted failed without a report that contains: $report"
    echo "reported: $planted"
done
