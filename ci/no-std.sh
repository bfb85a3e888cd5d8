#!/bin/sh
# The allocator in a program without a standard library, linked for a machine without an operating system.
set -eu
cd "$(dirname "$0")/no-std-check"
target_dir=${CARGO_TARGET_DIR:-../../target}/no-std
if rustup target list --installed 2>/dev/null | grep -q '^x86_64-unknown-none$' ||
    rustup target add x86_64-unknown-none 2>/dev/null; then
    cargo build --release --target x86_64-unknown-none --target-dir "$target_dir"
else
    echo "no_std: the target x86_64-unknown-none is not to be had; checked for the host, not linked"
    cargo check --release --target-dir "$target_dir"
fi
