#!/usr/bin/env bash
# One step of CI: `ci/step.sh NAME [PATH...] -- COMMAND...` runs the command and prints its wall and CPU seconds.
#
# Without paths (git's pathspecs) the step always runs. With paths it runs if a file under them changed since the commit at
# which it last passed. That commit is in a file of the step's name, in PAGESET_CI_STATE (~/.cache/pageset-ci), outside the clone.
# The step also runs if that file is missing, if the clone does not have that commit, if the tree has changes that are not
# committed, and if CI_ALL=1 is set. The step notes nothing if it fails, or if it prints SKIPPED.
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

note=${PAGESET_CI_STATE:-${XDG_CACHE_HOME:-$HOME/.cache}/pageset-ci}/${name// /-}
times=${PAGESET_CI_TIMES:-/dev/null}

clean() { [[ -z $(git status --porcelain) ]]; }
# Why the step runs; nothing if it need not run.
reason() {
    ((${#paths[@]})) || { echo "runs at each commit" && return; }
    [[ ${CI_ALL:-} != 1 ]] || { echo "CI_ALL=1" && return; }
    [[ -s $note ]] || { echo "no commit is noted at which it passed" && return; }
    passed=$(<"$note")
    git cat-file -e "$passed^{commit}" 2>/dev/null || { echo "it passed at $passed, which is not in this clone" && return; }
    clean || { echo "the tree has changes that are not committed" && return; }
    local changed
    changed=$(git diff --name-only "$passed" HEAD -- "${paths[@]}")
    [[ -z $changed ]] || echo "changed since ${passed:0:12}: $(head -n 1 <<<"$changed")"
}
why=$(reason)
if [[ -z $why ]]; then
    echo "== $name: not run; it passed at $(cut -c-12 "$note"), and nothing changed since in ${paths[*]}"
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
    mkdir -p "$(dirname "$note")"
    git rev-parse HEAD >"$note"
fi
