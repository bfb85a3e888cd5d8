#!/usr/bin/env bash
# Tests without a guest: when the comparison measures time (clock.sh), that its table (table.sh) has no time otherwise, and what
# `run.sh --here` installs.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# expect WHAT PATTERN TEXT: the text has a line that matches.
expect() {
    grep -qE -- "$2" <<<"$3" || { echo "error: $1: no line matches '$2' in:" && echo "$3" && exit 1; }
}
refuse() {
    ! grep -qE -- "$2" <<<"$3" || { echo "error: $1: a line matches '$2' in:" && echo "$3" && exit 1; }
}

echo 'flags : fpu vme svml' >"$work/without"
echo 'flags : fpu vmx sse' >"$work/with"
touch "$work/kvm"
for of in none/with kvm/without none/without; do
    ! said=$(bash "$here/clock.sh" 1 1 "$work/${of%/*}" "$work/${of#*/}") || { echo "error: $of counts as a clock of time" && exit 1; }
    expect "$of" 'cannot be written|no virtualisation' "$said"
done
clock() { bash "$here/clock.sh" "$@" "$work/kvm" "$work/with" || echo "exit $?"; }
for of in '1 1' '1 2' '65536 1'; do
    # shellcheck disable=SC2086
    refuse "clock $of" . "$(clock $of)"
done
expect 'clock in nodes' '^65536 CPUs in nodes are more than the [0-9]+ of this machine$' "$(clock 65536 2)"
expect 'clock in nodes' '^exit 1$' "$(clock 65536 2)"

cells() {
    echo 'GUEST kernel 6.12'
    for order in 3 4; do
        echo "[    1.5] pageset_bench: cell cpus=1 pattern=hold order=$order held=32 $1 holds=9,7 waits=0,0 refused=0,0"
    done
}
{
    cells 'loop=600 alloc_pages=9000 pageset=3000'
    for round in 0 10 20; do
        for who in pageset alloc_pages; do echo "pageset_bench: fragmentation allocator=$who pages=1024 round=$round huge=$round"; done
    done
} >"$work/counts"
cells 'ns=20,1234,456' >"$work/times"
table() { bash "$here/table.sh" "$1" "$work/$2" 1 2 3 "${@:3}" 2>&1 || echo "exit $?"; }
said=$(table compare counts - 'the reason')
expect counts '^   1  hold        3    32      300          900     33 %        7           9 ' "$said"
expect counts '^No time is measured: the reason\.$' "$said"
refuse counts ' ns |exit' "$said"
sed '/allocator=alloc_pages/s/pages=1024/pages=1000/' "$work/counts" >"$work/unequal"
said=$(table compare unequal - why)
expect unequal '^error: alloc_pages fills 1000 pages in the pattern fragmentation, pageset 1024$' "$said"
expect unequal '^exit 1$' "$said"
# The console of an emulated guest has no times.
cp "$work/counts" "$work/emulated"
said=$(table compare counts "$work/emulated")
expect emulated '^No time is measured: the clock' "$said"
refuse emulated ' ns |exit' "$said"
said=$(table compare counts "$work/times")
expect times 'waits for a lock +ns a pair$' "$said"
expect times '^   1  hold        4    32 .* 45\.6 +123\.4$' "$said"
expect times '^pageset takes less time than alloc_pages in 2 of 2 cells' "$said"
refuse times 'No time|exit' "$said"
for line in 'GUEST failed the comparison ended early' 'pageset_bench: failed: no memory' '[    1.5] WARNING: CPU: 0 PID: 1'; do
    { cat "$work/times" && echo "$line"; } >"$work/failed"
    said=$(table compare counts "$work/failed")
    expect "KVM, $line" '^error: with KVM: (GUEST failed|pageset_bench: failed|WARNING: CPU)' "$said"
    expect "KVM, $line" '^exit 1$' "$said"
done
# A warning before the guest's first line is of the kernel.
{ echo 'WARNING: CPU' && cat "$work/times"; } >"$work/early"
refuse 'KVM, early' 'error:|exit' "$(table compare counts "$work/early")"
said=$(table here times "$work/times")
expect here '^pageset takes less time than alloc_pages in 2 of 2 cells, on this machine, Linux 6\.12\.$' "$said"
expect here '^   1  hold        3    32 +45\.6 +123\.4$' "$said"
# A cell with refused calls has a time that counts for nobody.
sed '/order=3/s/refused=0,0/refused=0,7/' "$work/times" >"$work/refused"
said=$(table here refused "$work/refused")
expect 'here, refused' '^pageset takes less time than alloc_pages in 1 of 1 cells' "$said"
expect 'here, refused' '^   1  hold        3    32 +45\.6 +123\.4$' "$said"
expect 'here, refused' '^Refused calls of alloc_pages, pageset: hold of order 3, 32 held, 1 CPU: 0,7\.$' "$said"
said=$(table compare counts "$work/refused")
expect 'KVM, refused' '^pageset takes less time than alloc_pages in 1 of 1 cells' "$said"
expect 'KVM, refused' '^Refused calls of .*: hold of order 3, 32 held, 1 CPU, with KVM: 0,7\.$' "$said"
sed -i 's/refused=0,0/refused=7,0/' "$work/refused"
refuse 'here, all refused' 'QEMU|exit' "$(table here refused "$work/refused")"
sed 's/refused=0,0/refused=7,0/' "$work/counts" >"$work/refused"
expect refused '^Refused calls of .*: hold of order 3, .*1 CPU: 7,0; hold of order 4, .*: 7,0\.$' "$(table compare refused - why)"
# All cells have a line, those without a time too.
{ cells 'ns=20,0,0' | sed 's/held=32/held=1/' && cat "$work/times"; } >"$work/some"
said=$(table here some "$work/some")
expect 'here, some' '^pageset takes less time than alloc_pages in 2 of 2 cells' "$said"
expect 'here, some' '^   1  hold        4    32 +45\.6 +123\.4$' "$said"
said=$(table here counts "$work/counts")
expect 'here, emulated' '^error: QEMU emulates this machine' "$said"
expect 'here, emulated' '^exit 1$' "$said"
echo 'GUEST kernel 6.12' >"$work/nothing"
said=$(table here nothing "$work/nothing")
expect 'here, nothing' '^the console: .*/nothing$' "$said"
expect 'here, nothing' ' The run took 1 s\.$' "$said"
expect 'here, nothing' '^error: no cell was measured: the modules did not load' "$said"
refuse 'here, nothing' 'QEMU' "$said"

# --here, where apt has no lists yet: fakes instead of apt, of the root user and of rustup, and all other programs as they are.
mkdir -p "$work/bin" && ln -s /usr/bin/* /bin/* "$work/bin/" 2>/dev/null || true
rm -f "$work"/bin/{qemu-system-x86_64,busybox,id,apt-get,apt-cache,rustup}
fake() { printf '#!/bin/bash\n%s\n' "$2" >"$work/bin/$1" && chmod +x "$work/bin/$1"; }
release=$(uname -r)
fake id 'echo 0'
fake apt-get "echo \"\$*\" >>$work/asked"
fake apt-cache "grep -q update $work/asked && [[ \$* == 'pkgnames linux-headers-$release' ]] && echo linux-headers-$release || true"
fake rustup 'exit 1'
mkdir -p "$work/here/kernels/$release/boot" && touch "$work/asked" "$work/here/kernels/$release/"{complete,"boot/vmlinuz-$release"}
said=$(PATH=$work/bin bash "$here/run.sh" --here --dir "$work/here" 2>&1 || echo "exit $?")
expect 'here, no lists' '^error: cannot install a nightly toolchain' "$said"
expect 'here, no lists' '^exit 3$' "$said"
refuse 'here, no lists' 'qemu|busybox' "$(cat "$work/asked")"
echo "the comparison says times only of clocks of time"
