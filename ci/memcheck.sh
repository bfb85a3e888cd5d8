#!/bin/sh
# Wrong use of the pool from Rust under valgrind's memcheck: no report, nothing lost. C programs under valgrind are in the
# tests of pageset-c. Says so and does nothing where there is no valgrind.
#
# Left out: tests whose limits on address space or locked memory leave none for valgrind, and the test that frees blocks of a
# contiguous run, which memcheck reports.
set -eu
cd "$(dirname "$0")/.."
if ! command -v valgrind >/dev/null; then
    echo "memcheck: SKIPPED, no valgrind"
    exit 0
fi
programs=$(sh ci/built.sh host planted)
valgrind --quiet --error-exitcode=3 --leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite \
    "$(echo "$programs" | head -n 1)" bad_use:: contig:: resize:: \
    --test-threads 1 --skip no_address_space --skip locked_memory --skip _while_ --skip a_run_with_a_free_block_is_refused
# Planted errors must be reported, and a correct program must not be.
planted() {
    sh ci/planted.sh "$1" "$2" "$(echo "$programs" | tail -n 1)" valgrind --quiet --error-exitcode=3 \
        --leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite
}
planted "Invalid read" "use-after-free use-after-drain use-after-deferred-free use-after-contig-free beyond-a-run"
planted "4,096 bytes in 1 blocks are definitely lost" leak
