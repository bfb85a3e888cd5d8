#!/usr/bin/env bash
# Builds the application, boots it under QEMU and prints what it prints.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

usage='usage: run.sh [OPTION...]

  --baseline      the allocator of ArceOS instead of pageset
  --counted       one CPU and instructions as the clock: also prints "cost:" lines, in instructions
  --cpus N        CPUs (4); up to 64
  --memory MIB    memory (512); from 3 GiB on, some of it lies above 4 GiB
  --operations N  operations of all threads together, at least (1000000)

Exit code: 0 if the application reports that it passed, 1 if not, 2 for a wrong option.'

manifest=Cargo.toml cpus=4 memory=512 operations=1000000 accel=(-accel "tcg,thread=multi")
while (($#)); do
    case $1 in
    --help) echo "$usage" && exit ;;
    --baseline) manifest=baseline/Cargo.toml && shift ;;
    --counted) accel=(-accel "tcg,thread=single" -icount "shift=0,sleep=off") cpus=1 && export COUNTED=yes && shift ;;
    --cpus | --memory | --operations)
        (($# > 1)) || { echo "error: $1 needs a value; try --help" >&2 && exit 2; }
        [[ $2 =~ ^[1-9][0-9]{0,9}$ ]] || { echo "error: $1 $2: allowed are numbers from 1 on" >&2 && exit 2; }
        printf -v "${1#--}" '%s' "$2" && shift 2
        ;;
    *) echo "error: unknown option $1; try --help" >&2 && exit 2 ;;
    esac
done
((cpus <= 64)) || { echo "error: --cpus $cpus: allowed are 1 to 64" >&2 && exit 2; }

# The platform's configuration is a file in its crate; ArceOS' own tool adds two lines to it and sets the number of CPUs.
target=${CARGO_TARGET_DIR:-$PWD/target}
platform=$(cargo metadata --quiet --locked --manifest-path "$manifest" --format-version 1 --filter-platform x86_64-unknown-none |
    grep -o '"[^"]*/axplat-x86-pc-[^"/]*/Cargo.toml"' | head -1 | tr -d '"')
mkdir -p "$target"
export AX_CONFIG_PATH=$target/axconfig-$cpus.toml OPERATIONS=$operations AX_LOG=warn
{
    printf 'task-stack-size = 0x40000\nticks-per-sec = 100\n'
    sed "s/^max-cpu-num = 1 /max-cpu-num = $cpus /" "${platform%/*}/axconfig.toml"
} >"$AX_CONFIG_PATH.new"
cmp -s "$AX_CONFIG_PATH.new" "$AX_CONFIG_PATH" || mv "$AX_CONFIG_PATH.new" "$AX_CONFIG_PATH"

# The crates of this version compile with the unstable features of early 2026: those of the stable toolchain, not a newer nightly's.
export RUSTC_BOOTSTRAP=1
export RUSTFLAGS="-Clink-arg=-T$target/x86_64-unknown-none/release/linker_x86-pc.lds -Clink-arg=-no-pie -Clink-arg=-znostart-stop-gc"
cargo build --quiet --locked --release --manifest-path "$manifest" -p pageset-arceos-app --target x86_64-unknown-none --target-dir "$target"

# A run may build anew while another boots.
said=$(mktemp)
trap 'rm -f "$said" "$said.image"' EXIT
cp "$target/x86_64-unknown-none/release/pageset-arceos-app" "$said.image"
# 120 s is a guess: a run takes some seconds. ArceOS has no exit code: it turns the machine off.
timeout --foreground 120 qemu-system-x86_64 -machine q35 -cpu max -smp "$cpus" -m "${memory}M" "${accel[@]}" -nodefaults -no-reboot \
    -display none -serial stdio -kernel "$said.image" </dev/null | tee "$said" || echo "error: QEMU's exit code is ${PIPESTATUS[0]}" >&2
grep -q '^passed' "$said" && exit
echo "error: the application did not report that it passed" >&2
exit 1
