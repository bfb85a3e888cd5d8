#!/usr/bin/env bash
# The systemd unit of the package, started by systemd: a Debian with one of its kernels boots under QEMU, without KVM, with the
# package installed. ci/systemd-guest.sh checks there that the unit
#
#   runs            as a user of its own with two capabilities, writes metrics that count, and takes less than its CPUQuota
#   ends, restarts  `systemctl stop` leaves it inactive, and it comes back after SIGKILL
#   can be changed  with the drop-ins of the guide, for waits for zone locks and for HTTP
#
# and that the same checks fail for units with planted mistakes. Takes three to five minutes on 2 CPUs, most of it waiting, and two
# more where the root file system is not in the build folder yet. Prints `SKIPPED systemd: REASON` where QEMU or Debian cannot be
# installed.
#
# PAGESET_BUILT is a folder with the command and both libraries, built already.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/tools.sh" systemd
cd "$(dirname "${BASH_SOURCE[0]}")/.."
[[ $(id -u) == 0 ]] || skip "making a root file system takes root"
[[ $(uname -m) == x86_64 ]] || skip "the guest is for x86_64"
command -v apt-get >/dev/null || skip "there is no apt-get to get packages with"
need qemu-system-x86_64 qemu-system-x86
need mmdebstrap
need mke2fs e2fsprogs

cache=$(realpath -m "${CARGO_TARGET_DIR:-target}/systemd")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$cache"

# The machine's own release: what is built here runs there.
suite=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
base=$cache/$suite.tar
if [[ ! -s $base ]]; then
    echo "making a root file system of $suite"
    mmdebstrap --quiet --format=tar --variant=minbase --include=systemd-sysv,linux-image-cloud-amd64 \
        --dpkgopt=path-exclude='/usr/share/doc/*' --dpkgopt=path-exclude='/usr/share/man/*' \
        --dpkgopt=path-exclude='/usr/share/locale/*' "$suite" "$base.part" >"$cache/log" 2>&1 ||
        skip "$suite cannot be installed: $(tail -n 1 "$cache/log")"
    mv "$base.part" "$base"
fi
root=$work/root
mkdir "$root" "$work/packages"
tar -xf "$base" -C "$root"

# The packages of the library come after that of the command; they are not needed here.
bash ci/packages.sh "$work/packages" >"$work/packed" 2>&1 || true
if ! deb=$(compgen -G "$work/packages/pageset_*.deb"); then
    reason=$(sed -n 's/^SKIPPED [^:]*: //p' "$work/packed")
    [[ -z $reason ]] || skip "$reason"
    cat "$work/packed" >&2 && echo "error: there is no package to install" >&2 && exit 1
fi
cp "$deb" "$root/pageset.deb"
chroot "$root" dpkg --install /pageset.deb >"$work/said" 2>&1 || { cat "$work/said" >&2 && exit 1; }
rm "$root/pageset.deb"

install -m 755 ci/systemd-guest.sh "$root/usr/local/bin/check"
cat >"$root/etc/systemd/system/check.service" <<'UNIT'
[Unit]
# A service that multi-user.target wants cannot wait for it.
After=basic.target
SuccessAction=poweroff-force
FailureAction=poweroff-force
[Service]
Type=oneshot
ExecStart=/usr/local/bin/check
Environment=SYSTEMD_COLORS=0 SYSTEMD_URLIFY=0
StandardOutput=tty
StandardError=tty
TTYPath=/dev/ttyS0
[Install]
WantedBy=multi-user.target
UNIT
chroot "$root" systemctl enable --quiet check.service
# A login prompt would take the serial port away.
chroot "$root" systemctl mask --quiet serial-getty@ttyS0.service
kernel=$(compgen -G "$root/boot/vmlinuz-*")
initrd=$(compgen -G "$root/boot/initrd.img-*")
mke2fs -q -t ext4 -d "$root" "$work/disk" 1G >/dev/null

# As the lab's machines: one thread of the host emulates all CPUs.
# One CPU: on two, a kernel whose CPUs never queue for a lock shows no wait, and `top` says that waits are not measured so far.
timeout 1200 qemu-system-x86_64 -machine pc -cpu Skylake-Client,-hle,-rtm -accel tcg,thread=single -smp 1 -m 1G -display none \
    -monitor none -no-reboot -nic none -serial "file:$work/console" -kernel "$kernel" -initrd "$initrd" \
    -drive "if=virtio,format=raw,cache=unsafe,file=$work/disk" \
    -append "console=ttyS0 root=/dev/vda rw panic=-1 quiet mitigations=off tsc=reliable" 2>"$work/said" ||
    { tail -n 40 "$work/said" "$work/console" >&2 && echo "error: the guest did not end" >&2 && exit 1; }
tr -d '\r' <"$work/console" | sed -n 's/^CHECK //p'
grep -q '^CHECK done' "$work/console" || { tail -n 60 "$work/console" >&2 && echo "error: the unit fails a check" >&2 && exit 1; }
