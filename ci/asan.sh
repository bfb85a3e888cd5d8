#!/bin/sh
# The pool and the C interface under address sanitizer, the Rust code included: correct use, wrong use, and a short soak.
# Needs a nightly toolchain; says so and does nothing where there is none.
#
# Planted errors must be reported: examples/planted.rs of pageset-host, in Rust; tests/planted.c of pageset-c, in C.
#
# Left out: the tests with limits on address space and files, which leave none for the sanitizer's own, and those of locked
# memory, for under the sanitizer locking does nothing. And the test that reads free memory. C programs against an
# uninstrumented library, with undefined behaviour checked too, are in the tests of pageset-c.
set -eu
cd "$(dirname "$0")/.."
if ! cargo +nightly --version >/dev/null 2>&1; then
    echo "address sanitizer: SKIPPED, no nightly toolchain (rustup toolchain install nightly)"
    exit 0
fi
target=$(rustc -vV | sed -n 's/^host: //p')
# A fault ends a forked child by its signal, as its test asks. Leaks: what forked children end with is not theirs to free.
# What the sanitizer keeps of freed memory, 256 MiB by default, fills in the course of the soak on a fast machine: with 16
# it is full before, and what is resident then is the pool's.
export RUSTFLAGS=-Zsanitizer=address ASAN_OPTIONS=detect_leaks=0:handle_segv=0:quarantine_size_mb=16
export PAGESET_SOAK_RESIDENT_PERCENT=10
# One selection of crates, so that all is compiled once; the programs of pageset-c are for an uninstrumented library.
checked() {
    command=$1
    shift
    cargo +nightly "$command" --locked --target "$target" -p pageset-host -p pageset-c --all-features "$@"
}
pool="--test host --test pool_soak --test fork --test hostile --test huge_pages --test seccomp --test signals"
# shellcheck disable=SC2086 # Options are words.
checked test --lib $pool -- --skip no_address_space --skip locked_memory --skip every_kind_of_free_leaves_zeros --skip limits_are_errors
# The example links the sanitizer's runtime statically, a C program dynamically: the tests of pageset-c have those.
unset ASAN_OPTIONS
checked build --example planted
sh ci/planted.sh use-after-poison \
    "use-after-free use-after-drain use-after-deferred-free use-after-contig-free beyond-a-run" \
    "${CARGO_TARGET_DIR:-target}/$target/debug/examples/planted"
