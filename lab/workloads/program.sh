#!/bin/sh
# `program NAME` runs a program of the root file system; every function is one. Servers run until their clients are done.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb LC_ALL=C
work=/var/tmp/work

# Starts a server and waits until it listens on a port.
serve() {
    port=$1
    shift
    command "$@" >/dev/null 2>&1 &
    server=$!
    for try in $(seq 100); do
        grep -q "$(printf ':%04X .* 0A ' "$port")" /proc/net/tcp && return
        sleep 0.2
    done
    exit 1
}

# Servers that a recording needs already: they start before it.
postgres_start() {
    pg_ctlcluster 15 main start
    su postgres -c 'createdb -T template0 bench; pgbench -i -s 1 -q bench'
}

# stress-ng: one function for each kind of load.
vm() { stress-ng --vm 2 --vm-bytes 96M --vm-ops 20000 -t "$1"; }
fork() { stress-ng --fork 2 --vfork 1 --exec 1 -t "$1"; }
ipc() { stress-ng --splice 1 --pipe 1 --mq 1 --shm 1 --sock 1 --tee 1 -t "$1"; }
files() { stress-ng --hdd 1 --hdd-bytes 16M --dentry 1 --rename 1 --fallocate 1 --fallocate-bytes 16M --temp-path . -t "$1"; }
map() { stress-ng --mmap 1 --mmap-bytes 32M --mremap 1 --mremap-bytes 16M --madvise 1 --brk 1 -t "$1"; }
thread() { stress-ng --pthread 1 --clone 1 --stack 1 --stack-fill --sigsegv 1 -t "$1"; }
huge() {
    stress-ng --vm 1 --vm-bytes 64M --vm-madvise hugepage -t "$1" &
    for state in never always madvise always; do
        echo $state >/sys/kernel/mm/transparent_hugepage/enabled
        sleep 1
    done
    wait $!
}
hugetlb() { echo 24 >/proc/sys/vm/nr_hugepages; stress-ng --mmaphuge 1 -t "$1"; echo 0 >/proc/sys/vm/nr_hugepages; }
ksm() { echo 1 >/sys/kernel/mm/ksm/run; stress-ng --vm 1 --vm-bytes 32M --ksm -t "$1"; echo 2 >/sys/kernel/mm/ksm/run; }
swap() { stress-ng --vm 2 --vm-bytes 120% --vm-keep -t "$1"; }
cgroup() { (echo 0 >/sys/fs/cgroup/lab/cgroup.procs; stress-ng --vm 2 --vm-bytes 80M --hdd 1 --hdd-bytes 32M --temp-path . -t "$1"); }
idle() { for i in $(seq "$1"); do sleep 1; ls -l /etc | wc -l; done; }

fio() { command fio --name=f --directory=. --size=8M --rw=randrw --bs=8k --ioengine=psync --numjobs=2 --clocksource=clock_gettime --time_based --runtime="$1"; }
uring() { command fio --name=u --directory=. --size=8M --rw=randrw --bs=4k --ioengine=io_uring --iodepth=16 --direct=1 --clocksource=clock_gettime --time_based --runtime="$1"; }
dd() { for i in 1 2; do command dd if=/dev/zero of=d bs=1M count=16 conv=fsync; command dd if=d of=/dev/null bs=64k; done; }

iperf() { serve 5201 iperf3 -s && iperf3 -c 127.0.0.1 -t "$1" -P 2; }
redis() {
    serve 6379 redis-server --save '' --appendonly no
    redis-benchmark -q -n 3000 -c 20 -d 3000 -r 2000 -t set,get,lpush && redis-cli bgsave && sleep 2
}
memcached() { serve 11211 memcached -u root -m 64 -t 4 && memcslap --servers=127.0.0.1 --concurrency=8 --execute-number=300 --initial-load=500; }
nginx() { serve 80 nginx -g 'daemon off;' && ab -q -n 800 -c 16 http://127.0.0.1/index.nginx-debian.html; }
postgres() { su postgres -c "pgbench -c 4 -j 2 -T $1 bench"; }

sqlite() {
    sqlite3 s.db 'create table t(a integer primary key, b text, c blob);
        with recursive n(i) as (select 1 union all select i + 1 from n where i < 8000)
            insert into t select i, hex(randomblob(20)), randomblob(200) from n;
        create index x on t(b); select count(*) from t where b like "%AB%"; delete from t where a % 3 = 0; vacuum;'
}
git() {
    command git init -q repository && cd repository || exit 1
    cp -r /usr/share/perl/5.36.0/[A-C]* . && command git add . &&
        command git -c user.name=l -c user.email=l@l commit -qm one && command git clone -q --no-local . ../other && command git gc -q
}
gcc() {
    for i in $(seq 8); do
        { echo '#include <stdio.h>'; echo '#include <math.h>'; for f in $(seq 20); do echo "double f$f(double x) { return sin(x * $f) + f$f(x - 1); }"; done; } >f"$i".c
    done
    printf '%%.o: %%.c\n\tgcc -O1 -c -o $@ $<\n' >Makefile
    make -j4 $(seq -f 'f%.0f.o' 8)
}
python() {
    python3 -c 'import json, multiprocessing
def work(n):
    d = {i: "x" * (i % 50) for i in range(8000 + n)}
    return len(json.dumps(d))
with multiprocessing.Pool(4) as pool: print(sum(pool.map(work, range(12))))'
}
# Maps, grows, writes and gives back memory, in two processes and over a file.
mmap() {
    python3 -c 'import mmap, os
def work(n):
    f = os.open(f"m{n}", os.O_RDWR | os.O_CREAT)
    for i in range(24):
        m = mmap.mmap(-1, (1 + i % 6) << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        for at in range(0, len(m), 4096): m[at] = i
        m.madvise(mmap.MADV_DONTNEED, 0, len(m) // 2)
        m.resize(len(m) + (1 << 20))
        m[-1] = 1
        os.ftruncate(f, (1 + i) << 16)
        s = mmap.mmap(f, 0)
        for at in range(0, len(s), 4096): s[at] = n
        s.flush(); s.close(); m.close()
pid = os.fork()
work(pid == 0)
if pid: os.waitpid(pid, 0)'
}
perl() {
    command perl -e 'for my $round (1 .. 4) { my %h;
        $h{sprintf "%08x", $_ * 2654435761 % 4294967296} .= "x" x ($_ % 90) for 1 .. 12000;
        open my $f, ">", "p$round"; print $f "$_ $h{$_}\n" for sort keys %h; close $f;
        open $f, "<", "p$round"; my @l = grep { /a(b|c) x*$/ } <$f>; print scalar(@l), "\n" }'
}
sort() { seq 150000 | command sort -R --random-source=/usr/bin/python3 | command sort -n -S 2M --parallel=2 -T . | command md5sum; }
tar() { command tar c -C /usr/lib/python3.11 asyncio email json | zstd -q -3 >t.zst && mkdir out && zstd -dcq t.zst | command tar x -C out; }
java() { command java -Xmx96m -version && keytool -genkeypair -alias a -keyalg RSA -keysize 2048 -dname CN=a -storepass secret -keystore k; }
convert() { for i in 1 2; do command convert -size 320x240 plasma:red-blue -blur 0x4 -resize 300% p$i.jpg; done; }
ffmpeg() { command ffmpeg -loglevel error -f lavfi -i testsrc=duration=2:size=320x240:rate=10 -c:v mpeg4 f.avi; }
rsync() { command rsync -a /usr/share/perl/5.36.0/unicore/ one && command rsync -a --checksum one/ two; }
overlay() {
    mount -t tmpfs none . && cd . && mkdir "$PWD"/up "$PWD"/w "$PWD"/m
    mount -t overlay none -o lowerdir=/usr/share,upperdir="$PWD"/up,workdir="$PWD"/w "$PWD"/m && cd "$PWD"/m || exit 1
    find perl perl5 -type f -exec touch {} + ; rm -r perl
    cd / && umount "$work/m" "$work"
}
dbench() { command dbench -c /usr/share/dbench/client.txt -t "$1" --skip-cleanup 3 | tail -n 3; }
hackbench() { command hackbench -g 2 -f 4 -l "$1" && command hackbench -T -p -g 2 -f 4 -l "$1"; }
fileio() {
    sysbench --file-num=4 --file-total-size=12M fileio prepare
    sysbench --file-num=4 --file-total-size=12M --file-test-mode=rndrw --threads=2 --time="$1" fileio run
}
sevenzip() { command tar cf a.tar -C /usr/lib/python3.11 email && 7z a -bd -mx=1 -mmt=3 a.7z a.tar && 7z x -bd -so a.7z | md5sum; }
squash() { mksquashfs /usr/share/perl/5.36.0/Unicode s.sq -no-progress -comp gzip -processors 3 && unsquashfs -n -d out s.sq; }
json() { seq 6000 | jq -c '{a: ., b: (. * 7 % 1000 | tostring), c: [range(. % 9)]}' >j && jq -s 'group_by(.b) | map(length) | add' j; }
lua() { lua5.4 -e 'for r = 1, 4 do local t = {} for i = 1, 60000 do t[i] = {i, ("x"):rep(i % 60)} end
    table.sort(t, function(a, b) return a[2] < b[2] or a[2] == b[2] and a[1] < b[1] end) collectgarbage() end'; }
php() { command php -r 'for ($r = 0; $r < 3; $r++) { $a = []; for ($i = 0; $i < 40000; $i++) $a["k" . ($i * 31 % 50000)][] = str_repeat("y", $i % 70);
    ksort($a); file_put_contents("p$r", serialize($a)); echo count(unserialize(file_get_contents("p$r"))), "\n"; }'; }
keys() { for i in 1 2 3; do openssl genrsa 1024 >k$i && openssl req -x509 -key k$i -subj /CN=a -days 9 >c$i; done; openssl speed -seconds 1 -multi 3 sha256; }
lz() { command tar cf l.tar -C /usr/lib/python3.11 json asyncio xml && lz4 -q -b1 -e3 -i1 l.tar; lz4 -q l.tar l.lz4 && lz4 -dc l.lz4 | md5sum; }
lighttpd() {
    mkdir www && for i in 1 2 3; do head -c $((i * 20000)) /usr/bin/perl >www/$i; done
    printf 'server.document-root = "%s/www"\nserver.port = 8080\nserver.modules = ()\n' "$PWD" >l.conf
    serve 8080 lighttpd -D -f l.conf && for i in 1 2 3; do ab -q -n 150 -c 8 -k http://127.0.0.1:8080/$i; done
}
sendfile() {
    python3 -c 'import os, socket, threading
open("s", "wb").write(os.urandom(1 << 20) * 3)
def serve(l):
    c, _ = l.accept(); f = open("s", "rb")
    for i in range(6): c.sendfile(f, 0)
    c.close()
l = socket.create_server(("127.0.0.1", 0)); threading.Thread(target=serve, args=(l,)).start()
c = socket.create_connection(l.getsockname()); n = 0
while b := c.recv(65536): n += len(b)
print(n)'
}
loop() { truncate -s 24M d && mke2fs -q -t ext4 -d /usr/share/perl/5.36.0/CPAN d && mkdir m && { mount -o loop d m && find m -type f | xargs cat | md5sum; umount m; e2fsck -fn d; }; }
checksums() { find /usr/bin /usr/lib/git-core -type f | head -n 60 | xargs -P 3 -n 10 sha256sum; }
xz() { command tar c -C /usr/lib/git-core . | head -c 1000000 | command xz -T2 -1 >x.xz; }

rm -rf "$work"
mkdir -p "$work"
cd "$work" || exit 1
program=$1
shift
"$program" "$@" || exit 1
[ -z "$server" ] || kill "$server"
