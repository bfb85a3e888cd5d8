#!/usr/bin/env bash
# Builds the kernel and boots it under QEMU: `run.sh [--cpus N] [--nodes N] [--seed N] [--operations N] [--counted]
# [--interleave] [--planted BUG] [--timeout SECONDS]`. Exit code 0 if the kernel reports success; otherwise prints the command that repeats the
# run.
#
# --counted makes the time-stamp counter count instructions. QEMU then runs all CPUs in turns on one thread, and two runs with
# the same settings print the same text.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

cpus=4 nodes=1 seed=1 operations=10000 counted='' interleave='' planted='' timeout=120
arguments=("$@")
while (($#)); do
    case $1 in
    --counted) counted=counted && shift && continue ;;
    --interleave) interleave=interleave && shift && continue ;;
    --cpus | --nodes | --seed | --operations | --planted | --timeout) ;;
    *)
        echo "error: unknown option $1; allowed: --cpus N, --nodes N, --seed N, --operations N, --counted, --interleave," \
            "--planted missing-mask or missing-lock, --timeout SECONDS" >&2
        exit 2
        ;;
    esac
    printf -v "${1#--}" '%s' "${2:?"$1 needs a value"}"
    shift 2
done

# Memory of each node. With 8 CPUs, all blocks in use at once are about 100 MiB.
mib=256
numa=()
if ((nodes > 1)); then
    for ((node = 0; node < nodes; node++)); do
        numa+=(-object "memory-backend-ram,id=m$node,size=${mib}M" -numa "node,nodeid=$node,memdev=m$node")
    done
    for ((cpu = 0; cpu < cpus; cpu++)); do
        numa+=(-numa "cpu,node-id=$((cpu * nodes / cpus)),socket-id=$cpu,core-id=0,thread-id=0")
    done
fi
accelerator=(-accel "tcg,thread=multi")
[[ $counted$interleave ]] && accelerator=(-accel "tcg,thread=single" -icount shift=0,sleep=off)

(cd "$here" && cargo build --quiet --locked --release --features "$interleave,${planted:+planted-$planted}")
# Each run boots its own copy: another run may build the kernel anew.
image=$(mktemp)
trap 'rm -f "$image"' EXIT
cp "${CARGO_TARGET_DIR:-$here/target}/x86_64-unknown-none/release/pageset-kernel" "$image"

status=0
timeout --foreground "$timeout" qemu-system-x86_64 -nodefaults -no-reboot -display none -serial stdio -cpu max \
    -smp "$cpus,sockets=$cpus" -m "$((mib * nodes))M" ${numa[@]+"${numa[@]}"} "${accelerator[@]}" \
    -device isa-debug-exit,iobase=0xf4,iosize=1 -kernel "$image" \
    -append "seed=$seed operations=$operations${counted:+ counted}" </dev/null || status=$?
((status == 33)) && exit
case $status in
35) ;;
124) echo "error: the kernel has not ended after $timeout s" >&2 ;;
*) echo "error: the kernel crashed: QEMU's exit code is $status" >&2 ;;
esac
echo "repeat with: kernel/run.sh ${arguments[*]}" >&2
exit 1
