#!/usr/bin/env bash
# The curves of engines/README.md: `engines/run.sh [FOLDER]` builds in FOLDER (default: target/engines), measures for about ten minutes and
# writes engines/*.csv. SQLite runs with its own cache on three allocators, and with our cache on the C library's.
#
# SECONDS_OF_A_PHASE (20) is how long each working set lasts, and ROUNDS (3) how often the speed test runs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
mkdir -p "${1:-target/engines}"
to=$(realpath "${1:-target/engines}")
bash engines/build.sh "$to"

# The allocators, from the packages of the distribution. They are not installed.
for package in libjemalloc2 libmimalloc2.0; do
    [[ -d $to/$package ]] || (cd "$to" && apt-get -qq -o APT::Sandbox::User=root download $package && dpkg-deb -x $package*.deb $package)
done
preload() { find "$to/$1" -name 'lib*.so.*' -type f | head -n 1; }
# with NAME COMMAND...: the command with that cache or allocator.
with() {
    local name=$1
    shift
    case $name in
    default) "$@" ;;
    jemalloc) LD_PRELOAD=$(preload libjemalloc2) "$@" ;;
    mimalloc) LD_PRELOAD=$(preload libmimalloc2.0) "$@" ;;
    pageset) PAGESET_PCACHE_MIB=640 "$@" ;;
    esac
}
names=(default jemalloc mimalloc pageset)

# SQLite's speed test: seconds of CPU time, and the largest resident memory. The rounds alternate.
echo "cache,round,cpu_seconds,resident_bytes" >"$to/speedtest1.csv"
for ((round = 1; round <= ${ROUNDS:-3}; round++)); do
    for name in "${names[@]}"; do
        rm -f "$to"/speed.db*
        with "$name" python3 -c '
import resource, subprocess, sys
subprocess.run(sys.argv[3:], check=True, stdout=subprocess.DEVNULL)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(sys.argv[1], sys.argv[2], round(used.ru_utime + used.ru_stime, 3), used.ru_maxrss * 1024, sep=",")' "$name" "$round" \
            "$to/speedtest1" --size 100 --journal wal --nosync --cachesize 20000 "$to/speed.db" | tee -a "$to/speedtest1.csv"
    done
done

# The working set that shrinks.
echo "cache,threads,second,phase,calls,cpu_ms,working_set_bytes,resident_bytes" >"$to/shrink.csv"
for threads in 1 2; do
    # The first run writes the databases.
    "$to/bench" setup "$to" "$threads" 1 >"$to/setup.log"
    for name in "${names[@]}"; do
        with "$name" "$to/bench" "$name" "$to" "$threads" "${SECONDS_OF_A_PHASE:-20}" | tee -a "$to/shrink.csv"
    done
done
cp "$to/speedtest1.csv" "$to/shrink.csv" engines/
python3 engines/table.py engines/speedtest1.csv engines/shrink.csv
