#!/bin/sh
# A million operations and more under every preset, in sequences of up to a thousand, each checked step by step; in the
# end all memory has to merge. Settings in the environment take the place of these: see docs/contributing/testing.md.
set -eu
cd "$(dirname "$0")/.."
PAGESET_CASES="${PAGESET_CASES:-2100}" PAGESET_LENGTH="${PAGESET_LENGTH:-1000}" \
    cargo test --locked --release -p pageset --all-features --test suite properties::any_sequence -- --nocapture
