#!/usr/bin/env bash
# A release: `ci/release.sh FOLDER` writes everything that is published of this commit into an empty folder, with SHA256SUMS.
#
#   pageset-VERSION-ARCH-linux.tar.gz   the command for x86_64 and aarch64, static, with man pages, completions and documentation
#   *.deb, *.rpm                        the same for distributions, and the pool's libraries for x86_64 (see ci/packages.sh)
#   *.crate                             the crates, as `cargo publish` sends them
#
# The same commit gives the same bytes with the same toolchain: `ci/release.sh --twice FOLDER` builds everything a second time, in
# another place, and compares. `--here` leaves aarch64 out.
#
# Needs rustup, a C compiler and linker for each architecture (Debian: gcc, gcc-aarch64-linux-gnu), and Go. A binary is linked
# with the static C library of that compiler, so it runs on any Linux of its architecture from the kernel that this C
# library asks for (3.2 with glibc 2.36).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
usage="usage: ci/release.sh [--twice] [--here] FOLDER"
twice=false arches=(x86_64 aarch64)
while [[ ${1:-} == --* ]]; do
    case $1 in
    --twice) twice=true ;;
    --here) arches=("$(uname -m)") ;;
    *) echo "error: unknown option $1; $usage" >&2 && exit 2 ;;
    esac
    shift
done
out=$(realpath -m "${1:?$usage}")
mkdir -p "$out"
[[ -z $(ls -A "$out") ]] || { echo "error: cannot write the release to $out: the folder is not empty" >&2 && exit 2; }
if [[ -n $(git status --porcelain) ]]; then
    echo "error: cannot release: there are uncommitted changes; try git stash" >&2
    exit 2
fi

version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -1)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH CARGO_INCREMENTAL=0

# `build SOURCES FOLDER`: the release of the sources in one folder into another.
build() (
    cd "$1"
    local to=$2 here='' arch target debian work
    export CARGO_TARGET_DIR=$PWD/target
    # No path of this machine stays in a binary.
    local paths="--remap-path-prefix=$PWD=. --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=cargo"
    paths+=" --remap-path-prefix=$(rustc --print sysroot)=rust"
    for arch in "$(uname -m)" "${arches[@]}"; do
        target=$arch-unknown-linux-gnu
        [[ -x target/$target/release/pageset-lab ]] && continue
        rustup target add "$target" 2>/dev/null
        linker=$(command -v "$arch-linux-gnu-gcc") || { echo "error: no $arch-linux-gnu-gcc" >&2 && exit 3; }
        env "CARGO_TARGET_$(tr 'a-z-' 'A-Z_' <<<"$target")_LINKER=$linker" "CC_$(tr - _ <<<"$target")=$linker" \
            "CFLAGS_$(tr - _ <<<"$target")=-ffile-prefix-map=${CARGO_HOME:-$HOME/.cargo}=cargo" \
            RUSTFLAGS="-C target-feature=+crt-static -C strip=symbols -C link-arg=-Wl,--build-id=none $paths" \
            cargo build --quiet --locked --release --target "$target" -p pageset-cli -p pageset-lab
        [[ -n $here ]] || here=$PWD/target/$target/release/pageset
    done
    RUSTFLAGS=$paths cargo build --quiet --locked --release -p pageset-c
    work=$(mktemp -d)
    for arch in "${arches[@]}"; do
        debian=$(case $arch in x86_64) echo amd64 ;; aarch64) echo arm64 ;; esac)
        mkdir "$work/$arch"
        cp "target/$arch-unknown-linux-gnu/release/"pageset{,-lab} target/release/libpageset_c.{so,a} "$work/$arch"
        ARCH=$debian PAGESET_BUILT=$work/$arch PAGESET_HERE=$here bash ci/packages.sh "$to"
        # The archive holds the tree of the .deb, without the folder usr.
        local name=pageset-$version-$arch-linux
        mkdir "$work/$name"
        dpkg-deb --extract "$to/pageset_${version}_$debian.deb" "$work/$name"
        mv "$work/$name"/usr/* "$work/$name" && rmdir "$work/$name/usr"
        tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -C "$work" -c "$name" | gzip -9n \
            >"$to/$name.tar.gz"
        echo "$to/$name.tar.gz"
    done
    cargo package --quiet --workspace --locked --no-verify
    cp target/package/*-"$version".crate "$to"
    rm -rf "$work"
    cd "$to"
    sha256sum -- *.crate *.deb *.rpm *.tar.gz >SHA256SUMS
)

build "$PWD" "$out"
$twice || exit 0
other=$(mktemp -d)
trap 'rm -rf "$other"' EXIT
git clone --quiet . "$other/sources"
mkdir "$other/out"
build "$other/sources" "$other/out" >/dev/null
diff "$out/SHA256SUMS" "$other/out/SHA256SUMS" || { echo "error: a second build has other bytes" >&2 && exit 1; }
echo "a second build, elsewhere, has the same bytes"
