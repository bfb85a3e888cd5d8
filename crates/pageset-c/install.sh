#!/bin/sh
# Installs the shared and the static library, the header, and the files for pkg-config and CMake below a prefix:
#
#   install.sh [PREFIX]        PREFIX defaults to /usr/local
#
# In the environment:
#   DESTDIR        a folder that takes the place of /, for packages
#   LIBDIR         the folder of the libraries; default: PREFIX/lib
#   PAGESET_BUILT  a folder with both built libraries; by default, this script builds them with cargo
#   CC             the C compiler, which links the shared library; default: cc
#
# Without DESTDIR, the script runs ldconfig if the system's programs search LIBDIR. Else it prints how programs find the
# library.
set -eu
prefix=${1:-/usr/local}
libdir=${LIBDIR:-$prefix/lib}
to=${DESTDIR:-}
cd "$(dirname "$0")"
built=${PAGESET_BUILT:-}
if [ -z "$built" ]; then
    cargo build --locked --release -p pageset-c
    built=${CARGO_TARGET_DIR:-../../target}/release
fi
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' ../../Cargo.toml | head -1)
soname=$(readelf -d "$built/libpageset_c.so" | sed -n 's/.*(SONAME).*\[\(.*\)\]$/\1/p')
[ -n "$soname" ] || { echo "error: cannot install $built/libpageset_c.so: it has no SONAME; try a build by cargo" >&2 && exit 1; }

install -d "$to$libdir/pkgconfig" "$to$libdir/cmake/pageset" "$to$prefix/include"
install -m 644 "$built/libpageset_c.a" "$to$libdir/libpageset.a"
# Symbol versions need a version script. Cargo passes one of its own to the linker, and a linker takes only one script that
# exports symbols. So the shared library is linked once more, from the static one.
"${CC:-cc}" -shared -o "$to$libdir/libpageset.so.$version" -Wl,-soname,"$soname" -Wl,--version-script=pageset.map \
    -Wl,--gc-sections -Wl,--no-undefined -Wl,-z,relro,-z,now \
    -Wl,--whole-archive "$built/libpageset_c.a" -Wl,--no-whole-archive -lpthread -ldl -lm
chmod 755 "$to$libdir/libpageset.so.$version"
# Programs load the first name, and the linker looks for the second.
ln -sf "libpageset.so.$version" "$to$libdir/$soname"
ln -sf "$soname" "$to$libdir/libpageset.so"
install -m 644 include/pageset.h "$to$prefix/include"
fill() {
    sed "s|@prefix@|$prefix|; s|@libdir@|$libdir|; s|@version@|$version|; s|@soname@|$soname|" "$1" >"$to$libdir/$2"
    chmod 644 "$to$libdir/$2"
}
fill pageset.pc.in pkgconfig/pageset.pc
for name in pageset-config pageset-config-version; do
    fill $name.cmake.in cmake/pageset/$name.cmake
done
[ -z "$to" ] || exit 0

# Programs find the library by the loader's cache. ldconfig lists the folders that it searches, each with a colon.
PATH=$PATH:/usr/sbin:/sbin
if ldconfig -N -X -v 2>/dev/null | grep -q "^$libdir:" && ldconfig; then
    echo "installed $libdir/$soname, and updated the loader's cache"
else
    cat <<TEXT
installed $libdir/$soname

The loader does not find the library there. Build programs with the path of the library in them:

    export PKG_CONFIG_PATH=$libdir/pkgconfig
    cc program.c \$(pkg-config --cflags --libs pageset) -Wl,-rpath,$libdir -o program

Or run them with LD_LIBRARY_PATH=$libdir.
TEXT
fi
