#!/bin/bash
# Runs in the guest of ci/systemd.sh, as a service. Each line that begins with `CHECK ` is for the host; the last one of a good
# run is `CHECK done`.
set -uo pipefail
unit=pageset-top
file=/run/pageset/metrics
say() { echo "CHECK $*"; }
of() { systemctl show --value --property "$1" $unit; }

# `within SECONDS COMMAND…`: repeats the command until it succeeds.
within() {
    local end=$((SECONDS + $1))
    shift
    until "$@"; do
        ((SECONDS < end)) || return 1
        sleep 0.5
    done
}
# The sum of a metric's samples in a text.
sum() { awk -v name="$1" '$1 ~ "^" name "({|$)" { sum += $NF } END { printf "%d\n", sum }'; }
has_metrics() { [[ -s $file ]]; }
newer_than() { [[ $file -nt $1 ]]; }
# How long the metrics may take: two intervals, and the start of an emulated `top`, which its CPUQuota slows down.
limit=120

# Prints why the running unit is not as it should be; nothing if it is.
wrong() {
    local pid status
    [[ $(of ActiveState) == active ]] || { echo "the unit is $(of ActiveState)" && return; }
    pid=$(of MainPID)
    status=$(</proc/"$pid"/status)
    awk '$1 == "Uid:" && ($2 == 0 || $3 == 0 || $4 == 0) { exit 1 }' <<<"$status" || { echo "it runs as root" && return; }
    # Bits 38 and 39: CAP_PERFMON and CAP_BPF.
    for set in CapPrm CapEff CapBnd; do
        grep -q "^$set:.000000c000000000\$" <<<"$status" || { echo "other capabilities: $(grep "^$set" <<<"$status")" && return; }
    done
    within $limit has_metrics || { echo "no $file after $limit s" && return; }
    local first then=/run/then
    first=$(<"$file")
    touch -r "$file" $then
    [[ $first == *$'\n# EOF' ]] || { echo "$file does not end" && return; }
    (($(sum pageset_zone_managed_pages <<<"$first") > 100000)) || { echo "$file does not have the zones" && return; }
    # A file in memory, far larger than the pagesets, takes pages and gives them back.
    for _ in {1..4}; do head --bytes 64M /dev/zero >/dev/shm/load && rm /dev/shm/load; done
    within $limit newer_than $then || { echo "$file is not written again after $limit s" && return; }
    # The load may take longer than an interval: the file that came first need not have all of it.
    grew() { (($(sum "$1" <"$file") > $(sum "$1" <<<"$first"))); }
    for metric in refill drain; do
        within $limit grew pageset_${metric}_pages_total ||
            { echo "${metric}s do not grow under load: $(grep -c "^pageset_${metric}_pages_total" $file) samples" && return; }
    done
}
fail() {
    say "error: $1"
    systemctl status --no-pager --full $unit
    journalctl --no-pager -u $unit | tail -n 20
    sleep 2 # The serial port is slow, and the machine ends with this service.
    exit 1
}
# `drop_in LINES`: replaces the unit's only drop-in, and starts the unit anew.
drop_in() {
    systemctl stop $unit
    systemctl reset-failed $unit 2>/dev/null
    mkdir -p /run/systemd/system/$unit.service.d
    printf '[Service]\n%s\n' "$1" >/run/systemd/system/$unit.service.d/check.conf
    systemctl daemon-reload
    systemctl start $unit
}

# As installed. The start of a unit without its program fails.
mv /usr/bin/pageset /usr/bin/pageset.away
systemctl start $unit 2>/dev/null && fail "a start without the program succeeds"
systemctl stop $unit
systemctl reset-failed $unit 2>/dev/null
mv /usr/bin/pageset.away /usr/bin/pageset
say "$(uname -r), $(systemctl --version | head -n 1), up for $(cut -d. -f1 /proc/uptime) s"
systemctl enable --now --quiet $unit || fail "the unit does not start"
begin=$SECONDS
reason=$(wrong)
[[ -z $reason ]] || fail "$reason"
say "it runs as user $(stat -c %u /proc/"$(of MainPID)"), writes metrics, and counts ($((SECONDS - begin)) s)"
# After its start: emulated, that takes seconds.
before=$(of CPUUsageNSec) began=$(date +%s%N)
sleep 16
used=$((($(of CPUUsageNSec) - before) * 1000 / ($(date +%s%N) - began)))
quota=$(of CPUQuotaPerSecUSec)
say "it uses $used/1000 of an emulated CPU, of $quota each second; $(($(of MemoryCurrent) / 1024)) KiB"
# The kernel enforces the quota, so a service that always reaches it would show about as much.
[[ $quota == 50ms ]] && ((used < 25)) || fail "that is not below half of the quota"

# Its ends.
pid=$(of MainPID)
systemctl kill --signal KILL $unit
restarted() { [[ $(of ActiveState) == active && $(of MainPID) != "$pid" && $(of NRestarts) == 1 ]]; }
within 60 restarted || fail "it does not restart within 60 s after SIGKILL"
within $limit has_metrics || fail "it writes nothing after its restart"
grep -q '^pageset_zone_lock_waits_total' $file && fail "it counts waits for zone locks without CAP_SYSLOG"
systemctl stop $unit
[[ $(of ActiveState) == inactive && $(of Result) == success ]] || fail "stopped, it is $(of ActiveState), $(of Result)"
[[ ! -e /run/pageset ]] || fail "stopped, it leaves /run/pageset"
say "it restarts after SIGKILL, and stops"

# The drop-ins of the guide, without the quota: to read the addresses of all functions takes an emulated CPU seconds.
once=$'ExecStart=\nExecStart=/usr/bin/pageset top --interval 1 --openmetrics /run/pageset/metrics\nCPUQuota='
drop_in "$once"$'\nAmbientCapabilities=CAP_SYSLOG\nCapabilityBoundingSet=CAP_SYSLOG'
within $limit has_metrics || fail "it writes nothing with CAP_SYSLOG"
grep -q '^pageset_zone_lock_waits_total' $file || fail "it counts no waits for zone locks with CAP_SYSLOG"
drop_in $'ExecStart=\nExecStart=/usr/bin/pageset top --interval 1 --listen 127.0.0.1:9763'
get() {
    exec 3<>/dev/tcp/127.0.0.1/9763 || return 1
    printf 'GET /metrics HTTP/1.0\r\n\r\n' >&3
    tail -n 1 <&3 | grep -qx '# EOF'
} 2>/dev/null
within $limit get || fail "it serves no metrics with --listen"
say "it counts waits for zone locks with CAP_SYSLOG, and serves HTTP"

# What the checks above have to find, and with which reason. The interval is 1 s. Without a mistake they find nothing.
limit=60
drop_in "$once"
reason=$(wrong)
[[ -z $reason ]] || fail "without a mistake: $reason"
# `planted MISTAKE REASON`: a drop-in, and the beginning of what `wrong` has to say.
planted() {
    drop_in "$once"$'\n'"$1"
    local reason mistake=${1##*$'\n'}
    reason=$(wrong)
    [[ $reason == "$2"* ]] || fail "with $mistake the checks say: ${reason:-nothing}"
    say "planted $mistake: $reason"
}
planted $'AmbientCapabilities=\nAmbientCapabilities=CAP_PERFMON' 'other capabilities'
planted $'RuntimeDirectory=\nRuntimeDirectory=pageste' "no $file"
planted DynamicUser=no 'it runs as root'
planted 'SystemCallFilter=~bpf' 'refills do not grow'
say done
