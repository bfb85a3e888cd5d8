#!/usr/bin/env bash
# The examples of registered memory, for real: packets through AF_XDP, a file through io_uring. Prints
# `SKIPPED EXAMPLE: REASON` where the kernel, the privilege or the program `ip` is missing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

example() {
    cargo run --quiet --locked -p pageset-host --example "$@"
}

example af_xdp_forward 20000 private
example af_xdp_forward 20000 shared
example io_uring_copy
