#!/usr/bin/env bash
# clock.sh [KVM CPUINFO]: whether a guest's clock can be one of time. If not, says why on standard output, and fails. KVM is the device
# and CPUINFO what the kernel says about the processor.
set -euo pipefail
kvm=${1:-/dev/kvm} cpuinfo=${2:-/proc/cpuinfo}
if [[ ! -w $kvm ]]; then
    echo "$kvm cannot be written"
elif ! grep -qwE 'vmx|svm' "$cpuinfo"; then
    # Some hosts have the device all the same, and execute a guest's instructions one by one.
    echo "the processor has no virtualisation (vmx, svm)"
else
    exit 0
fi
exit 1
