#!/usr/bin/env bash
# The coverage-guided fuzzer: `ci/fuzz.sh [--seconds N] [TARGET...]`, all targets for 10 s each if nothing is said.
# `ci/fuzz.sh --planted` checks that a bug is found: it builds one in.
#
# Needs a nightly toolchain and a C++ compiler; says so and does nothing where one is missing. What cargo-fuzz would do,
# without it: the compiler marks every branch, libFuzzer keeps the inputs that reach new ones.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../fuzz"

all=(scenario own_form text perf procfs)
seconds=10
planted=
targets=()
while (($#)); do
    case $1 in
    --seconds) seconds=${2:?--seconds needs a number} && shift ;;
    --planted) planted=1 ;;
    -*) echo "error: $1 is no option; allowed: --seconds N, --planted, and targets: ${all[*]}" >&2 && exit 2 ;;
    *)
        [[ " ${all[*]} " == *" $1 "* ]] || { echo "error: $1 is no target; allowed: ${all[*]}" >&2 && exit 2; }
        targets+=("$1")
        ;;
    esac
    shift
done
((${#targets[@]})) || targets=("${all[@]}")

cargo +nightly --version >/dev/null 2>&1 || { echo "SKIPPED fuzzing: no nightly toolchain (rustup toolchain install nightly)" && exit 0; }
command -v c++ >/dev/null || { echo "SKIPPED fuzzing: no C++ compiler, which libFuzzer needs" && exit 0; }

base=${CARGO_TARGET_DIR:-../target}/fuzz
host=$(rustc +nightly -vV | sed -n 's/^host: //p')
marks="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
-Ccodegen-units=1 -Cdebug-assertions -Coverflow-checks --cfg fuzzing"
work=$base/work

# build MODE TARGET...: builds targets together. Readers learn words and numbers from what they compare; the allocator has
# none to learn, and is three times as fast without.
build() {
    local mode=$1 bins=() features=()
    shift
    if [[ $mode == marked ]]; then features=(--no-default-features ${planted:+--features planted}); else
        local RUSTFLAGS=-Cllvm-args=-sanitizer-coverage-trace-compares CUSTOM_LIBFUZZER_PATH
        # libFuzzer is in C++ and not marked: what `scenario` has serves all.
        CUSTOM_LIBFUZZER_PATH=$(realpath -m "$base/marked/$host/release/libfuzzer.a")
        [[ ! -e $CUSTOM_LIBFUZZER_PATH ]] || export CUSTOM_LIBFUZZER_PATH
    fi
    for name; do bins+=(--bin "$name"); done
    RUSTFLAGS="$marks ${RUSTFLAGS:-}" cargo +nightly build --quiet --locked --release --target "$host" \
        --target-dir "$base/$mode" "${bins[@]}" "${features[@]}"
    [[ $mode == marked ]] || return 0
    # Where a build script's files lie differs between versions of cargo: the newest wins.
    local built
    built=$(find "$base/marked/$host/release/build" -path '*/libfuzzer-sys*/out/libfuzzer.a' -printf '%T@ %p\n' | sort -n | tail -n 1)
    cp -p "${built#* }" "$base/marked/$host/release/"
}
mode_of() { [[ $1 == scenario ]] && echo marked || echo compared; }

# fuzz TARGET FOLDER OPTION...: runs what was built; what it finds stays in FOLDER from one run to the next.
fuzz() {
    local built=$base/$(mode_of "$1")/$host/release/$1 folder=$work/$2
    shift 2
    mkdir -p "$folder"/{corpus,seeds,found}
    PAGESET_SEEDS=$folder/seeds "$built" "$folder/corpus" "$folder/seeds" -artifact_prefix="$folder/found/" \
        -timeout=10 -rss_limit_mb=1024 -print_final_stats=1 "$@" >"$folder/said" 2>&1
}

if [[ $planted ]]; then
    echo "== a planted bug is found, and printed as a regression test"
    build marked scenario
    rm -rf "$work/planted"
    said=$work/planted/said
    if fuzz scenario planted -seed=3 -runs=200000 -max_len=402; then
        tail -n 20 "$said" >&2
        echo "error: 200,000 runs have not found it" >&2
        exit 1
    fi
    grep -q '^fn regression() {$' "$said" && grep -q 'pages in use' "$said" || { tail -n 50 "$said" >&2 && exit 1; }
    sed -n '/^paste$/,/^}$/p' "$said"
    echo "found after $(grep -oE '^#[0-9]+' "$said" | tail -n 1 | tr -d '#') runs"
    exit
fi

compared=()
for name in "${targets[@]}"; do
    if [[ $name == scenario ]]; then build marked scenario; else compared+=("$name"); fi
done
((!${#compared[@]})) || build compared "${compared[@]}"

# Each on a CPU of its own.
run() {
    local name=$1 said=$work/$1/said status=0
    fuzz "$name" "$name" -max_total_time="$seconds" || status=1
    {
        echo "== $name, $seconds s"
        if ((status)); then
            tail -n 60 "$said"
            echo "replay with: $base/$(mode_of "$name")/$host/release/$name FILE, the one after \`Test unit written to\`"
        else
            grep -oE 'cov: [0-9]+ ft: [0-9]+ corp: [0-9]+' "$said" | tail -n 1
            sed -n 's/^stat::number_of_executed_units: */runs: /p' "$said"
        fi
    } >"$work/$name/summary"
    cat "$work/$name/summary"
    return "$status"
}
export -f run fuzz mode_of
export work base host seconds
mkdir -p "${targets[@]/#/$work/}"
printf '%s\n' "${targets[@]}" | xargs -P "$(nproc)" -I {} bash -c 'run {}'
