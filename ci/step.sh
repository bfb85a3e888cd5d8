#!/usr/bin/env bash
# One step of CI: `ci/step.sh NAME [PATH...] -- COMMAND...` runs the command and prints its wall and CPU seconds.
#
# Without paths (git's pathspecs) the step always runs. With paths it runs if a file under them changed since it last passed.
# That is noted in PAGESET_CI_PASSED (ci/passed.txt): commit, hash of the files and of the command, name of the step. The hash
# decides; the commit is for people, and for the name of the file that changed. Commit the notes of a run: a clone on another
# machine then runs only what changed. The step also runs if the tree has changes that are not committed, and if CI_ALL=1 is set.
# The step notes nothing if it fails, or if it prints SKIPPED.
#
# Without a command, only the paths are checked: each must match a file.
#
# PAGESET_CI_TIMES is a file that gets a line for the step: CPU seconds, wall seconds, name.
set -euo pipefail
cd "$(git rev-parse --show-toplevel)"

name=$1 paths=()
shift
while (($#)) && [[ $1 != -- ]]; do paths+=("$1") && shift; done
for path in "${paths[@]}"; do
    [[ -n $(git ls-files -- "$path") ]] ||
        { echo "error: cannot decide whether to run \"$name\": no file matches $path; correct the paths in .ci/run" >&2 && exit 2; }
done
(($#)) || exit 0
shift

notes=${PAGESET_CI_PASSED:-ci/passed.txt}
times=${PAGESET_CI_TIMES:-/dev/null}

clean() { [[ -z $(git status --porcelain -- . ':!ci/passed.txt') ]]; }
hash=$({ git ls-files --stage -- "${paths[@]}" && echo "$@"; } | git hash-object --stdin)
# The fields of the note.
note() { [[ ! -e $notes ]] || awk -v name="$name" '{ commit = $1; hash = $2; sub(/^[^ ]+ [^ ]+ /, "") } $0 == name { print commit, hash }' "$notes"; }
read -r passed passed_hash <<<"$(note)"
# Why the step runs; nothing if it need not run.
reason() {
    ((${#paths[@]})) || { echo "runs at each commit" && return; }
    [[ ${CI_ALL:-} != 1 ]] || { echo "CI_ALL=1" && return; }
    [[ $passed ]] || { echo "no commit is noted at which it passed" && return; }
    clean || { echo "the tree has changes that are not committed" && return; }
    [[ $passed_hash != "$hash" ]] || return 0
    local changed
    changed=$(git diff --name-only "$passed" HEAD -- "${paths[@]}" 2>/dev/null | head -n 1) || true
    echo "changed since ${passed:0:12}: ${changed:-its command, or files}"
}
why=$(reason)
if [[ -z $why ]]; then
    echo "== $name: not run; it passed at ${passed:0:12}, and nothing changed since in ${paths[*]}"
    echo "- - $name" >>"$times"
    exit
fi
echo "== $name ($why)"
said=$(mktemp)
trap 'rm -f "$said"' EXIT
TIMEFORMAT='%R %U %S'
status=0
exec 3>&1
took=$({ time "$@" 2>&1 | tee "$said" >&3; } 2>&1) || status=$?
read -r wall user system <<<"$took"
cpu=$(awk "BEGIN { printf \"%.0f\", $user + $system }")
wall=${wall%.*}
echo "-- $name: $wall s, $cpu s of CPU time"
echo "$cpu $wall $name" >>"$times"
((status == 0)) || { echo "error: step \"$name\" failed: $*" >&2 && exit "$status"; }
if ((${#paths[@]})) && clean && ! grep -q SKIPPED "$said"; then
    {
        [[ ! -e $notes ]] || awk -v name="$name" '{ line = $0; sub(/^[^ ]+ [^ ]+ /, "") } $0 != name { print line }' "$notes"
        echo "$(git rev-parse HEAD) $hash $name"
    } | sort -k 3 >"$said"
    cp "$said" "$notes"
fi
