#!/usr/bin/env bash
# Tests of ci/step.sh in a repository that is thrown away, and of the table of the steps in the documentation.
set -euo pipefail
step=$(realpath "$(dirname "${BASH_SOURCE[0]}")/step.sh")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset CI_ALL
export PAGESET_CI_PASSED=$work/passed PAGESET_CI_TIMES=$work/times
git init --quiet "$work/clone"
cd "$work/clone"
git config user.name test && git config user.email test@localhost
commit() { echo "$2" >"$1" && git add "$1" && git commit --quiet --message "$1"; }
commit lab one
commit core one

# expect RUNS TEXT COMMAND...: the step with the path lab ends as expected, its output has the text, and it ran or did not.
number=0
expect() {
    local runs=$1 text=$2 status=0 ran=no
    shift 2
    number=$((number + 1))
    bash "$step" "the lab" lab -- "$@" >"$work/said" 2>&1 || status=$?
    ! grep -q '^ran$' "$work/said" || ran=yes
    [[ $ran == "$runs" ]] && grep -qF -- "$text" "$work/said" && return
    cat "$work/said" >&2
    echo "error: case $number: expected that the step ran ($runs) and said: $text; status $status" >&2
    exit 1
}
expect yes "no commit is noted" sh -c 'echo ran; exit 3'
expect yes "no commit is noted" sh -c 'echo ran; echo SKIPPED lab: no QEMU'
expect yes "no commit is noted" echo ran
first=$(git rev-parse HEAD)
expect no "it passed at ${first:0:12}, and nothing changed since in lab" echo ran
commit core two
expect no "it passed at ${first:0:12}" echo ran
CI_ALL=1 expect yes "CI_ALL=1" sh -c 'echo ran; exit 3'
echo three >core
expect yes "not committed" echo ran
[[ $(grep -c . "$work/passed") == 1 && $(<"$work/passed") == "$first "*" the lab" ]] || { echo "error: a step noted a commit whose tree had changes" >&2 && exit 1; }
git checkout --quiet core
commit lab two
expect yes "changed since ${first:0:12}: lab" sh -c 'echo ran; exit 3'
expect yes "changed since ${first:0:12}: lab" echo ran
expect no "it passed at $(git rev-parse --short=12 HEAD)" echo ran
# A clone without the commit decides by the hash, and another command is another step.
sed -i 's/^[0-9a-f]*/0123456789012345678901234567890123456789/' "$work/passed"
expect no "it passed at 012345678901" echo ran
expect yes "changed since 012345678901: its command, or files" sh -c 'echo ran'
commit lab three
expect yes "changed since $(git rev-parse --short=12 HEAD~): lab" sh -c 'echo ran'
bash "$step" "another" core -- true >"$work/said"
[[ $(cut -d ' ' -f 3- "$work/passed") == $'another\nthe lab' ]] || { echo "error: notes of two steps: $(<"$work/passed")" >&2 && exit 1; }

fails() {
    local status=$1
    shift
    bash "$step" "$@" >"$work/said" 2>&1 && got=0 || got=$?
    ((got == status)) || { cat "$work/said" >&2 && echo "error: $* ended with $got, not $status" >&2 && exit 1; }
}
fails 0 "the lab" lab
fails 2 "the lab" moved
fails 2 "the lab" moved -- true
grep -q 'no file matches moved' "$work/said"
fails 3 "the lab" -- sh -c 'exit 3'
fails 0 "always" -- sh -c 'i=0; while [ $i -lt 100000 ]; do i=$((i + 1)); done'
grep -q 'runs at each commit' "$work/said"
grep -qE '^-- always: [0-9]+ s, [0-9]+ s of CPU time$' "$work/said"
grep -qE '^[0-9]+ [0-9]+ always$' "$work/times"
grep -q '^- - the lab$' "$work/times"

# docs/contributing/testing.md has a row for each step of .ci/run, in the same order.
root=$(dirname "$step")/..
steps=$(sed -n '/^steps="$/,/^"$/s/ *|.*//p' "$root/.ci/run")
rows=$(sed -n '/^| step |/,/^$/s/^| \([^|]*[^ |]\) *|.*/\1/p' "$root/docs/contributing/testing.md" | sed 1,2d)
diff <(echo "$steps") <(echo "$rows") ||
    { echo "error: the steps of .ci/run (<) and of docs/contributing/testing.md (>) differ" >&2 && exit 1; }
echo "ci/step.sh: $number cases; $(wc -l <<<"$steps") steps are documented"
