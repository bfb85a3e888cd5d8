# shellcheck shell=bash
# Read by steps that need programs of the distribution: `. ci/tools.sh STEP`.
step=$1
tools_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)

skip() {
    echo "SKIPPED $step: $1"
    exit 0
}

# need PROGRAM [PACKAGE...]: installs the packages, or that of the program's name, where the program is missing.
need() {
    ! command -v "$1" >/dev/null || return 0
    [ "$(id -u)" = 0 ] || skip "$1 is missing, and installing it takes root"
    { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${@:1+($#>1)}"; } \
        >/dev/null 2>&1 || skip "$1 cannot be installed"
}

# boot OPTION...: runs ./run.sh of a kernel under QEMU, with its output in $said, and prints the lines with $shown.
boot() {
    local here
    here=$(pwd -P)
    echo "== ${here#"$tools_root"/}/run.sh $*"
    ./run.sh "$@" >"$said" 2>&1 || { cat "$said" && exit 1; }
    grep -aE "$shown" "$said"
}
