#!/usr/bin/env bash
# The first ten minutes of a user: from a clone, and from a package, to the first insight in two commands. Prints the time of
# each step.
#
#   clone     cargo build --release -p pageset-cli; target/release/pageset demo
#   package   dpkg -i pageset.deb; pageset demo
#
# After that, what a user tries next: `pageset`, `pageset top`, a recording, a replay, a comparison. A step that needs root or a
# feature of the kernel prints `SKIPPED` with the reason that `pageset` gives.
#
# Usage: ci/first-minutes.sh clone|package|all. PAGESET_BUILT is a folder with a built `pageset`: it replaces the build of
# `clone` (which then measures no build) and is what `package` packs. The package is unpacked into a folder instead of being
# installed, unless INSTALL=1 is set.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
what=${1:-all}
case $what in clone | package | all) ;; *) echo "usage: ci/first-minutes.sh clone|package|all" >&2 && exit 2 ;; esac

root=$PWD
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
built=${PAGESET_BUILT:+$(realpath "$PAGESET_BUILT")}

total=0
# `step NAME COMMAND…`: runs the command, prints its time, and ends the script if it fails.
step() {
    local name=$1 begin end
    shift
    begin=$(date +%s%N)
    "$@" >"$dir/out" 2>"$dir/err" || { cat "$dir/out" "$dir/err" >&2 && echo "error: $name failed: $*" >&2 && exit 1; }
    end=$(date +%s%N)
    total=$((total + (end - begin) / 1000000))
    printf '%10s s  %s\n' "$(seconds $(((end - begin) / 1000000)))" "$name"
}
seconds() { printf '%d.%03d' $(($1 / 1000)) $(($1 % 1000)); }
said() { grep -q "$1" "$dir/out" || { cat "$dir/out" >&2 && echo "error: the output does not say \`$1\`" >&2 && exit 1; }; }

# Two commands to the first insight: a verdict, and a table of rules.
insight() {
    step "2. pageset demo" "$pageset" demo -o "$dir/demo"
    said "verdict"
    said "locks/1000 ops"
    [ -s "$dir/demo/demo.html" ] || { echo "error: no report" >&2 && exit 1; }
    printf '%10s s  to the first insight\n' "$(seconds "$total")"
}

# What a user tries next.
next() {
    step "pageset" "$pageset"
    said "pageset demo"
    cp "$dir/out" "$dir/status"
    step "pageset top --once" "$pageset" top --once --interval 1
    said "managed"
    step "pageset explain" "$pageset" explain held
    if grep -q '^ yes  record' "$dir/status"; then
        step "pageset record" "$pageset" record -o "$dir/my.pstrace" --duration 2s -- sh -c 'while :; do ls -R /usr/share >/dev/null; done'
        step "pageset record, again" "$pageset" record -o "$dir/again.pstrace" --duration 2s -- sh -c 'while :; do ls -R /usr/share >/dev/null; done'
        step "pageset advise" "$pageset" advise "$dir/my.pstrace"
        said "verdict"
        step "pageset replay" "$pageset" replay "$dir/my.pstrace" --rules kernel,linux-5.18
        step "pageset diff" "$pageset" diff "$dir/my.pstrace" "$dir/again.pstrace"
        said "verdict"
    else
        echo "SKIPPED record: $(grep -A1 'record the page traffic' "$dir/status" | tail -n 1 | sed 's/^ *//')"
    fi
    printf '%10s s  in all\n' "$(seconds "$total")"
}

if [ "$what" != package ]; then
    echo "from a clone"
    total=0
    if [ -z "$built" ]; then
        step "1. cargo build --release -p pageset-cli" cargo build --release --locked -p pageset-cli
        pageset=$root/${CARGO_TARGET_DIR:-target}/release/pageset
    else
        echo "SKIPPED build: built already"
        pageset=$built/pageset
    fi
    insight
    next
fi
if [ "$what" != clone ]; then
    echo "from a package"
    mkdir "$dir/packages"
    # The packages of the library come after that of the command; they are not needed here.
    PAGESET_BUILT=$built bash ci/packages.sh "$dir/packages" >"$dir/packed" 2>&1 || true
    package=$(ls "$dir"/packages/pageset_*.deb 2>/dev/null) || { echo "SKIPPED package: $(tail -n 1 "$dir/packed")" && exit 0; }
    total=0
    if [ "${INSTALL:-}" = 1 ]; then
        step "1. dpkg -i $(basename "$package")" dpkg -i "$package"
        pageset=/usr/bin/pageset
    else
        step "1. dpkg -x $(basename "$package")" dpkg -x "$package" "$dir/unpacked"
        pageset=$dir/unpacked/usr/bin/pageset
    fi
    # Nothing of the clone is needed.
    cd "$dir"
    insight
    next
fi
