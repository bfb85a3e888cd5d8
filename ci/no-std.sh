#!/usr/bin/env bash
# The allocator in a program without a standard library, linked for a machine without an operating system. Then as a small kernel links
# it: the default rules alone, for size, with absolute addresses and without a compiler's runtime. Prints its sizes and guards them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
target_dir=$(realpath -m "${CARGO_TARGET_DIR:-../target}/no-std")

# Bytes of code: all, and what the calls need after the construction. The aim for those is 40,960.
text_most=58500 calls_most=46500

for features in '' bulk; do
    (cd small-check && cargo run --quiet --locked --release --features "$features" --bin sizes --target-dir "$target_dir")
    (cd .. && cargo clippy --quiet --locked -p pageset --lib --no-default-features --features "bytes,$features" --target-dir "$target_dir" -- -D warnings)
done
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
    # Counted: with calls of up to 25 instead of 5 of the compiler's units inlined the code is 2 % smaller, and faster.
    RUSTFLAGS='-C relocation-model=static -C code-model=kernel -C llvm-args=-inline-threshold=25' cargo build --quiet --locked --release --lib \
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
text_of() { size -A "$1" | awk '$1 ~ /^\.text/ { sum += $2 } END { print sum }'; }
# reached CALL...: the bytes of code that these calls need.
reached() {
    local call
    for call; do
        # The linker takes an unknown name for one of no size. `grep -q` would end the pipe early, and such a pipe counts as failed.
        nm "$object" | grep " T frames_$call$" >/dev/null || { echo "error: the small build has no frames_$call" >&2 && return 1; }
    done
    ld -r --gc-sections -e "frames_$1" "${@/#/--undefined=frames_}" -o reached "$object" || return 1
    text_of reached
}
text=$(text_of "$object")
constants=$(size -A "$object" | awk '$1 ~ /^\.rodata/ { sum += $2 } END { print sum }')
echo "small build: $text bytes of code, $constants of constants"
pages=(alloc free alloc_bulk free_bulk)
administration=(cpu_online cpu_offline tick drain_all free_pages)
calls=$(reached "${pages[@]}" online "${administration[@]}")
echo "small build: alloc needs $(reached alloc), free as well $(reached alloc free), bulk calls $(reached "${pages[@]}")"
echo "small build: on-line as well $(reached "${pages[@]}" online), administration $calls; construction alone needs the rest"
((calls <= calls_most)) || { echo "error: the calls of the small build have $calls bytes of code; allowed: $calls_most" >&2 && exit 1; }
((text <= text_most)) || { echo "error: the small build has $text bytes of code; allowed: $text_most" >&2 && exit 1; }
