#!/usr/bin/env bash
# clock.sh CPUS NODES [KVM CPUINFO]: whether a guest's clock can be one of time. If not, says why on standard output, and fails. KVM is
# the device and CPUINFO what the kernel says about the processor.
set -euo pipefail
cpus=$1 nodes=$2 kvm=${3:-/dev/kvm} cpuinfo=${4:-/proc/cpuinfo}
if [[ ! -w $kvm ]]; then
    echo "$kvm cannot be written"
elif ! grep -qwE 'vmx|svm' "$cpuinfo"; then
    # Some hosts have the device all the same, and execute a guest's instructions one by one.
    echo "the processor has no virtualisation (vmx, svm)"
elif ((nodes > 1 && cpus > $(nproc))); then
    # The guest would get no more CPUs than there are, and each CPU of the nodes must be one of it.
    echo "$cpus CPUs in nodes are more than the $(nproc) of this machine"
else
    exit 0
fi
exit 1
