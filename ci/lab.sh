#!/usr/bin/env bash
# Two kernels booted under QEMU, recorded and replayed. Takes about ten minutes on 2 CPUs, half of
# them for the static build. Prints `SKIPPED lab: REASON` where QEMU or a kernel's package cannot be installed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Recordings within limits, of all, in percent: below it the replay or the recorder has lost something. The lab as a whole has
# more than 90; two boots have some fifty recordings, of which one is 2 %.
least=80
dir=${LAB_DIR:-$PWD/target/lab-ci}
# The programs of the host and of the guests are two builds. Link-time optimisation would take longer than the replays.
export CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16
mkdir -p "$(dirname "$dir")"
lab() {
    cargo run --quiet --release --locked -p pageset-lab -- kernels --dir "$dir" "$@"
}
skip() {
    echo "SKIPPED lab: $1"
    exit 0
}

[ "$(id -u)" = 0 ] || skip "installing QEMU takes root"
command -v apt-get >/dev/null || skip "there is no apt-get to get kernels with"
lab install >"$dir.log" 2>&1 || skip "QEMU cannot be installed: $(tail -n 1 "$dir.log")"
for kernel in 6.1-amd64 6.18-amd64; do
    lab fetch "$kernel" >"$dir.log" 2>&1 || skip "the package of $kernel cannot be downloaded: $(tail -n 1 "$dir.log")"
done
rm -rf "$dir/recordings" "$dir/boots" "$dir.md"
# A boot that ends early leaves fewer recordings, which are counted below.
lab boot 6.1-amd64.2node 6.18-amd64.4cpu || true
lab replay || true
lab truth --output "$dir.md" || true
awk -F'|' -v least="$least" '
    /^\| (input only|reconstructed) / { print $2 ":" $3 "of" $4 "recordings within limits"; n++; of += $4; if ($5 + 0 < least) low = 1 }
    END { if (n != 2 || of < 60 || low) { print "error: the replays of two kernels are out of limits; see the table of `lab truth`"; exit 1 } }
' "$dir.md"
