#!/usr/bin/env bash
# Static binaries in the root file systems of three distributions: `ci/distributions.sh FOLDER` takes the archives of
# `ci/release.sh` from there. In each root file system the command starts, replays a recording and writes a report. The binary for
# aarch64 does the same in QEMU's user mode. Prints `SKIPPED distributions: REASON` where the file systems cannot be had.
#
# Three releases of Debian stand for distributions: their C libraries are 2.31, 2.36 and 2.41.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/tools.sh" distributions
cd "$(dirname "${BASH_SOURCE[0]}")/.."
release=$(realpath "${1:?usage: ci/distributions.sh FOLDER}")
[[ $(id -u) == 0 ]] || skip "chroot takes root"
need mmdebstrap
need qemu-aarch64-static qemu-user-static
work=$(mktemp -d)
# What mmdebstrap mounts is gone with it, also after a kill, so that nothing is removed through a mount.
trap 'rm -rf --one-file-system "$work"' EXIT

# `try NAME PREFIX...`: what a user does first, below a folder that has the archive's tree in /opt/pageset.
try() {
    local name=$1 start=$EPOCHREALTIME
    shift
    "$@" --version >/dev/null
    "$@" replay /opt/pageset/share/doc/pageset/traces/sock-q1.events.zst --rules linux-5.18,linux-6.18 --json=/tmp/replay.json \
        2>/dev/null | grep -q '^ linux-5.18 .* 59,323 '
    "$@" report /tmp/replay.json -o /tmp/report.html 2>/dev/null >/dev/null
    printf '%-24s replay and report in %.1f s\n' "$name" "$(bc <<<"$EPOCHREALTIME - $start")"
}
for suite in bullseye bookworm trixie; do
    root=$work/$suite
    unshare --mount mmdebstrap --quiet --variant=essential "$suite" "$root" >/dev/null 2>&1 || skip "$suite cannot be installed"
    mkdir "$root/opt/pageset"
    tar -xzf "$release"/pageset-*-x86_64-linux.tar.gz -C "$root/opt/pageset" --strip-components 1
    try "Debian $suite" chroot "$root" /opt/pageset/bin/pageset
done
archive=$(compgen -G "$release/pageset-*-aarch64-linux.tar.gz") || exit 0
mkdir "$root/opt/aarch64"
tar -xzf "$archive" -C "$root/opt/aarch64" --strip-components 1
cp "$(command -v qemu-aarch64-static)" "$root/usr/bin"
try "aarch64, QEMU user mode" chroot "$root" /usr/bin/qemu-aarch64-static /opt/aarch64/bin/pageset
