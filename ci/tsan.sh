#!/bin/sh
# The allocator under ThreadSanitizer: real threads on one zone. Needs a nightly toolchain, and installs its component
# rust-src; says so and does nothing where there is none.
set -eu
if ! rustup component add rust-src --toolchain nightly >/dev/null 2>&1; then
    echo "ThreadSanitizer: skipped, no nightly toolchain with rust-src (rustup component add rust-src --toolchain nightly)"
    exit 0
fi
target=$(rustc -vV | sed -n 's/^host: //p')
RUSTFLAGS="-Zsanitizer=thread --cfg few_tests" PAGESET_SECONDS="${PAGESET_SECONDS:-5}" \
    cargo +nightly test -Zbuild-std --target "$target" -p pageset --all-features --test suite threads:: -- --nocapture
