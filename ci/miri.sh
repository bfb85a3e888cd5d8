#!/bin/sh
# Unit tests of the core under Miri: bitmaps, depots, tags, pageblocks and the state machine, which take a second each there; a whole zone
# takes minutes. The core has no unsafe code, so what Miri can find is in the code that it calls, or a pointer without provenance.
#
# Needs a nightly toolchain with miri and rust-src, and installs both; says so and does nothing where it cannot.
set -eu
cd "$(dirname "$0")/.."
if ! rustup component add miri rust-src --toolchain nightly >/dev/null 2>&1; then
    echo "SKIPPED miri: no nightly toolchain with miri (rustup component add miri rust-src --toolchain nightly)"
    exit 0
fi
# A folder of its own: the flags are not those of other builds. Property tests are left out: one case takes minutes.
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/miri" MIRIFLAGS="-Zmiri-strict-provenance"
# The two that are skipped loop over all slots and all scales, for half a minute each.
cargo +nightly miri test --locked -p pageset --all-features --lib -- \
    policy::state policy::expiry policy::lists policy::sizes frame:: \
    buddy::bitmaps buddy::deferral buddy::free buddy::depot buddy::research::clusters::tests::by_hand \
    pcp::stack::tests::a_full_pool_says_so --skip slots_and_pages_are_limited --skip the_batch_scale_bounds_everything
