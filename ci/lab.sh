#!/usr/bin/env bash
# Two kernels booted under QEMU, recorded and replayed, with the build of the tests. Takes about five minutes on 2 CPUs. Prints
# `SKIPPED lab: REASON` where QEMU or a kernel's package cannot be installed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Recordings within limits, of all, in percent: below it the replay or the recorder has lost something. The lab as a whole has
# more than 90; two boots have some fifty recordings, of which one is 2 %.
least=80
dir=${LAB_DIR:-$PWD/target/lab-ci}
mkdir -p "$dir"
[[ -n ${PAGESET_BUILT:-} ]] || cargo build --quiet --locked -p pageset-cli -p pageset-lab
built=${PAGESET_BUILT:-$PWD/${CARGO_TARGET_DIR:-target}/debug}
lab() {
    "$built/pageset-lab" kernels --dir "$dir" "$@"
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
rm -rf "$dir/recordings" "$dir/boots" "$dir.csv"
strip -o "$dir/pageset" "$built/pageset"
# A boot that ends early leaves fewer recordings, which are counted below.
lab boot --guest-pageset "$dir/pageset" 6.1-amd64.2node 6.18-amd64.4cpu || true
lab replay || true
lab truth --output "$dir.csv" >"$dir.log" || true
awk -F, -v least="$least" '
    NR == 1 { for (i = 1; i <= NF; i++) column[$i] = i; next }
    $column["input"] == "" { next } # not recorded
    { of++; input += $column["input"] == "in"; reconstructed += $column["reconstructed"] == "in" }
    END {
        printf "%d recordings; within limits: input only %d, reconstructed %d\n", of, input, reconstructed
        if (of >= 30 && 100 * input >= least * of && 100 * reconstructed >= least * of) exit
        print "error: the replays of two kernels are out of limits; see the table of `pageset-lab kernels truth`"
        exit 1
    }
' "$dir.csv"
