#!/usr/bin/env bash
# The public interfaces of the libraries that programs and kernels build on, compared with docs/public-api. A removed or changed line
# needs a new second number of the version (before 1.0), an added line a new third one. PAGESET_API=write updates the lists.
#
# The other crates are parts of the command. Their interfaces may change in any release.
#
# Needs the nightly toolchain that the lists were written with, whose rustdoc describes interfaces as JSON, and crates.io for
# cargo-public-api. Prints `SKIPPED public API: REASON` where one of them is missing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
skip() {
    echo "SKIPPED public API: $1"
    exit 0
}
toolchain=$(rustc +nightly --version 2>/dev/null) || skip "no nightly toolchain"
lists=docs/public-api
written=$(cat $lists/toolchain 2>/dev/null || true)
write=false
[[ ${PAGESET_API:-} == write ]] && write=true
$write || [[ $toolchain == "$written" ]] || skip "the lists are of $written, and this is $toolchain"
target=${CARGO_TARGET_DIR:-target}
tool=$target/tools/bin/cargo-public-api
[[ -x $tool ]] || cargo install --quiet --locked cargo-public-api --version 0.52.0 --root "$target/tools" ||
    skip "cargo-public-api cannot be installed"

mkdir -p $lists
changed=0
for crate in pageset pageset-host pageset-adapters pageset-rules; do
    found=$(RUSTUP_TOOLCHAIN=nightly "$tool" public-api --package $crate -sss --all-features --target-dir "$target/api")
    if $write; then
        printf '%s\n' "$found" >$lists/$crate.txt
    elif ! diff --unified=0 --label "$crate, listed" --label "$crate, now" $lists/$crate.txt - <<<"$found"; then
        changed=1
    fi
done
if $write; then
    printf '%s\n' "$toolchain" >$lists/toolchain
    exit 0
fi
((changed == 0)) || { echo "error: public interfaces changed; set the version, describe it in CHANGELOG.md, and run PAGESET_API=write $0" >&2 && exit 1; }
echo "the public interfaces are those of docs/public-api"
