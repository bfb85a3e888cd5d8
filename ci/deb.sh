#!/usr/bin/env bash
# The Debian package: `ci/deb.sh FOLDER` writes pageset_VERSION_ARCH.deb there and prints its name.
#
# Holds the command, its man pages and completions, all made from the one definition of the command line, and the
# documentation. Needs dpkg-deb.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
folder=$(realpath "${1:?usage: ci/deb.sh FOLDER}")
[[ -d $folder ]] || { echo "error: $folder is no folder" >&2 && exit 2; }

cargo build --quiet --locked --release -p pageset-cli
command=${CARGO_TARGET_DIR:-target}/release/pageset
version=$("$command" --version | cut -d' ' -f2)
arch=$(dpkg --print-architecture)

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
chmod 755 "$root"
share=$root/usr/share
install -D -m 755 -s "$command" "$root/usr/bin/pageset"
install -d "$share/man/man1" "$share/bash-completion/completions" "$share/zsh/vendor-completions" \
    "$share/fish/vendor_completions.d" "$share/doc/pageset" "$root/DEBIAN"
"$command" generate man "$share/man/man1"
# What packages use is no command for users.
rm -f "$share"/man/man1/pageset-generate*
gzip -9n "$share"/man/man1/*
"$command" generate completions bash >"$share/bash-completion/completions/pageset"
"$command" generate completions zsh >"$share/zsh/vendor-completions/_pageset"
"$command" generate completions fish >"$share/fish/vendor_completions.d/pageset.fish"
install -m 644 README.md docs/*.md "$share/doc/pageset"
cat LICENSE-MIT LICENSE-APACHE >"$share/doc/pageset/copyright"

cat >"$root/DEBIAN/control" <<CONTROL
Package: pageset
Version: $version
Architecture: $arch
Maintainer: The pageset developers <pageset@localhost>
Section: utils
Priority: optional
Depends: libc6
Installed-Size: $(du -sk --exclude=DEBIAN "$root" | cut -f1)
Description: watch, record, replay and judge Linux' per-CPU page caches
 Shows what the kernel's per-CPU pagesets hold and move, records a machine's
 page traffic, replays it under any rules, and says what a setting would gain
 and cost.
CONTROL
file=$folder/pageset_${version}_$arch.deb
dpkg-deb --root-owner-group --build "$root" "$file" >/dev/null
echo "$file"
