#!/bin/sh
# The paths of test programs in the build that `ci/test` runs, which is brought up to date, and of examples, which are built then:
# `ci/built.sh NAME...`, with the names that cargo has for the targets.
set -eu
cd "$(dirname "$0")/.."
said=$(mktemp)
trap 'rm -f "$said"' EXIT
examples=
for name; do
    # `ls` fails if one of the two is missing, and prints the other.
    [ -z "$(ls -d crates/*/examples/"$name".rs crates/*/examples/"$name" 2>/dev/null)" ] || examples="$examples --example $name"
done
cargo test --locked --workspace --all-features --no-run --lib --bins --tests --message-format json >"$said"
# As programs: `cargo test --example` would build their tests.
# shellcheck disable=SC2086 # names of examples have no spaces
[ -z "$examples" ] || cargo build --locked --workspace --all-features $examples --message-format json >>"$said"
for name; do
    sed -n "s/.*\"kind\":\[\"[a-z]*\"\],[^}]*\"name\":\"$name\".*\"executable\":\"\([^\"]*\)\".*/\1/p" "$said" | grep . ||
        { echo "error: no test program $name" >&2 && exit 1; }
done
