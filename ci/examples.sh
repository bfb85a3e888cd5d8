#!/usr/bin/env bash
# The example of registered memory, for real: a file through io_uring. Prints `SKIPPED EXAMPLE: REASON` where the kernel or
# the privilege is missing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

"$(sh ci/built.sh io_uring_copy)"
