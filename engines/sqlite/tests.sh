#!/usr/bin/env bash
# SQLite's own tests with our page cache: `engines/sqlite/tests.sh [FOLDER]` (default: target/engines). Needs tclsh and tcl8.6-dev, and
# minutes. TESTS="NAME..." selects tests.
#
# Each test also runs with SQLite's cache. A test that fails with ours only is an error. pcache2.test must fail: it counts the
# pages of SQLite's own cache. Some tests refuse to run as root, and do so with both.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
mkdir -p "${1:-target/engines}"
to=$(realpath "${1:-target/engines}")
bash engines/build.sh "$to"
repository=$PWD
mkdir -p "$to/fixture" && cd "$to/fixture"
source=$to/source
[[ -d $source ]] || { mkdir "$source" && tar -xJf "$to"/apt/sqlite3_*.orig.tar.xz -C "$source" --strip-components 1; }
if [[ ! -e testfixture ]]; then
    cc -O1 -g -c -I "$repository/crates/pageset-c/include" -I "$to/sqlite/usr/include" "$repository"/engines/sqlite/{auto,pageset_pcache}.c
    make -s -f "$source/main.mk" TOP="$source" BCC=cc NAWK=awk TCC="cc -w -O0 -DSQLITE_DEBUG=1 -DHAVE_USLEEP=1" \
        TCL_FLAGS=-I/usr/include/tcl8.6 THREADLIB="-lpthread -ldl -lz -lm" \
        LIBTCL="auto.o pageset_pcache.o $to/libpageset_c.a -ltcl8.6" \
        amalgamation-testfixture >make.log 2>&1 || { tail -n 20 make.log >&2 && exit 1; }
fi

# Those that SQLite runs on other page caches (test/permutations.test), and those of caches, spills, truncation and lack of memory.
tests=${TESTS:-attach delete delete2 index insert insert2 join join2 rollback select1 select2 trans update
    cache cachespill cacheflush pcache2 savepoint savepoint2 incrvacuum2 autovacuum memdb tempdb backup shared wal malloc5 mallocA}
# failures NAME VARIABLE=VALUE: prints the failures of a test; "none" only if it came to its end.
failures() {
    rm -rf work && mkdir work
    (cd work && env "$2" timeout 600 ../testfixture "$source/test/$1.test" >../said 2>&1) || true
    if grep -q '^!Failures' said; then sed -n 's/^!Failures on these tests: //p' said
    elif grep -q '^0 errors out of' said; then echo none
    else tail -n 1 said
    fi
}
status=0
for name in $tests; do
    ours=$(failures "$name" PAGESET_PCACHE_MIB=64)
    count=$(sed -n 's/.* errors out of \([0-9]*\) tests.*/\1/p' said)
    theirs=$(failures "$name" NONE=)
    if [[ $name == pcache2 ]]; then
        [[ $ours == "pcache2-1.2 pcache2-1.3 pcache2-1.4" ]] || { echo "error: $name.test with our cache: $ours" >&2 && status=1; }
    elif [[ $ours != "$theirs" ]]; then
        echo "error: $name.test with our cache: $ours; with SQLite's: $theirs" >&2
        status=1
    else
        echo "$name: ${count:-0} tests, failures: $ours"
    fi
done
exit $status
