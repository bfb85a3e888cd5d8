#!/bin/sh
# The paths of test programs in the build that `ci/test` runs, which is brought up to date: `ci/built.sh NAME...`, with the names
# that cargo has for the targets.
set -eu
cd "$(dirname "$0")/.."
said=$(mktemp)
trap 'rm -f "$said"' EXIT
cargo test --locked --workspace --all-features --no-run --message-format json >"$said"
for name; do
    sed -n "s/.*\"kind\":\[\"[a-z]*\"\],[^}]*\"name\":\"$name\".*\"executable\":\"\([^\"]*\)\".*/\1/p" "$said" | grep . ||
        { echo "error: no test program $name" >&2 && exit 1; }
done
