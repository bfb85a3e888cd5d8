#!/usr/bin/env bash
# The allocator in a program without a standard library, linked for a machine without an operating system. Then as a small kernel links
# it: the default rules alone, for size, with absolute addresses and without a compiler's runtime. Prints its sizes and guards them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
target_dir=$(realpath -m "${CARGO_TARGET_DIR:-../target}/no-std")

# Bytes. The build had 64,403 when the limit was last set.
text_most=64500

(cd small-check && cargo run --quiet --locked --release --bin sizes --target-dir "$target_dir")
if ! { rustup target list --installed 2>/dev/null | grep -q '^x86_64-unknown-none$' ||
    rustup target add x86_64-unknown-none 2>/dev/null; }; then
    echo "SKIPPED linking: the target x86_64-unknown-none cannot be installed"
    (cd no-std-check && cargo check --release --target-dir "$target_dir")
    exit
fi
(cd no-std-check && cargo build --release --target x86_64-unknown-none --target-dir "$target_dir")

command -v nm >/dev/null && command -v readelf >/dev/null || { echo "SKIPPED the sizes: no binutils" && exit; }
(
    cd small-check
    RUSTFLAGS='-C relocation-model=static -C code-model=kernel' cargo build --quiet --locked --release --lib \
        --target x86_64-unknown-none --target-dir "$target_dir"
)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
archive=$target_dir/x86_64-unknown-none/release/libsmall_check.a
cd "$work"
# With its optimisation at link time, the library's own code is one object. The others are the compiler's runtime.
ar x "$archive" "$(ar t "$archive" | grep '^small_check')"
object=$(echo small_check*.o)
missing=$(nm -u "$object" | awk '$2 !~ /^(kernel_cpu|kernel_panic|memcpy|memmove|memset|memcmp)$/ { print $2 }')
[[ ! $missing ]] || { echo "error: the small build needs a compiler's runtime: $missing" >&2 && exit 1; }
if readelf -rW "$object" | grep GOT; then
    echo "error: the small build has relocations of a table of addresses" >&2
    exit 1
fi
text=$(size -A "$object" | awk '$1 ~ /^\.text/ { sum += $2 } END { print sum }')
constants=$(size -A "$object" | awk '$1 ~ /^\.rodata/ { sum += $2 } END { print sum }')
echo "small build: $text bytes of code, $constants of constants"
((text <= text_most)) || { echo "error: the small build has $text bytes of code; allowed: $text_most" >&2 && exit 1; }
