#!/usr/bin/env bash
# A study under real Slurm daemons on this machine: a controller and two nodes. Nine workers are killed at random and requeued, and
# then one of the nodes with its tasks. The table has to be the same, byte for byte, as that of a local run. Prints
# `SKIPPED slurm: REASON` where Slurm cannot be installed.
#
# The daemons get a configuration, a folder and ports of their own. All of them end with the script. PAGESET_BUILT is a folder
# with a built `pageset`; without it, the script builds one. STUDY_CELLS and STUDY_SECONDS (virtual, of each cell) change the
# study, STUDY_KILLS the number of killed workers. The last line compares the time of the worker processes with that of the
# finished cells alone.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/tools.sh" slurm
cd "$(dirname "${BASH_SOURCE[0]}")/.."

[ "$(id -u)" = 0 ] || skip "installing and running Slurm takes root"
for program in slurmctld slurmd munged; do need $program slurm-wlm munge; done

cells=${STUDY_CELLS:-200}
kills=${STUDY_KILLS:-9}
[ -n "${PAGESET_BUILT:-}" ] || cargo build --locked --quiet -p pageset-lab
pageset=$(realpath "${PAGESET_BUILT:-${CARGO_TARGET_DIR:-target}/debug}")/pageset-lab

dir=$(mktemp -d)
chmod 755 "$dir"
pids=()
finish() {
    for pid in "${pids[@]}"; do
        kill -KILL "$pid" 2>/dev/null || true
    done
    rm -rf "$dir"
}
trap finish EXIT
# Starts a daemon. The shell does not report its end.
start() {
    "$@" >>"$dir/daemons" 2>&1 &
    pids+=($!)
    disown
}

# An authentication service of our own: nothing of the machine's is used.
mkdir -m 700 "$dir/munge"
dd if=/dev/urandom of="$dir/munge/key" bs=1024 count=1 status=none
chmod 600 "$dir/munge/key"
start munged --foreground --force --key-file "$dir/munge/key" --socket "$dir/munge.socket" --pid-file "$dir/munge/pid" \
    --log-file "$dir/munge/log" --seed-file "$dir/munge/seed"

host=$(hostname -s)
mkdir "$dir/state" "$dir/spool1" "$dir/spool2"
export SLURM_CONF=$dir/slurm.conf
cat >"$SLURM_CONF" <<EOF
ClusterName=study
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=${STUDY_PORT:-16817}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$dir/munge.socket
CredType=cred/munge
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool%n
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd%n.pid
SlurmctldLogFile=$dir/slurmctld.log
SlurmdLogFile=$dir/slurmd%n.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,bf_interval=1
JobRequeue=1
ReturnToService=2
SlurmdTimeout=10
KillWait=2
MpiDefault=none
SwitchType=switch/none
MailProg=/bin/true
NodeName=1 NodeHostname=$host NodeAddr=127.0.0.1 Port=16821 CPUs=1
NodeName=2 NodeHostname=$host NodeAddr=127.0.0.1 Port=16822 CPUs=1
PartitionName=all Nodes=1,2 Default=YES State=UP
EOF
until [ -S "$dir/munge.socket" ]; do sleep 0.1; done
start slurmctld -D
start slurmd -D -N 1
start slurmd -D -N 2
second=${pids[-1]}
for _ in $(seq 100); do
    [ "$(sinfo -h -t idle -o %D 2>/dev/null)" = 2 ] && break
    sleep 0.2
done
[ "$(sinfo -h -t idle -o %D)" = 2 ] || { tail -n 40 "$dir/daemons"; echo "error: the two nodes did not come up"; exit 1; }

cat >"$dir/study.toml" <<EOF
machines = ["lkp-sb02"]
workloads = ["page_fault1", "malloc1"]
rules = ["linux-4.17", "pageset"]
tasks = [1, "all"]
seeds = $((cells / 8))
seconds = ${STUDY_SECONDS:-0.3}
warm_up = 0.01
EOF
"$pageset" study run "$dir/study.toml" --out "$dir/local" --jobs 2
# The processes of our jobs' workers. Only ours have this configuration in their environment.
workers() {
    (cd /proc && grep -lzxF "SLURM_CONF=$SLURM_CONF" [0-9]*/environ 2>/dev/null | cut -d/ -f1) | while read -r process; do
        [ "$(cat "/proc/$process/comm" 2>/dev/null)" = pageset-lab ] || continue
        grep -qz "^SLURM_JOB_ID=${1:-}" "/proc/$process/environ" 2>/dev/null && echo "$process"
    done || true
}
# The number of workers, once a second.
(
    while :; do
        echo "$(date +%s.%N) $(workers | wc -l)"
        sleep 1
    done >"$dir/running"
) 2>/dev/null &
pids+=($!)
disown
submitted=$("$pageset" study run "$dir/study.toml" --out "$dir/slurm" --executor slurm --shards 4)
echo "$submitted"
finished() {
    find "$dir/slurm/cells" -name '*.jsonl' 2>/dev/null | wc -l || true
}
# A requeued task waits for two minutes. Lets it start at once; Slurm refuses that while the task's last run still ends, so each loop
# that waits for a task asks again.
start_waiting() {
    squeue -h -t PD -o '%A %r' 2>/dev/null | while read -r job reason; do
        [ "$reason" != BeginTime ] || scontrol update "JobId=$job" StartTime=now 2>/dev/null || true
    done
}
# Nine workers are killed, each at a random moment, and their tasks requeued, as after a preemption.
for ((kill = 1; kill <= kills; kill++)); do
    before=$(finished)
    at=$((before + 1 + RANDOM % (cells / (2 * kills + 2))))
    until [ "$(finished)" -ge "$at" ]; do
        [ -n "$(squeue -h)" ] || { echo "error: the study ended before kill $kill"; exit 1; }
        start_waiting
        sleep 0.05
    done
    victim='' processes=''
    for _ in $(seq 200); do
        victim=$(squeue -h -t R -o %A | shuf -n 1)
        processes=$([ -z "$victim" ] || workers "$victim$")
        [ -z "$processes" ] || break
        start_waiting
        sleep 0.05
    done
    [ -n "$processes" ] || { echo "error: no worker to kill"; squeue; exit 1; }
    # shellcheck disable=SC2086 # A list of numbers.
    kill -KILL $processes
    for _ in $(seq 100); do
        scontrol requeue "$victim" 2>/dev/null && break
        sleep 0.1
    done
    echo "kill $kill: worker $(echo $processes) of job $victim, $(finished) of $cells cells finished"
    [ "$(finished)" -ge "$before" ] || { echo "error: a kill lost finished cells"; exit 1; }
done
until [ "$(finished)" -ge $((cells / 4)) ]; do sleep 0.1; done

# The second node dies with its task: the daemon, its step daemons, and the study's processes. Only ours have this
# configuration in their environment.
for _ in $(seq 200); do
    doomed=$second
    for process in $(cd /proc && grep -lzxF "SLURM_CONF=$SLURM_CONF" [0-9]*/environ 2>/dev/null | cut -d/ -f1); do
        grep -qzxF SLURMD_NODENAME=2 "/proc/$process/environ" 2>/dev/null || continue
        parent=$(awk '/^PPid/ { print $2 }' "/proc/$process/status" 2>/dev/null) || continue
        doomed+=" $process"
        case $(cat "/proc/$parent/comm" 2>/dev/null) in slurmstepd*) doomed+=" $parent" ;; esac
    done
    # Between two tasks the node has none.
    [ "$doomed" = "$second" ] || break
    start_waiting
    sleep 0.1
done
# shellcheck disable=SC2086 # A list of numbers.
kill -KILL $doomed 2>/dev/null || true
at=$(finished)
echo "killed node 2 when $at of $cells cells were finished: processes $doomed"
[ "$doomed" != "$second" ] || { squeue; sinfo; echo "error: node 2 had no task"; exit 1; }
[ "$at" -lt "$cells" ] || { echo "error: the study ended before the node was killed"; exit 1; }

sleep 15 # Slurm notices, and requeues the node's task.
start slurmd -D -N 2
for _ in $(seq $((1500 + 10 * cells))); do
    [ -z "$(squeue -h)" ] && break
    start_waiting
    sleep 0.2
done
[ -z "$(squeue -h)" ] || { squeue; sinfo; tail -n 40 "$dir/daemons"; echo "error: the job did not end"; exit 1; }
"$pageset" study collect "$dir/study.toml" --out "$dir/slurm"
cmp "$dir/local/results.parquet" "$dir/slurm/results.parquet"
echo "the table of $cells cells is the same, locally and under Slurm"
simulated=$(find "$dir/slurm/cells" -name '*.jsonl' -exec grep -oh '"host_ns":[0-9]*' {} + | cut -d: -f2 | awk '{ sum += $1 } END { print sum / 1e9 }')
awk -v simulated="$simulated" '
    NR > 1 { ran += count * ($1 - then) }
    NR == 1 { first = $1 }
    { then = $1; count = $2; if ($2 > 0) last = $1 }
    END {
        printf "%.0f s from submission to the last worker; workers ran for %.0f s in total, %.1f s of it in finished cells: %.1f %% above\n",
            last - first, ran, simulated, 100 * (ran / simulated - 1)
    }' "$dir/running"
