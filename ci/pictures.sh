#!/usr/bin/env bash
# Pictures of `pageset top` in docs/pictures: a made-up machine in a real terminal (tmux), captured with its colours and
# converted to SVG. Needs tmux and python3. Usage: bash ci/pictures.sh [FOLDER]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
folder=${1:-docs/pictures}
program=${PAGESET:-target/debug/pageset}
[ -x "$program" ] || cargo build --locked -p pageset-cli

saved=$(mktemp -d)
trap 'tmux -L "pictures-$$" kill-server 2>/dev/null || true; rm -r "$saved"' EXIT

# picture NAME WIDTH HEIGHT SIZE [KEYS]: 67 looks at a machine of SIZE, then KEYS.
picture() {
    local name=$1 width=$2 height=$3 size=$4 keys=${5:-}
    local looks="$saved/$size.json"
    [ -e "$looks" ] || PAGESET_LOOKS=$size PAGESET_LOOKS_FILE=$looks cargo test -q --locked --workspace --all-features \
        --lib --bins --tests playback::looks_for_pictures -- --ignored --exact >/dev/null
    tmux -L "pictures-$$" -f /dev/null new-session -d -s top -x "$width" -y "$height" \
        "TERM=tmux-256color COLORTERM= $program top --from $looks"
    local key
    # The playback stops at the last look, after seven tens of looks.
    for key in Space '>' '>' '>' '>' '>' '>' '>' $keys; do
        sleep 0.2
        tmux -L "pictures-$$" send-keys -t top "$key"
    done
    sleep 1
    tmux -L "pictures-$$" capture-pane -e -N -p -t top >"$saved/screen"
    tmux -L "pictures-$$" kill-server
    python3 ci/terminal_svg.py "$width" "$height" <"$saved/screen" >"$folder/$name.svg"
}

picture top-80x24 80 24 2
picture top-120x40 120 40 2
picture top-200x60 200 60 192x2
# The list of processes instead of CPUs.
picture top-processes 80 24 64x2 w
