#!/bin/sh
# Threads on one pool that is too small for them, for PAGESET_SOAK_SECONDS (20): see crates/pageset-host/tests/soak.rs. A failure
# prints the seed, PAGESET_SOAK_SEED, that it began with; threads race, so that the same seed makes the same threads do the same,
# not at the same time.
#
# The pool runs out on its own. To have the whole process short of memory as well, where systemd is:
#   systemd-run --user --scope -p MemoryMax=400M -p MemorySwapMax=0 ci/pool-soak.sh
set -eu
cd "$(dirname "$0")/.."
PAGESET_SOAK_SECONDS="${PAGESET_SOAK_SECONDS:-20}" "$(sh ci/built.sh pool_soak)" --nocapture
