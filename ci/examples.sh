#!/usr/bin/env bash
# The examples of registered memory, for real: packets through AF_XDP, a file through io_uring. Prints
# `SKIPPED EXAMPLE: REASON` where the kernel, the privilege or the program `ip` is missing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

mapfile -t programs < <(sh ci/built.sh af_xdp_forward io_uring_copy)
"${programs[0]}" 20000 private
"${programs[0]}" 20000 shared
"${programs[1]}"
