#!/bin/sh
# The allocator under ThreadSanitizer: real threads on one zone, and threads in C over the calls of the C library. Needs a nightly
# toolchain, and installs its component rust-src; says so and does nothing where there is none.
set -eu
cd "$(dirname "$0")/.."
if ! rustup component add rust-src --toolchain nightly >/dev/null 2>&1; then
    echo "SKIPPED tsan: no nightly toolchain with rust-src (rustup component add rust-src --toolchain nightly)"
    exit 0
fi
target=$(rustc -vV | sed -n 's/^host: //p')
RUSTFLAGS="-Zsanitizer=thread --cfg few_tests" PAGESET_SECONDS="${PAGESET_SECONDS:-5}" \
    cargo +nightly test -Zbuild-std --target "$target" -p pageset --all-features --test suite threads:: -- --nocapture

# The C library with its pool, instrumented too, under threads in C. Of the C compiler's runtime: the library has none of its own.
# A planted race, in the program's use of a page, must be reported.
if ! echo 'int main(void) { return 0; }' | cc -x c -fsanitize=thread -o /dev/null - 2>/dev/null; then
    echo "SKIPPED tsan in C: no compiler with its runtime"
    exit 0
fi
RUSTFLAGS="-Zsanitizer=thread --cfg few_tests" \
    cargo +nightly build --locked -Zbuild-std --target "$target" -p pageset-c
library=${CARGO_TARGET_DIR:-target}/$target/debug/libpageset_c.a
nm "$library" 2>/dev/null | grep -c __tsan_write >/dev/null || { echo "error: $library is not instrumented" >&2 && exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cc -std=c11 -D_POSIX_C_SOURCE=200809L -Wall -Wextra -Werror -g -O1 -fsanitize=thread -I crates/pageset-c/include \
    crates/pageset-c/tests/threads.c -o "$work/threads" "$library" -lpthread -ldl -lm
export TSAN_OPTIONS=halt_on_error=1:exitcode=66
"$work/threads" "${PAGESET_SECONDS:-5}"
status=0
"$work/threads" 1 race >"$work/said" 2>&1 || status=$?
if [ $status != 66 ] || ! grep -q 'data race' "$work/said"; then
    cat "$work/said" && echo "error: a planted race is not reported" >&2
    exit 1
fi
echo "reported: race"
