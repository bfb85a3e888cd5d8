#!/usr/bin/env bash
# Builds the kernel and boots it under QEMU. `run.sh --help` lists the options.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

usage='usage: kernel/run.sh [OPTION...]

  --cpus N           CPUs (4)
  --nodes N          nodes (1); each has the same number of CPUs and the same memory
  --memory MIB       memory of each node (256); 24 is too little for all operations, so the kernel compacts and reclaims
  --seed N           where the random sequences begin (1)
  --operations N     operations of each CPU, at least (10000)
  --rules NAME       the rules of the allocator (pageset): a name of `pageset replay --list-rules`
  --small            the small build of the allocator: the default rules alone, for size
  --interleave       all CPUs on one thread, instructions as the clock, and switches at random accesses of the allocator:
                     the same build and options print the same text
  --counted          all CPUs on one thread, instructions as the clock: prints the instructions of an allocation and a free
  --planted BUG      a kernel with a bug: missing-mask, missing-lock, waiting-nmi
  --timeout SECONDS  how long the run may take (120)

Exit code: 0 if the kernel reports success, 1 if not, 2 for a wrong option. A failure prints the command that repeats it.'

cpus=4 nodes=1 memory=256 seed=1 operations=10000 rules='' interleave='' counted='' planted='' small='' timeout=120
command="kernel/run.sh $*"
while (($#)); do
    case $1 in
    --help) echo "$usage" && exit ;;
    --interleave | --counted | --small) printf -v "${1#--}" '%s' yes && shift ;;
    --cpus | --nodes | --memory | --seed | --operations | --rules | --planted | --timeout)
        (($# > 1)) || { echo "error: $1 needs a value; try --help" >&2 && exit 2; }
        printf -v "${1#--}" '%s' "$2" && shift 2
        ;;
    *) echo "error: unknown option $1; try --help" >&2 && exit 2 ;;
    esac
done

machine=(-nodefaults -no-reboot -display none -cpu max -smp "$cpus,sockets=$cpus" -m "$((memory * nodes))M"
    -serial stdio -device "isa-debug-exit,iobase=0xf4,iosize=1")
if ((nodes > 1)); then
    for ((node = 0; node < nodes; node++)); do
        machine+=(-object "memory-backend-ram,id=m$node,size=${memory}M" -numa "node,nodeid=$node,memdev=m$node")
    done
    for ((cpu = 0; cpu < cpus; cpu++)); do
        machine+=(-numa "cpu,node-id=$((cpu * nodes / cpus)),socket-id=$cpu,core-id=0,thread-id=0")
    done
fi
if [[ $interleave$counted ]]; then
    machine+=(-accel "tcg,thread=single" -icount "shift=0,sleep=off")
else
    machine+=(-accel "tcg,thread=multi")
fi

# The run boots a copy of its own, because another run may build the kernel anew.
image=$(mktemp)
trap 'rm -f "$image"' EXIT
features=${rules:+research},${interleave:+interleave},${planted:+planted-$planted}
(
    cd "$here"
    # The variable would replace the flags of .cargo/config.toml.
    unset RUSTFLAGS
    [[ ! $small ]] || export CARGO_PROFILE_RELEASE_OPT_LEVEL=s
    cargo build --quiet --locked --release ${small:+--no-default-features} --features "$features"
    cp "${CARGO_TARGET_DIR:-target}/x86_64-unknown-none/release/pageset-kernel" "$image"
)

# QEMU's exit codes: 33 and 35 are the kernel's, 124 is from timeout, 0 is a machine that reset itself.
status=0
timeout --foreground "$timeout" qemu-system-x86_64 "${machine[@]}" -kernel "$image" \
    -append "seed=$seed operations=$operations${rules:+ rules=$rules}${counted:+ counted}" </dev/null || status=$?
case $status in
33) exit ;;
35) ;;
124) echo "error: the kernel did not end within $timeout s" >&2 ;;
*) echo "error: the kernel crashed: QEMU's exit code is $status" >&2 ;;
esac
echo "repeat with: $command" >&2
exit 1
