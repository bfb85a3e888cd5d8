#!/usr/bin/env bash
# What packages bring for monitoring, loaded by the real programs:
#
#   the alert rules     promtool checks them and runs their tests; Prometheus loads them and evaluates them on the metrics of
#                       `pageset top --listen`
#   the dashboard       Prometheus answers each of its queries, and each metric that it names exists. Grafana is in no
#                       distribution's packages, so the form of the file is checked only as far as its queries go
#   the systemd units   systemd-analyze verifies and rates them, and `top` and `agent` count with the unit's user and capabilities
#
# PAGESET_BUILT is a folder with a built `pageset`; without it, the script builds one. Prints `SKIPPED` with a reason for what
# cannot run here.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
fail() { echo "error: $1" >&2 && exit 1; }

[ -n "${PAGESET_BUILT:-}" ] || cargo build --locked --quiet -p pageset-cli
pageset=$(realpath "${PAGESET_BUILT:-${CARGO_TARGET_DIR:-target}/debug}")/pageset
rules=packaging/monitoring/pageset.rules.yml
dashboard=packaging/monitoring/pageset.dashboard.json

dir=$(mktemp -d)
chmod 755 "$dir"
pids=()
finish() {
    for pid in "${pids[@]}"; do
        kill "$pid" 2>/dev/null || true
    done
    # Prometheus writes until it ends.
    wait 2>/dev/null || true
    rm -rf "$dir"
}
trap finish EXIT

# The units. `verified NAME`: systemd accepts and rates the unit of `pageset NAME`.
verified() {
    local unit=$dir/unit/pageset-$1.service
    sed "s|/usr/bin/pageset|$pageset|; /^Documentation=/d" "packaging/systemd/pageset-$1.service" >"$unit"
    systemd-analyze verify "$unit" >"$dir/said" 2>&1 || { cat "$dir/said" >&2 && fail "systemd refuses the unit of $1"; }
    [ ! -s "$dir/said" ] || { cat "$dir/said" >&2 && fail "systemd warns about the unit of $1"; }
    # 10 is no protection; a service below 3 has little to lose. Unit of --threshold: tenths.
    systemd-analyze security --offline=true --threshold=30 "$unit" >"$dir/said" ||
        { tail -n 3 "$dir/said" >&2 && fail "systemd rates the unit of $1 as exposed"; }
    echo "unit of $1: $(tail -n 1 "$dir/said" | grep -o 'Overall.*[0-9]')"
}
# `counts NAME SIGN ARGUMENTS...`: what `pageset NAME ARGUMENTS` writes has SIGN, also with the unit's capabilities.
counts() {
    local name=$1 sign=$2 capabilities sets
    shift 2
    capabilities=$(sed -n 's/^CapabilityBoundingSet=//p' "packaging/systemd/pageset-$name.service" | tr ' ' '\n' |
        sed 's/^CAP_/+/' | tr 'A-Z\n' 'a-z,')
    sets="-all,${capabilities%,}"
    setpriv --reuid=65534 --regid=65534 --clear-groups --no-new-privs --bounding-set="$sets" --inh-caps="$sets" \
        --ambient-caps="$sets" "$dir/pageset" "$name" "$@" >"$dir/written" 2>"$dir/said" ||
        { cat "$dir/said" >&2 && fail "$name fails with the capabilities $sets"; }
    if "$pageset" "$name" "$@" 2>/dev/null | grep -q "$sign"; then
        grep -q "$sign" "$dir/written" || fail "$name does not count refills with the capabilities $sets"
        echo "unit of $name: counts refills as an ordinary user with $sets"
    else
        echo "SKIPPED unit of $name: this kernel does not count refills, even for root"
    fi
}
if command -v systemd-analyze >/dev/null; then
    mkdir "$dir/unit"
    verified top
    verified agent
else
    echo "SKIPPED unit: no systemd-analyze"
fi
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
    # The program may lie in a folder that the user of the service may not enter.
    install -m 755 "$pageset" "$dir/pageset"
    counts top '^pageset_refill_pages_total' --once --interval 0.2 --openmetrics -
    counts agent '"counted_by":"bpf"' --once --interval 0.2
else
    echo "SKIPPED unit: its capabilities can be given by root only, with setpriv"
fi

# Prometheus: installed, or unpacked from the distribution's package without starting anything.
if ! command -v promtool >/dev/null; then
    { (cd "$dir" && apt-get download prometheus || { apt-get update && apt-get download prometheus; }) &&
        dpkg -x "$dir"/prometheus_*.deb "$dir/package"; } >/dev/null 2>&1 ||
        { echo "SKIPPED prometheus: its package cannot be downloaded" && exit 0; }
    PATH=$dir/package/usr/bin:$PATH
fi
promtool check rules "$rules" >"$dir/said" 2>&1 || { cat "$dir/said" >&2 && fail "promtool refuses the rules"; }
(cd packaging/monitoring && promtool test rules pageset.rules.test.yml) >"$dir/said" 2>&1 ||
    { cat "$dir/said" >&2 && fail "the rules fail their tests"; }
for alert in $(sed -n 's/^ *- alert: //p' "$rules"); do
    grep -q "alertname: $alert\$" packaging/monitoring/pageset.rules.test.yml || fail "the alert $alert has no test"
done

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
command -v python3 >/dev/null || { echo "SKIPPED prometheus: no python3 to ask it with" && exit 0; }
metrics=$(free_port) web=$(free_port)
cat >"$dir/prometheus.yml" <<CONFIG
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [$PWD/$rules]
scrape_configs:
  - job_name: pageset
    static_configs: [{targets: ["127.0.0.1:$metrics"]}]
CONFIG
"$pageset" top --interval 1 --listen "127.0.0.1:$metrics" >"$dir/top" 2>&1 &
pids+=($!)
prometheus --config.file="$dir/prometheus.yml" --storage.tsdb.path="$dir/data" --web.listen-address="127.0.0.1:$web" \
    >"$dir/prometheus" 2>&1 &
pids+=($!)
python3 ci/monitoring.py "http://127.0.0.1:$web" "$dashboard" || { tail -n 5 "$dir/prometheus" "$dir/top" >&2 && exit 1; }
