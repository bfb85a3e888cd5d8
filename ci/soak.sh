#!/usr/bin/env bash
# Random calls of the allocator, optimised: sequences of up to a thousand calls under every preset, each checked step by step; then
# millions of calls a second in random worlds, checked by audits. Settings in the environment take the place of these: see
# docs/contributing/testing.md. `ci/soak.sh --planted` checks that the second one finds bugs: it builds them in, one at a time.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

case ${1-} in
--planted | '') ;;
*) echo "error: $1 is no option; allowed: --planted" >&2 && exit 2 ;;
esac

if [[ ! ${1-} ]]; then
    PAGESET_CASES="${PAGESET_CASES:-2100}" PAGESET_LENGTH="${PAGESET_LENGTH:-1000}" \
        cargo test --locked --release -p pageset --all-features --test suite properties::any_sequence -- --nocapture
    PAGESET_SOAK_OPERATIONS="${PAGESET_SOAK_OPERATIONS:-50000000}" \
        cargo test --locked --release -p pageset --all-features --test soak -- --nocapture soak
    exit
fi

target=$(realpath "${CARGO_TARGET_DIR:-target}")
copy=$target/planted-soak
said=$(mktemp)
trap 'rm -rf "$copy" "$said"' EXIT

# planted NAME FILE OLD NEW REPORT: replaces the one line OLD of a file of crates/pageset/src by NEW. The soak reports it.
planted() {
    local name=$1 file=$copy/crates/pageset/src/$2 old=$3 new=$4 report=$5
    rm -rf "$copy" && mkdir -p "$copy"
    cp -r Cargo.toml Cargo.lock README.md crates "$copy"
    (($(grep -cF "$old" "$file") == 1)) || {
        echo "error: $2 does not have the line that \"$name\" changes: $old; change ci/soak.sh with it" >&2
        exit 1
    }
    OLD=$old NEW=$new perl -pi -e 's/\Q$ENV{OLD}\E/$ENV{NEW}/' "$file"
    (cd "$copy" && cargo test --quiet --locked --release -p pageset --all-features --test soak --no-run \
        --target-dir "$target") >"$said" 2>&1 || { cat "$said" && exit 1; }
    if (cd "$copy" && PAGESET_SEED=1 PAGESET_SOAK_OPERATIONS=20000000 cargo test --quiet --locked --release -p pageset \
        --all-features --test soak --target-dir "$target" -- --nocapture soak) >"$said" 2>&1; then
        echo "error: the soak did not find: $name" >&2
        exit 1
    fi
    grep -q "$report" "$said" && grep -q '^PAGESET_WORLD=' "$said" || {
        cat "$said"
        echo "error: the soak failed at \"$name\" without a report that contains: $report" >&2
        exit 1
    }
    echo "found: $name ($(grep -m 1 -o "$report.*" "$said"))"
}

planted "a depot loses its older batches" zone/depot.rs \
    'below.set(self.newest[list].get());' 'below.set(0);' 'the pages of a depot'
planted "a depot counts pages twice" zone/depot.rs \
    'self.pages.set(before + pages);' 'self.pages.set(before + 2 * pages);' 'the pages of a depot'
planted "a free pageblock keeps its owner" research/claims.rs \
    'pageblocks(page, order).for_each(|start| self.zone.research.owners.end(start));' 'let _ = pageblocks(page, order);' 'the owner of a free pageblock'
planted "all regions have the lock of the first" zone/region.rs \
    'Guard::try_lock(&region.lock)?' 'Guard::try_lock(&self.regions[0].lock)?' 'zone\|page\|lock'
