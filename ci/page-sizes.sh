#!/usr/bin/env bash
# The core with other page sizes and orders than the default, and for 32-bit machines. `bash ci/page-sizes.sh` builds and tests
# the settings below, each with the tests that do not depend on the default numbers.
#
# Needs the network once, for the standard libraries of other targets; says so where they cannot be installed. The tests for a
# 32-bit machine need a machine that runs its programs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# In a folder of its own: these builds would make the next default build start again.
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/page-sizes
# Compiling takes longer than these tests, so nothing is optimised.
export CARGO_PROFILE_DEV_OPT_LEVEL=0 CARGO_PROFILE_TEST_OPT_LEVEL=0
# Fewer sequences and schedules than with the default sizes: this finds what depends on the sizes.
export PAGESET_CASES=${PAGESET_CASES:-4} PAGESET_SCHEDULES=${PAGESET_SCHEDULES:-100}
export RUSTFLAGS="--cfg few_tests"
# Of the suite, the tests without numbers of the default sizes.
tests=(page_sizes:: properties::any_sequence fast_paths::any_sequence mixes::schedules_)

# The page size in KiB, the pageblock order, the largest order.
settings=(
    "16 11 11" # Linux on arm64
    "64 5 8"   # Linux on powerpc, with huge pages of 2 MiB
    "4 7 10"   # eight pageblocks in a largest block
)
for setting in "${settings[@]}"; do
    read -r page_kib pageblock_order max_order <<<"$setting"
    echo "PAGESET_PAGE_KIB=$page_kib PAGESET_PAGEBLOCK_ORDER=$pageblock_order PAGESET_MAX_ORDER=$max_order"
    PAGESET_PAGE_KIB=$page_kib PAGESET_PAGEBLOCK_ORDER=$pageblock_order PAGESET_MAX_ORDER=$max_order \
        cargo test --quiet --locked -p pageset --all-features --test suite -- "${tests[@]}"
    # The simulator's memory, caches and clearing follow the page size.
    [ "$page_kib" = 4 ] || PAGESET_PAGE_KIB=$page_kib PAGESET_PAGEBLOCK_ORDER=$pageblock_order PAGESET_MAX_ORDER=$max_order \
        cargo test --quiet --locked -p pageset-sim --lib -- page_size_tests::
done

# What is refused, and the message: variable, value, text.
while read -r variable value text; do
    echo "$variable=$value"
    if refused=$(env "$variable=$value" cargo check --quiet --locked -p pageset 2>&1); then
        echo "error: $variable=$value was accepted" >&2
        exit 1
    fi
    grep -qF "$variable is invalid; allowed: $text" <<<"$refused" || {
        printf 'error: the message for %s=%s does not name the allowed values\n%s\n' "$variable" "$value" "$refused" >&2
        exit 1
    }
done <<'END'
PAGESET_PAGE_KIB 32 4, 16, 64
PAGESET_PAGE_KIB four 4, 16, 64
PAGESET_PAGEBLOCK_ORDER 3 4 to 15
PAGESET_MAX_ORDER 8 PAGESET_PAGEBLOCK_ORDER to 15
PAGESET_MAX_ORDER 16 PAGESET_PAGEBLOCK_ORDER to 15
END

# Whether the standard library of a target is there, or can be installed.
has_target() {
    rustup target list --installed 2>/dev/null | grep -qx "$1" || rustup target add "$1" 2>/dev/null || {
        echo "SKIPPED page-sizes $1: the target is not installed and could not be"
        return 1
    }
}

# With and without 64-bit atomics. The last two have none.
for target in i686-unknown-linux-gnu armv7a-none-eabi riscv32imac-unknown-none-elf thumbv7m-none-eabi; do
    if has_target "$target"; then
        echo "$target"
        cargo check --quiet --locked -p pageset --features alloc,bytes,research --target "$target"
    fi
done

# A static 32-bit program, which needs no C library of the system. Its words of 64 bits do without 64-bit atomics.
if has_target i686-unknown-linux-musl; then
    echo "i686-unknown-linux-musl, without 64-bit atomics"
    RUSTFLAGS="--cfg few_tests -C linker=rust-lld -C linker-flavor=ld.lld -C link-self-contained=yes --cfg split_words" \
        cargo test --quiet --locked -p pageset --all-features --target i686-unknown-linux-musl --lib --test suite -- \
        sync:: frame:: pcp:: policy:: errors:: worked_examples:: zones:: "${tests[@]}"
fi
