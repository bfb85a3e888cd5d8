#!/usr/bin/env bash
# Builds the test kernel, boots it under QEMU and prints what it prints.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

usage='usage: run.sh [OPTION...]

  --baseline      the frame allocator of Asterinas instead of pageset
  --counted       one CPU and instructions as the clock: the lines "cost:" are instructions
  --cpus N        CPUs (4)
  --memory MIB    memory (1024), half of it from 4 GiB on; at least 512, because the image begins at 128 MiB

Exit code: 0 if the kernel reports that all tests passed, 1 if not, 2 for a wrong option.'

features=() accel=(-accel "tcg,thread=multi") cpus=4 memory=1024
while (($#)); do
    case $1 in
    --help) echo "$usage" && exit ;;
    --baseline) features=(--features baseline) && shift ;;
    --counted) accel=(-accel "tcg,thread=single" -icount "shift=0,sleep=off") cpus=1 && shift ;;
    --cpus | --memory)
        (($# > 1)) || { echo "error: $1 needs a value; try --help" >&2 && exit 2; }
        printf -v "${1#--}" '%s' "$2" && shift 2
        ;;
    *) echo "error: unknown option $1; try --help" >&2 && exit 2 ;;
    esac
done

# OSTD is tested with --cfg ktest. The image does not move, interrupts use the stack, so there is no red zone, and panics unwind,
# for tests that expect them. The linker drops no section, since it cannot see which of them OSTD reads.
export RUSTFLAGS="--cfg ktest -C panic=unwind -C force-unwind-tables=yes -C relocation-model=static -C code-model=kernel \
-C relro-level=off -C no-redzone=yes -C link-arg=--no-gc-sections -C link-arg=--eh-frame-hdr"
cargo build --quiet --locked --release -p pageset-ostd-test-kernel --target x86_64-unknown-none \
    -Z build-std=core,alloc,compiler_builtins -Z build-std-features=compiler-builtins-mem "${features[@]}"
image=${CARGO_TARGET_DIR:-target}/x86_64-unknown-none/release/pageset-ostd-test-kernel

# Half of the memory lies from 4 GiB on: OSTD maps memory up to the last usable page, and reads ACPI tables, which lie below
# 4 GiB, through that mapping. 300 s is a guess: a run takes some seconds.
status=0
timeout --foreground 300 qemu-system-x86_64 -machine "q35,max-ram-below-4g=$((memory / 2))M" -m "${memory}M" -cpu max \
    -smp "$cpus" "${accel[@]}" -nodefaults -no-reboot -display none -serial stdio \
    -device isa-debug-exit,iobase=0xf4,iosize=0x04 -kernel "$image" </dev/null || status=$?
# OSTD writes 0x10 for success; QEMU doubles that and adds 1. A machine that resets itself ends with 0.
case $status in
33) exit ;;
124) echo "error: the kernel did not end within 300 s" >&2 ;;
*) echo "error: the tests failed: QEMU's exit code is $status" >&2 ;;
esac
exit 1
