#!/usr/bin/env bash
# The pool's soak in a cgroup of version 2 whose memory is just enough, and whose CPUs come and go: a guest under QEMU, since only a
# root cgroup may hand out controllers, and this machine's may be others' or of version 1. The soak checks owners of pages, counts and
# resident memory (crates/pageset-host/tests/soak.rs); here it must also have come near the limit of memory, and its CPUs must have changed.
# The same soak with half of that memory must be killed: the limit is real.
#
# Prints `SKIPPED cgroup: REASON` where QEMU, a static busybox or a kernel is missing. The kernel is one that ci/linux.sh or ci/lab.sh
# unpacked, or that of this machine.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
skip() {
    echo "SKIPPED cgroup: $1"
    exit 0
}
command -v qemu-system-x86_64 >/dev/null || skip "there is no QEMU; ci/linux.sh installs one"
busybox=$(command -v busybox) && ! ldd "$busybox" >/dev/null 2>&1 || skip "there is no static busybox; ci/linux.sh installs one"
target=${CARGO_TARGET_DIR:-target}
kernel=${CGROUP_KERNEL:-$(compgen -G "${LINUX_DIR:-$target/linux}/kernels/*/boot/vmlinuz-*" | head -n 1 || true)}
kernel=${kernel:-$(compgen -G "$target/lab*/kernels/*/boot/vmlinuz-*" | head -n 1 || true)}
kernel=${kernel:-$(compgen -G '/boot/vmlinuz-*' | tail -n 1 || true)}
[[ $kernel && -r $kernel ]] || skip "there is no kernel to boot; ci/linux.sh unpacks one"
soak=$(sh ci/built.sh pool_soak)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
mkdir -p "$root"/{bin,proc,sys/fs/cgroup,dev,tmp}
cp "$busybox" "$root/bin/busybox"
cp "$soak" "$root/soak"
# The loader and the libraries, at their places.
ldd "$soak" | grep -o '/[^ ]*' | while read -r library; do
    mkdir -p "$root${library%/*}"
    cp "$library" "$root$library"
done
cat >"$root/init" <<'INIT'
#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc && mount -t sysfs sys /sys && mount -t devtmpfs dev /dev
mount -t cgroup2 cgroup2 /sys/fs/cgroup
say() { echo "CHECK $*"; }
cd /sys/fs/cgroup
echo '+memory +cpuset' >cgroup.subtree_control
export PAGESET_SOAK_SEED=1

# soak MEMORY SECONDS: runs it in a new cgroup; its result is the status.
soak() {
    mkdir pool
    echo "$1" >pool/memory.max
    (echo 0 >pool/cgroup.procs && PAGESET_SOAK_SECONDS=$2 exec /soak --nocapture >/tmp/said 2>&1) &
    pid=$!
    changes=0
    while kill -0 $pid 2>/dev/null; do
        for cpus in 0 0-1 1 0-1; do
            echo $cpus >pool/cpuset.cpus && [ "$(cat pool/cpuset.cpus.effective)" = $cpus ] && changes=$((changes + 1))
            usleep 30000
        done
    done
    wait $pid
    status=$?
    peak=$(cat pool/memory.peak)
    killed=$(awk '$1 == "oom_kill" { print $2 }' pool/memory.events)
    at_limit=$(awk '$1 == "max" { print $2 }' pool/memory.events)
    rmdir pool
    return $status
}
LEAST=$((MEMORY / 10 * 9))
if soak $MEMORY $SECONDS_OF_SOAK; then
    say "in $((MEMORY >> 20)) MiB: at most $((peak >> 20)) MiB, $at_limit times at the limit, $changes changes of the CPUs, $(grep -o 'operations: [0-9]*' /tmp/said)"
    [ $peak -ge $LEAST ] || say "error: it did not come near the limit"
    [ $killed = 0 ] || say "error: $killed processes were killed"
    [ $changes -ge 40 ] || say "error: the CPUs changed $changes times"
    if soak $((MEMORY / 2)) $SECONDS_OF_SOAK || [ $killed = 0 ]; then
        say "error: with half of the memory it is not killed"
    else
        say "with half of the memory it is killed"
        say done
    fi
else
    cat /tmp/said
    say "error: the soak failed with status $status in $MEMORY bytes: $killed processes killed, at most $peak bytes"
fi
poweroff -f
INIT
# The pool has 288 to 320 MiB. The rest is the program's, with its stacks and page tables: 322 MiB in one run.
sed -i "2i MEMORY=$((${CGROUP_MIB:-336} << 20)) SECONDS_OF_SOAK=${CGROUP_SECONDS:-6}" "$root/init"
chmod +x "$root/init"
(cd "$root" && find . | "$busybox" cpio -o -H newc 2>/dev/null) | gzip -1 >"$work/initrd"
# Not KVM: nested, it may fail in the middle, and a clock that runs while the host does something else is no help here.
timeout 300 qemu-system-x86_64 -machine pc -cpu Skylake-Client,-hle,-rtm -accel tcg -smp 2 -m 1G -display none -monitor none -no-reboot -nic none \
    -serial "file:$work/console" -kernel "$kernel" -initrd "$work/initrd" \
    -append "console=ttyS0 panic=-1 quiet mitigations=off" 2>"$work/said" ||
    { tail -n 40 "$work/said" "$work/console" >&2 && echo "error: the guest did not end" >&2 && exit 1; }
tr -d '\r' <"$work/console" | sed -n 's/^CHECK //p'
grep -q '^CHECK done' "$work/console" && ! grep -q '^CHECK error' "$work/console" ||
    { tail -n 40 "$work/console" >&2 && echo "error: a check of the cgroup failed" >&2 && exit 1; }
