#!/usr/bin/env bash
# Boots the kernel of kernel/ on emulated machines, and checks that it finds planted bugs: one to two minutes on 2 CPUs.
# `ci/kernel.sh --long` then does ten million operations on each of 4 CPUs: a quarter of an hour or more.
#
# Prints `SKIPPED kernel: REASON` where QEMU or the target x86_64-unknown-none cannot be installed.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/tools.sh" kernel
cd "$(dirname "${BASH_SOURCE[0]}")/../kernel"

rustup target list --installed 2>/dev/null | grep -q '^x86_64-unknown-none$' ||
    rustup target add x86_64-unknown-none >/dev/null 2>&1 || skip "the target x86_64-unknown-none cannot be installed"
for features in '' research interleave planted-missing-mask planted-missing-lock planted-waiting-nmi; do
    cargo clippy --quiet --locked --release --features "$features" -- -D warnings
done
cargo clippy --quiet --locked --release --no-default-features -- -D warnings
need qemu-system-x86_64 qemu-system-x86

said=$(mktemp)
trap 'rm -f "$said"' EXIT
shown='^(instructions: [0-9]|stack of|operations|page faults|NMIs|CPUs|ranges|mailboxes)'
# must_find PATTERN OPTION...: with each of four seeds the run fails, and at least one run prints a line with the pattern.
# Corrupt lists and page tables can also hang or crash the machine.
must_find() {
    local pattern=$1 seed found=
    shift
    for seed in 1 2 3 4; do
        echo "== kernel/run.sh $* --seed $seed"
        if ./run.sh "$@" --seed "$seed" --timeout 20 >"$said" 2>&1; then
            echo "error: the run passed, and did not find the planted bug"
            exit 1
        fi
        if grep -E "$pattern" "$said"; then found=1; else grep -E '^(error|PANIC)' -A 1 "$said"; fi
    done
    [ "$found" ] || { echo "error: no run printed a line with $pattern" && exit 1; }
}

boot --cpus 1 --counted
boot --cpus 4
boot --cpus 8
for cpus in 1 4 8; do boot --cpus "$cpus" --small; done
boot --cpus 4 --nodes 2
boot --cpus 4 --memory 24
boot --cpus 4 --memory 32 --rules linux-6.6
boot --cpus 4 --nodes 2 --interleave
cp "$said" "$said.first"
boot --cpus 4 --nodes 2 --interleave
cmp "$said" "$said.first" || { echo "error: two interleaved runs with the same options differ" && exit 1; }
rm -f "$said.first"
boot --cpus 8 --memory 32 --interleave --seed "$((RANDOM + 1))"

must_find 'deadlock: CPU [0-9]+ waits for a lock that it holds' --cpus 4 --planted missing-mask
must_find 'deadlock: CPU [0-9]+ waits for a lock that it holds' --cpus 4 --interleave --planted waiting-nmi
must_find 'two owners|cannot free|audit' --cpus 4 --interleave --planted missing-lock

[ "${1:-}" != --long ] || boot --cpus 4 --nodes 2 --operations 10000000 --timeout 14400
