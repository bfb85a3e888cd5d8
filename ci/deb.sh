#!/usr/bin/env bash
# The Debian packages: `ci/deb.sh FOLDER` writes them there and prints their names.
#
#   pageset         the command, its man pages and completions, all made from the one definition of the command line, and
#                   the documentation
#   libpageset0     the shared library of the pool, by its SONAME
#   libpageset-dev  pageset.h, the static library, and what the linker and pkg-config look for
#
# With `--check FOLDER` they are then unpacked into a folder of their own and used from there: the command runs, each man
# page and completion is there, and a C program is built against the library, shared and static, and run.
#
# PAGESET_BUILT is a folder with the command and both libraries, built already; without it they are built here. Needs
# dpkg-deb, and binutils; --check needs a C compiler and pkg-config as well.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

check=false
[[ ${1:-} == --check ]] && check=true && shift
folder=$(realpath "${1:?usage: ci/deb.sh [--check] FOLDER}")
[[ -d $folder ]] || { echo "error: $folder is no folder" >&2 && exit 2; }
command -v dpkg-deb >/dev/null || { echo "SKIPPED packages: no dpkg-deb" && exit 0; }

built=${PAGESET_BUILT:-}
if [[ -z $built ]]; then
    cargo build --quiet --locked --release -p pageset-cli -p pageset-c
    built=${CARGO_TARGET_DIR:-target}/release
fi
built=$(realpath "$built")
# `pageset VERSION (COMMIT)`.
version=$("$built/pageset" --version | cut -d' ' -f2)
arch=$(dpkg --print-architecture)
# Where a library of this architecture goes, as the compiler has it.
libdir=/usr/lib/$("${CC:-cc}" -print-multiarch)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The oldest C library that has all that a program or library asks for.
libc_of() {
    objdump -T "$1" | grep -o 'GLIBC_[0-9.]*' | sed 's/GLIBC_//' | sort -uV | tail -1
}

# `package NAME SECTION DEPENDS`: packs $work/NAME up; the description, its first line the summary, is read.
package() {
    local name=$1 section=$2 depends=$3 root=$work/$1 summary description
    install -d "$root/usr/share/doc/$name" "$root/DEBIAN"
    cat LICENSE-MIT LICENSE-APACHE >"$root/usr/share/doc/$name/copyright"
    find "$root" -type d -exec chmod 755 {} +
    find "$root/usr/share" -type f -exec chmod 644 {} +
    read -r summary
    description=$(sed 's/^/ /')
    cat >"$root/DEBIAN/control" <<CONTROL
Package: $name
Version: $version
Architecture: $arch
Maintainer: The pageset developers <pageset@localhost>
Section: $section
Priority: optional
Depends: $depends
Installed-Size: $(du -sk --exclude=DEBIAN "$root" | cut -f1)
Description: $summary
$description
CONTROL
    [[ $name == libpageset0 ]] && echo "activate-noawait ldconfig" >"$root/DEBIAN/triggers"
    dpkg-deb --root-owner-group --build "$root" "$folder/${name}_${version}_$arch.deb" >/dev/null
    echo "$folder/${name}_${version}_$arch.deb"
}

share=$work/pageset/usr/share
install -D -m 755 -s "$built/pageset" "$work/pageset/usr/bin/pageset"
install -d "$share/man/man1" "$share/bash-completion/completions" "$share/zsh/vendor-completions" \
    "$share/fish/vendor_completions.d" "$share/doc/pageset"
"$built/pageset" generate man "$share/man/man1"
# What packages use is no command for users.
rm -f "$share"/man/man1/pageset-generate*
gzip -9n "$share"/man/man1/*
"$built/pageset" generate completions bash >"$share/bash-completion/completions/pageset"
"$built/pageset" generate completions zsh >"$share/zsh/vendor-completions/_pageset"
"$built/pageset" generate completions fish >"$share/fish/vendor_completions.d/pageset.fish"
install -m 644 README.md docs/*.md "$share/doc/pageset"
package pageset utils "libc6 (>= $(libc_of "$built/pageset")), libgcc-s1" <<TEXT
watch, record, replay and judge Linux' per-CPU page caches
Shows what the kernel's per-CPU pagesets hold and move, records a machine's
page traffic, replays it under any rules, and says what a setting would gain
and cost.
TEXT

dev=$work/libpageset-dev lib=$work/libpageset0
DESTDIR=$dev LIBDIR=$libdir PAGESET_BUILT=$built sh crates/pageset-c/install.sh /usr
strip --strip-debug "$dev$libdir/libpageset.a"
strip --strip-unneeded "$dev$libdir"/libpageset.so.*.*
# What programs need when they run goes into a package of its own.
install -d "$lib$libdir"
mv "$dev$libdir"/libpageset.so.* "$lib$libdir"
chmod 644 "$lib$libdir"/libpageset.so.*.*
package libpageset0 libs "libc6 (>= $(libc_of "$built/libpageset_c.so")), libgcc-s1" <<TEXT
pages for programs, from per-CPU caches: the library
A pool in user space that hands out page-aligned runs of pages from per-CPU
caches that size themselves, and gives free memory back to the system.
TEXT
install -D -m 644 -t "$dev/usr/share/doc/libpageset-dev/examples" crates/pageset-c/examples/*
package libpageset-dev libdevel "libpageset0 (= $version)" <<TEXT
pages for programs, from per-CPU caches: header and static library
What C and C++ programs are built with that use the pool of libpageset0.
TEXT

$check || exit 0
fail() { echo "error: $1" >&2 && exit 1; }
there=$work/unpacked
for name in pageset libpageset0 libpageset-dev; do
    dpkg-deb --info "$folder/${name}_${version}_$arch.deb" control >/dev/null
    dpkg-deb --extract "$folder/${name}_${version}_$arch.deb" "$there"
done
usr=$there/usr
[[ $("$usr/bin/pageset" --version) == "pageset $version"* ]] || fail "the packed command does not say its version"
# A man page for each subcommand that a user sees.
for name in $("$usr/bin/pageset" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p'); do
    [[ $name == help || -s $usr/share/man/man1/pageset-$name.1.gz ]] || fail "no man page of pageset $name"
done
[[ -s $usr/share/man/man1/pageset.1.gz ]] || fail "no man page"
bash -n "$usr/share/bash-completion/completions/pageset" || fail "the bash completions are no shell"
grep -q '^#compdef pageset' "$usr/share/zsh/vendor-completions/_pageset" || fail "no zsh completions"
[[ -s $usr/share/fish/vendor_completions.d/pageset.fish ]] || fail "no fish completions"
flags() { PKG_CONFIG_LIBDIR=$there$libdir/pkgconfig PKG_CONFIG_SYSROOT_DIR=$there pkg-config "$@" --cflags --libs pageset; }
example=$usr/share/doc/libpageset-dev/examples/buffers.c
says="order 2 and 300 pages: 1245184 bytes in use"
# shellcheck disable=SC2046 # Flags are words.
"${CC:-cc}" "$example" $(flags) -o "$work/shared"
LD_LIBRARY_PATH=$there$libdir "$work/shared" | grep -qx "$says" || fail "a program with the packed shared library"
# shellcheck disable=SC2046
"${CC:-cc}" -static "$example" $(flags --static) -o "$work/static"
"$work/static" | grep -qx "$says" || fail "a program with the packed static library"
echo "the packages hold what they should, and it works"
