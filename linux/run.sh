#!/usr/bin/env bash
# Builds the module for a kernel of the distribution and runs it in a guest. `run.sh --help` lists the options.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

usage='usage: linux/run.sh [OPTION...] [KERNEL]

Builds pageset.ko and its users for the newest kernel package whose release begins with KERNEL (6.12), boots that kernel
under QEMU, and prints how many instructions a pair of calls takes, next to alloc_pages. With KVM a second guest measures ns.

  --here             instead loads the modules into this machine, which may crash, and measures ns; KERNEL is that of the machine
  --survive          instead loads the module 100 times, does random operations with interrupts, memory pressure and a CPU that comes
                     and goes, maps /dev/pageset, and plants faults
  --operations N     operations of each CPU, with --survive (1000000)
  --cpus N           CPUs (2); the comparison uses 1, 2, 4 … of them
  --nodes N          nodes (1)
  --memory MIB       memory that the module takes from each node (1200; with --survive 256)
  --flavour NAME     cloud, or rt with --survive: the kernel for real time, whose alloc_pages may not run with interrupts masked (cloud)
  --timeout SECONDS  how long the guest may take (900)
  --dir FOLDER       where packages and builds lie (linux/target)

Missing tools are installed if you are root: QEMU, busybox, make, and the compiler of the kernel. The Rust toolchain is nightly with
the component rust-src. Exit code: 0 done, 1 a check failed, 2 wrong option, 3 something is missing.'

# The most code that the module has after its load, in bytes, and that of its calls, without audit and statistics.
most_text=75000 most_calls_text=59600
do=compare cpus=2 nodes=1 memory='' operations=1000000 timeout=900 flavour=cloud dir=$here/target kernel=''
while (($#)); do
    case $1 in
    --help) echo "$usage" && exit ;;
    --survive | --here) do=${1#--} && shift ;;
    --cpus | --nodes | --memory | --operations | --timeout | --flavour | --dir)
        (($# > 1)) || { echo "error: $1 needs a value; try --help" >&2 && exit 2; }
        [[ $1 == --dir || $1 == --flavour || $2 =~ ^[1-9][0-9]{0,8}$ ]] || { echo "error: $1 needs a number from 1 to 999999999, not $2" >&2 && exit 2; }
        printf -v "${1#--}" '%s' "$2" && shift 2
        ;;
    -*) echo "error: unknown option $1; try --help" >&2 && exit 2 ;;
    *)
        [[ ! $kernel && $1 =~ ^[0-9][0-9.]*$ ]] || { echo "error: one KERNEL is allowed, such as 6.12, not ${kernel:+$kernel and }'$1'" >&2 && exit 2; }
        kernel=$1 && shift
        ;;
    esac
done
kernel=${kernel:-6.12}
[[ $flavour == cloud || $flavour == rt && $do == survive ]] || {
    echo "error: --flavour may be cloud, or rt with --survive, not $flavour" >&2 && exit 2
}
((cpus <= 64 && nodes <= 16)) || { echo "error: at most 64 CPUs and 16 nodes, not $cpus and $nodes" >&2 && exit 2; }
[[ $memory ]] || { [[ $do == survive ]] && memory=256 || memory=1200; }
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
missing() {
    echo "error: $1" >&2
    exit 3
}

# ---- the kernel: packages that are unpacked, not installed
command -v apt-get >/dev/null || missing "there is no apt-get to get a kernel with"
newest() {
    apt-cache pkgnames "linux-headers-$kernel" | grep -E "^linux-headers-${kernel//+/\\+}([.+-].*)?-$flavour-amd64$" | sort -V | tail -n 1
}
if [[ $do == here ]]; then
    [[ $(id -u) == 0 ]] || missing "loading a module takes root"
    newest() { apt-cache pkgnames "linux-headers-$(uname -r)" | grep -xF "linux-headers-$(uname -r)"; }
fi
headers=$(newest || true)
# A container may have no lists of packages yet.
[[ $headers ]] || { apt-get update >/dev/null 2>&1 || true; headers=$(newest || true); }
[[ $headers || $do != here ]] || missing "no package linux-headers-$(uname -r) for the kernel of this machine"
[[ $headers ]] || missing "no package linux-headers-$kernel*-$flavour-amd64; try another KERNEL, or add its suite to apt's sources"
release=${headers#linux-headers-}
root=$dir/kernels/$release
depends_of() { apt-cache depends "$1" | sed -n 's/^[ |]*Depends: //p'; }
depends=$(depends_of "$headers")
image() { ls "$root/boot/vmlinuz-$release" "$root/usr/lib/modules/$release/vmlinuz" 2>/dev/null | head -n 1 || true; }
if [[ ! -e $root/complete || ! $(image) ]]; then
    echo "downloading the packages of $release" >&2
    rm -rf "$root" && mkdir -p "$root/debs"
    packages="$headers linux-image-$release $(grep -E '^linux-(headers-.*-common|kbuild-)' <<<"$depends")"
    # Since 7.2 the image itself has a package of its own.
    packages+=" $(depends_of "linux-image-$release" | grep '^linux-binary-' || true)"
    # shellcheck disable=SC2086
    (cd "$root/debs" && apt-get download $packages >"$root/log" 2>&1) ||
        missing "cannot download the packages of $release: $(tail -n 1 "$root/log")"
    for deb in "$root"/debs/*.deb; do dpkg-deb -x "$deb" "$root"; done
    rm -rf "$root/debs"
    # The packages name the folder that they would be installed in. Type information takes tools that we do without.
    sed -i "s|/usr/src/|$root/usr/src/|" "$root/usr/src/$headers/Makefile"
    rm -f "$root/usr/src/$headers/vmlinux"
    touch "$root/complete"
fi
image=$(image)
[[ $image ]] || missing "the packages of $release have no image of the kernel"

# ---- tools
tools=()
busybox=$(command -v busybox || true)
# What only a guest needs.
if [[ $do != here ]]; then
    command -v qemu-system-x86_64 >/dev/null || tools+=(qemu-system-x86)
    [[ $busybox ]] && ! ldd "$busybox" >/dev/null 2>&1 || tools+=(busybox-static)
fi
command -v make >/dev/null || tools+=(make)
compiler=$(grep -oE 'gcc-[0-9]+' <<<"$depends" | head -n 1 || true)
compiler=${compiler:-gcc}
command -v "x86_64-linux-gnu-$compiler" >/dev/null || tools+=("$compiler")
if ((${#tools[@]})); then
    [[ $(id -u) == 0 ]] || missing "these packages are missing, and installing them takes root: ${tools[*]}"
    { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${tools[@]}"; } \
        >"$dir/tools.log" 2>&1 || missing "cannot install ${tools[*]}: $(tail -n 1 "$dir/tools.log")"
    busybox=$(command -v busybox || true)
fi
rustup component list --toolchain nightly --installed 2>/dev/null | grep '^rust-src' >/dev/null ||
    rustup toolchain install nightly --profile minimal --component rust-src >"$dir/tools.log" 2>&1 ||
    missing "cannot install a nightly toolchain with rust-src: $(tail -n 1 "$dir/tools.log")"

# ---- the allocator: one object with absolute addresses
unset RUSTFLAGS
(cd "$here" && CARGO_TARGET_DIR=$dir cargo +nightly build --quiet --locked --release) || { echo "error: the allocator does not build" >&2 && exit 1; }
archive=$dir/x86_64-unknown-none/release/libpageset_linux.a
module=$dir/module/$release
mkdir -p "$module"
objects=$(ar t "$archive" | grep '^pageset_linux')
[[ $(wc -l <<<"$objects") == 1 ]] || { echo "error: the allocator is not one object: $objects" >&2 && exit 1; }
ar p "$archive" "$objects" >"$module/core.new"
strip --strip-debug "$module/core.new"
# `grep -q` would end the pipe early, and a pipe that ended early counts as failed.
if readelf -rW "$module/core.new" | grep GOT >/dev/null; then
    echo "error: the allocator has relocations that a module cannot have" >&2 && exit 1
fi
if objdump -d "$module/core.new" | grep -E '%[xyz]mm' >/dev/null; then
    echo "error: the allocator uses vector registers, which a kernel does not save" >&2 && exit 1
fi
# reached ROOT...: links what the functions need. The sections of the others go to standard output.
reached() {
    ld -r --gc-sections --print-gc-sections -e "$1" "${@/#/--undefined=}" -o "$module/reached" "$module/core.new" 2>&1 |
        sed -n "s/.*removing unused section '\(\.text[^']*\)'.*/\1/p"
}
# The bytes of the sections whose code is there while the module is.
text_of() { size -A "$1" | awk '$1 ~ /^\.(exit\.)?text/ || $1 ~ /^\.altinstr_repl/ { sum += $2 } END { print sum + 0 }'; }
mapfile -t after < <(nm "$module/core.new" | awk '$2 == "T" && $3 ~ /^core_/ && $3 !~ /^core_(build|metadata)$/ { print $3 }')
mapfile -t calls < <(printf '%s\n' "${after[@]}" | grep -vE '^core_(audit|zoneinfo|counters)$')
reached "${calls[@]}" >/dev/null
calls_text=$(text_of "$module/reached")
# What only the load needs goes where the kernel frees it after the load.
mapfile -t load < <(reached "${after[@]}")
after_text=$(text_of "$module/reached")
rm -f "$module/reached"
((${#load[@]})) || { echo "error: no code of the allocator is only for the load" >&2 && exit 1; }
for section in "${load[@]}"; do printf -- '--rename-section\n%s=.init%s\n' "$section" "$section"; done >"$module/load"
objcopy "@$module/load" "$module/core.new"
rm -f "$module/load"
cmp -s "$module/core.new" "$module/core.rust" || mv "$module/core.new" "$module/core.rust"
rm -f "$module/core.new"

# ---- the module
for file in "$here"/module/*; do cmp -s "$file" "$module/${file##*/}" || cp "$file" "$module/"; done
make -s -C "$root/usr/src/$headers" M="$module" modules >"$module/log" 2>&1 || {
    cat "$module/log" >&2
    echo "error: the module does not build for $release" >&2
    exit 1
}

text=$(text_of "$module/pageset.ko")
calls_text=$((text - after_text + calls_text - $(text_of "$module/statistics.o")))

if [[ $do == here ]]; then
    said=$dir/here-$release.log mark="pageset: here $$"
    begin=$SECONDS
    echo "$mark" >/dev/kmsg
    insmod "$module/pageset.ko" "mib=$memory" && insmod "$module/pageset_bench.ko" && rmmod pageset_bench || true
    rmmod pageset || true
    { echo "GUEST kernel $release" && dmesg | sed "1,/$mark/d"; } >"$said"
    exec bash "$here/table.sh" here "$said" "$((SECONDS - begin))" "$text" "$calls_text" "$said"
fi

# ---- the guest
guest=$(mktemp -d)
trap 'rm -rf "$guest"' EXIT
mkdir -p "$guest/root/bin"
cp "$busybox" "$guest/root/bin/busybox"
cp "$module"/pageset*.ko "$guest/root/"
install -m 755 "$here/init" "$guest/root/init"
"x86_64-linux-gnu-$compiler" -O1 -static -nostdlib -ffreestanding -fno-stack-protector -fno-pie -no-pie -o "$guest/root/guest" "$here/guest.c"
(cd "$guest/root" && find . | "$busybox" cpio -o -H newc 2>/dev/null) >"$guest/initrd"
# Without memory that only the comparison needs, a program fills the guest sooner.
[[ $do == compare ]] && each=$((2 * memory + 800)) || each=$((memory + 400))
machine=(-nodefaults -no-reboot -display none -machine pc
    -m "$((nodes * each))M" -serial stdio)
if ((nodes > 1)); then
    for ((node = 0; node < nodes; node++)); do
        machine+=(-object "memory-backend-ram,id=m$node,size=${each}M" -numa "node,nodeid=$node,memdev=m$node")
    done
    for ((cpu = 0; cpu < cpus; cpu++)); do
        machine+=(-numa "cpu,node-id=$((cpu * nodes / cpus)),socket-id=0,core-id=$cpu,thread-id=0")
    done
fi
# boot FILE OPTION...: runs the guest. Its console goes to the file.
boot() {
    local said=$1
    shift
    timeout --foreground "$timeout" qemu-system-x86_64 "${machine[@]}" "$@" -kernel "$image" -initrd "$guest/initrd" \
        -append "console=ttyS0 panic=-1 loglevel=7 mitigations=off init_on_alloc=0 tsc=reliable do=$do mib=$memory operations=$operations" \
        </dev/null 2>&1 | sed -u 's/\r//g' >"$said" || true
    grep -q '^GUEST done' "$said"
}
said=$dir/$do-$release-$cpus-cpus.log
begin=$SECONDS
echo "booting $release" >&2
boot "$said" -cpu "Skylake-Client,-hle,-rtm" -smp "$cpus" -accel "tcg,thread=single" -icount "shift=0,sleep=off" || {
    tail -n 30 "$said" >&2
    echo "error: the guest did not come to its end; it may take $timeout s; its console is $said" >&2
    exit 1
}
times=- no_time=''
if [[ $do == compare ]] && no_time=$(bash "$here/clock.sh" "$cpus" "$nodes"); then
    times=$dir/times-$release-$cpus-cpus.log
    # More CPUs than the host has would wait for each other.
    boot "$times" -cpu host -smp "$((cpus < $(nproc) ? cpus : $(nproc)))" -accel kvm ||
        { times=- no_time="a guest with KVM did not come to its end; its console is $times"; }
fi
zoneinfo=$dir/zoneinfo-$release.txt
[[ $do != survive ]] || sed -n 's/^GUEST zoneinfo //p' "$said" >"$zoneinfo"
bash "$here/table.sh" "$do" "$said" "$((SECONDS - begin))" "$text" "$calls_text" "$times" "$no_time"
((calls_text <= most_calls_text && text <= most_text)) || {
    echo "error: the module has $text bytes of code, $calls_text of them for its calls; at most $most_text and $most_calls_text are allowed" >&2
    exit 1
}
[[ $do != survive ]] || echo "pageset top --from $zoneinfo shows its zones."
