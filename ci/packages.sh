#!/usr/bin/env bash
# The packages of distributions: `ci/packages.sh FOLDER` writes them there and prints their names, each as .deb and .rpm.
#
#   pageset         the command, its man pages and completions, all made from the one definition of the command line; the
#                   systemd units, which an administrator enables; the documentation with its pictures and rule files; shipped
#                   recordings
#   libpageset0     the shared library of the pool, by its SONAME
#   libpageset-dev  pageset.h, the static library, and what the linker, pkg-config and CMake look for; as .rpm
#                   libpageset-devel
#
# `ci/packages.sh --check` writes them to a folder that it removes, unpacks them and uses them from there: the command runs, each
# man page and completion is there, and a C program is built against the library, shared and static, and run.
#
# PAGESET_BUILT is a folder with the command and both libraries, built already; without it they are built here. ARCH is the
# architecture in Debian's words, by default that of this machine; for another one only the command is packed, and PAGESET_HERE
# is a command that runs here. Needs Go, which builds the packer, and binutils; --check needs a C compiler, pkg-config,
# dpkg-deb and rpm.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

check=false
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [[ ${1:-} == --check ]]; then
    check=true
    mkdir "$work/packages"
    set -- "$work/packages"
fi
folder=$(realpath "${1:?usage: ci/packages.sh FOLDER, or ci/packages.sh --check}")
[[ -d $folder ]] || { echo "error: $folder is no folder" >&2 && exit 2; }

# nfpm writes .deb and .rpm from one description, with the same bytes each time.
nfpm=github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.43.0
tools=$(realpath -m "${CARGO_TARGET_DIR:-target}/tools")
if [[ ! -x $tools/nfpm ]]; then
    command -v go >/dev/null || { echo "SKIPPED packages: no Go to build nfpm with" && exit 0; }
    GOBIN=$tools go install "$nfpm" >"$folder/.nfpm" 2>&1 || { echo "SKIPPED packages: $(tail -n 1 "$folder/.nfpm")" && exit 0; }
    rm "$folder/.nfpm"
fi

built=${PAGESET_BUILT:-}
if [[ -z $built ]]; then
    cargo build --quiet --locked --release -p pageset-cli -p pageset-lab -p pageset-c
    built=${CARGO_TARGET_DIR:-target}/release
fi
built=$(realpath "$built")
# A build of the tests has the libraries of C in its folder of dependencies only.
[[ -e $built/libpageset_c.so && -e $built/libpageset_c.a ]] ||
    cargo build --locked --quiet -p pageset-c --target-dir "$(dirname "$built")"
here=${PAGESET_HERE:-$built/pageset}
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -1)
own_arch=$(case $(uname -m) in x86_64) echo amd64 ;; aarch64) echo arm64 ;; *) uname -m ;; esac)
arch=${ARCH:-$own_arch}
# Files have the time of the commit, so that a package has the same bytes each time.
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}

# The oldest C library that has all that a program or library asks for; nothing for a static program.
libc_of() {
    objdump -T "$1" 2>/dev/null | grep -o 'GLIBC_[0-9.]*' | sed 's/GLIBC_//' | sort -uV | tail -1 || true
}

# `pack FORMAT DESCRIPTION ROOT DEPENDS...`: packs the tree ROOT by packaging/DESCRIPTION.yaml.
pack() {
    local format=$1 description=$2 root=$3 libc=${4:-} other=${5:-} dev_name=libpageset-dev doc
    [[ $format == rpm ]] && dev_name=libpageset-devel
    doc=$root/usr/share/doc/${description/libpageset-dev/$dev_name}
    install -d "$doc"
    cat LICENSE-MIT LICENSE-APACHE >"$doc/copyright"
    find "$root" -type d -exec chmod 755 {} +
    find "$root/usr/share" -type f -exec chmod 644 {} +
    STAGE=$root ARCH=$arch VERSION=$version DEV_NAME=$dev_name LIBC=$libc OTHER=$other "$tools/nfpm" package \
        --config "packaging/$description.yaml" --packager "$format" --target "$folder" | sed -n 's/^created package: //p'
}

share=$work/pageset/usr/share
install -D -m 755 -t "$work/pageset/usr/bin" "$built/pageset" "$built/pageset-lab"
[[ $arch == "$own_arch" ]] && strip "$work"/pageset/usr/bin/*
install -d "$share/man/man1" "$share/bash-completion/completions" "$share/zsh/vendor-completions" "$share/zsh/site-functions" \
    "$share/fish/vendor_completions.d" "$share/doc/pageset"
for program in "$here" "$here-lab"; do
    name=$(basename "$program")
    "$program" generate man "$share/man/man1"
    "$program" generate completions bash >"$share/bash-completion/completions/$name"
    "$program" generate completions zsh >"$share/zsh/vendor-completions/_$name"
    "$program" generate completions fish >"$share/fish/vendor_completions.d/$name.fish"
done
# What packages use is no command for users.
rm -f "$share"/man/man1/pageset{,-lab}-generate*
gzip -9n "$share"/man/man1/*
# The links between the pages, to pictures, rule files and the recordings that the pages replay, stay as they are.
cp -R README.md CHANGELOG.md docs "$share/doc/pageset"
cp -R --parents packaging/{systemd,monitoring,Containerfile} "$share/doc/pageset"
install -D -m 644 -t "$work/pageset/usr/lib/systemd/system" packaging/systemd/*.service
install -D -m 644 -t "$share/doc/pageset/traces" traces/*.zst
libc=$(libc_of "$built/pageset")
pack deb pageset "$work/pageset" "${libc:+libc6 (>= $libc)}" "${libc:+libgcc-s1}"
# Other distributions look for completions of zsh elsewhere.
mv "$share"/zsh/vendor-completions/_pageset* "$share/zsh/site-functions"
rmdir "$share/zsh/vendor-completions"
pack rpm pageset "$work/pageset" "${libc:+libc.so.6(GLIBC_$libc)(64bit)}"

[[ $arch == "$own_arch" ]] || exit 0
# Where a library of this architecture goes: for .deb as the compiler has it.
multiarch=/usr/lib/$("${CC:-cc}" -print-multiarch)
for format in deb rpm; do
    libdir=$multiarch
    [[ $format == rpm ]] && libdir=/usr/lib64
    dev=$work/$format-dev lib=$work/$format-lib
    DESTDIR=$dev LIBDIR=$libdir PAGESET_BUILT=$built sh crates/pageset-c/install.sh /usr
    strip --strip-debug "$dev$libdir/libpageset.a"
    strip --strip-unneeded "$dev$libdir"/libpageset.so.*.*
    libc=$(libc_of "$dev$libdir/libpageset.so")
    # What programs need when they run goes into a package of its own.
    install -d "$lib$libdir"
    mv "$dev$libdir"/libpageset.so.* "$lib$libdir"
    chmod 644 "$lib$libdir"/libpageset.so.*.*
    if [[ $format == deb ]]; then
        pack deb libpageset0 "$lib" "libc6 (>= $libc)" libgcc-s1
        name=libpageset-dev
    else
        pack rpm libpageset0 "$lib" "libc.so.6(GLIBC_$libc)(64bit)" "libgcc_s.so.1()(64bit)"
        name=libpageset-devel
    fi
    install -D -m 644 -t "$dev/usr/share/doc/$name/examples" crates/pageset-c/examples/*
    pack $format libpageset-dev "$dev" "libpageset0 (= $version)"
done

$check || exit 0
fail() { echo "error: $1" >&2 && exit 1; }
for format in deb rpm; do
    there=$work/unpacked-$format libdir=$multiarch zsh=vendor-completions name=libpageset-dev
    mkdir "$there"
    if [[ $format == deb ]]; then
        for file in "$folder"/*_"$arch".deb; do
            dpkg-deb --info "$file" control >/dev/null
            dpkg-deb --extract "$file" "$there"
        done
    else
        if ! command -v rpm2archive >/dev/null && [[ $(id -u) == 0 ]]; then
            DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends rpm >/dev/null 2>&1 || true
        fi
        command -v rpm2archive >/dev/null || { echo "SKIPPED rpm packages: no rpm2archive" && continue; }
        libdir=/usr/lib64 zsh=site-functions name=libpageset-devel
        for file in "$folder"/*.rpm; do
            rpm --checksig "$file" >/dev/null || fail "$file does not have the digests that it states"
            rpm2archive -n - <"$file" | tar -x -C "$there"
        done
    fi
    usr=$there/usr
    [[ $("$usr/bin/pageset" --version) == "pageset $version"* ]] || fail "the packed command does not say its version"
    # A man page for each subcommand that a user sees.
    for command in $("$usr/bin/pageset" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p'); do
        [[ $command == help || -s $usr/share/man/man1/pageset-$command.1.gz ]] || fail "no man page of pageset $command"
    done
    for command in $("$usr/bin/pageset-lab" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p'); do
        [[ $command == help || -s $usr/share/man/man1/pageset-lab-$command.1.gz ]] || fail "no man page of pageset-lab $command"
    done
    [[ -s $usr/share/man/man1/pageset.1.gz && -s $usr/share/man/man1/pageset-lab.1.gz ]] || fail "no man page"
    cat "$usr"/share/bash-completion/completions/pageset{,-lab} | bash -n || fail "the bash completions are no shell"
    grep -q '^#compdef pageset' "$usr/share/zsh/$zsh/_pageset" || fail "no zsh completions"
    [[ -s $usr/share/fish/vendor_completions.d/pageset.fish ]] || fail "no fish completions"
    # The README's first command works on the packed recording, and the guide's pictures and rule files are there.
    (cd "$usr/share/doc/pageset" && "$usr/bin/pageset" replay traces/sock-q1.events.zst --rules linux-6.18 2>/dev/null |
        grep -q '^ linux-6.18 ') || fail "the packed recording does not replay"
    for unit in top agent; do
        [[ -s $usr/lib/systemd/system/pageset-$unit.service ]] || fail "no systemd unit of $unit"
    done
    for file in docs/pictures/top-80x24.svg docs/guide/rules/no-auto-tuning.toml packaging/Containerfile \
        packaging/monitoring/{pageset.rules.yml,pageset.dashboard.json}; do
        [[ -s $usr/share/doc/pageset/$file ]] || fail "the documentation has no $file"
    done
    flags() { PKG_CONFIG_LIBDIR=$there$libdir/pkgconfig PKG_CONFIG_SYSROOT_DIR=$there pkg-config "$@" --cflags --libs pageset; }
    example=$usr/share/doc/$name/examples/buffers.c
    says="order 2 and 300 pages: 1245184 bytes in use"
    # shellcheck disable=SC2046 # Flags are words.
    "${CC:-cc}" "$example" $(flags) -o "$work/shared"
    LD_LIBRARY_PATH=$there$libdir "$work/shared" | grep -qx "$says" || fail "a program with the packed shared library"
    # shellcheck disable=SC2046
    "${CC:-cc}" -static "$example" $(flags --static) -o "$work/static"
    "$work/static" | grep -qx "$says" || fail "a program with the packed static library"
done
echo "the packages hold what they should, and it works"
