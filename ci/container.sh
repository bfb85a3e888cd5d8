#!/usr/bin/env bash
# The image of packaging/Containerfile: `ci/container.sh FOLDER` takes this machine's archive of `ci/release.sh` from there, builds
# the image with Podman, and runs in it what the file's first lines show: a replay, and a recording of this machine's kernel.
# Prints `SKIPPED container: REASON` where Podman cannot be installed.
#
# Images and containers are in a folder of their own, which is removed at the end.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/tools.sh" container
cd "$(dirname "${BASH_SOURCE[0]}")/.."
release=$(realpath "${1:?usage: ci/container.sh FOLDER}")
[[ -d /sys/kernel/tracing/events ]] || skip "a recording takes tracefs in /sys/kernel/tracing"
[[ $(id -u) == 0 ]] || skip "a recording in a container takes root"
# crun refuses the cgroups of some machines, where runc starts.
need podman
need runc
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
podman=(podman --storage-driver vfs --root "$work/images" --runroot "$work/run" --runtime runc)
fail() { cat "$work/said" >&2 && echo "error: $1" >&2 && exit 1; }
# Podman asks for more open files than root may have inside of another container.
run=("${podman[@]}" run --rm --network none --ulimit "nofile=$(ulimit -Hn):$(ulimit -Hn)" --ulimit nproc=1000:1000)

archive=$(compgen -G "$release/pageset-*-$(uname -m)-linux.tar.gz") ||
    { echo "error: no pageset-*-$(uname -m)-linux.tar.gz in $release; try ci/release.sh FOLDER" >&2 && exit 2; }
tar -xf "$archive" -C "$work"
tree=$(compgen -G "$work/pageset-*")
"${podman[@]}" build --quiet --isolation chroot --file packaging/Containerfile --tag pageset "$tree" >/dev/null
echo "image of $("${podman[@]}" image inspect --format '{{.Size}}' pageset | awk '{ printf "%.1f MB", $1 / 1e6 }')"
"${run[@]}" --volume "$PWD/traces:/data:ro" pageset replay sock-q1.events.zst --rules kernel,linux-6.18 >"$work/said" 2>&1 ||
    fail "it does not replay"
grep -q '^ linux-6.18 .* 307,456 ' "$work/said" || fail "a replay with other results"
echo "it replays"
mkdir "$work/data"
"${run[@]}" --privileged --pid host --volume /sys/kernel/tracing:/sys/kernel/tracing --volume "$work/data:/data" pageset \
    record --duration 1s -o my.pstrace >"$work/said" 2>&1 || fail "it does not record"
[[ -s $work/data/my.pstrace ]] || fail "it leaves no recording"
echo "it records"
