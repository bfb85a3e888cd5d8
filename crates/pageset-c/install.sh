#!/bin/sh
# Builds the libraries and installs them with the header and the pkg-config file below a prefix (/usr/local).
set -eu
prefix=${1:-/usr/local}
cd "$(dirname "$0")/../.."
cargo build --locked --release -p pageset-c
built=${CARGO_TARGET_DIR:-target}/release
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -1)
install -d "$prefix/lib/pkgconfig" "$prefix/include"
install -m 644 "$built/libpageset_c.a" "$prefix/lib"
install -m 755 "$built/libpageset_c.so" "$prefix/lib"
install -m 644 crates/pageset-c/include/pageset.h "$prefix/include"
sed "s|@prefix@|$prefix|; s|@version@|$version|" crates/pageset-c/pageset.pc.in >"$prefix/lib/pkgconfig/pageset.pc"
