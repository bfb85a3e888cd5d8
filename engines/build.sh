#!/usr/bin/env bash
# Builds the programs of engines/sqlite in FOLDER: `build.sh FOLDER`. SQLite's library and its speed test come from the distribution's
# packages, and are not installed. Ends with 3 and a reason if a package or a tool is missing.
#
# PAGESET_BUILT is a folder of cargo with libpageset_c.a; without it, cargo builds the library.
set -euo pipefail
mkdir -p "$1"
to=$(realpath "$1")
cd "$(dirname "${BASH_SOURCE[0]}")/.."
missing() { echo "$1" >&2 && exit 3; }
for tool in cc apt-get dpkg-deb; do
    command -v "$tool" >/dev/null || missing "cannot build: $tool is missing"
done

# apt's lists of source packages: the same repositories, with deb-src for deb.
apt=$to/apt
if [[ ! -e $to/speedtest1.c ]]; then
    rm -rf "$apt"
    mkdir -p "$apt/sources" "$apt/lists/partial" "$apt/cache/archives/partial"
    for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.{list,sources}; do
        [[ ! -e $file ]] || sed 's/^deb /deb-src /; s/^Types:.*/Types: deb deb-src/' "$file" >"$apt/sources/${file##*/}"
    done
    options=(-qq -o Dir::Etc::SourceList=/dev/null -o "Dir::Etc::SourceParts=$apt/sources" -o "Dir::State::Lists=$apt/lists"
        -o "Dir::Cache=$apt/cache" -o APT::Sandbox::User=root)
    (cd "$apt" && apt-get "${options[@]}" update && apt-get "${options[@]}" source --download-only sqlite3 &&
        apt-get "${options[@]}" download libsqlite3-dev) >"$apt/log" 2>&1 ||
        missing "cannot get the packages sqlite3 (source) and libsqlite3-dev: $(tail -n 1 "$apt/log")"
    dpkg-deb -x "$apt"/libsqlite3-dev_*.deb "$to/sqlite"
    tar -xJf "$apt"/sqlite3_*.orig.tar.xz -C "$to" --strip-components 2 --wildcards '*/test/speedtest1.c'
fi

built=${PAGESET_BUILT:-}
if [[ -z $built ]]; then
    cargo build --quiet --locked --release -p pageset-c
    built=${CARGO_TARGET_DIR:-target}/release
fi
# A build of the tests has the library in its folder of dependencies only.
library=$(ls -t "$built"/libpageset_c.a "$built"/deps/libpageset_c.a 2>/dev/null | head -n 1) || true
[[ $library ]] || { echo "error: cannot find libpageset_c.a in $built; try cargo build -p pageset-c" >&2 && exit 1; }
ln -sf "$(realpath "$library")" "$to/libpageset_c.a"

here=engines/sqlite
include=(-I crates/pageset-c/include -I "$to/sqlite/usr/include")
link=("$to"/sqlite/usr/lib/*/libsqlite3.a "$to/libpageset_c.a" -lpthread -ldl -lm)
flags=(-std=gnu11 -O2 -g -Wall -Wextra -Werror)
cc "${flags[@]}" "${include[@]}" -I $here $here/tests/test.c $here/pageset_pcache.c "${link[@]}" -o "$to/test"
cc "${flags[@]}" "${include[@]}" $here/bench.c $here/auto.c $here/pageset_pcache.c "${link[@]}" -o "$to/bench"
cc -O2 "${include[@]}" "$to/speedtest1.c" $here/auto.c $here/pageset_pcache.c "${link[@]}" -o "$to/speedtest1"
