#!/usr/bin/env bash
# The files and functions of the core that one call enters, in a build without optimisation and without the feature `research`, counted by
# callgrind: what a reader who follows the call has to open, and how many of the functions are no accessor of one line.
# `ci/reach.sh [--list] [NAME...]`; a name is one of `costs list`, or a refill or drain with "-regions" for a zone of four regions. Without
# names: hit, free, refill and drain. `--list` prints the functions of each file.
#
# Needs valgrind; says so and does nothing where it is missing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
command -v valgrind >/dev/null || { echo "SKIPPED reach: no valgrind" && exit 0; }
list=
[[ ${1:-} != --list ]] || { list=1 && shift; }
(($#)) || set -- alloc free refill-63-regions drain-63-regions
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")/reach
mkdir -p "$target/package"
# A package of its own: in the workspace the examples have the features of the tests.
cat >"$target/package/Cargo.toml" <<EOF
[package]
name = "reach"
edition = "2024"
[[bin]]
name = "reach"
path = "$PWD/crates/pageset/examples/costs.rs"
[dependencies]
pageset = { path = "$PWD/crates/pageset", features = ["alloc"] }
[profile.dev]
opt-level = 0
debug = "line-tables-only"
[workspace]
EOF
cp Cargo.lock "$target/package/"
cargo build --quiet --offline --manifest-path "$target/package/Cargo.toml" --target-dir "$target"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for name; do
    valgrind --tool=callgrind --callgrind-out-file="$work/profile" --compress-strings=no --compress-pos=no \
        --toggle-collect='*subject_*' "$target/debug/reach" run "$name" >"$work/said" 2>&1 || { cat "$work/said" >&2 && exit 1; }
    # "fl=" begins a file and "fn=" a function in it; "fi=" and "fe=" name the file of the next lines, where another function is inlined.
    awk -v name="$name" -v list="$list" '
        function in_core(path) { return sub(/.*crates\/pageset\/src\//, "", path) ? path : "" }
        /^f[lie]=/ {
            path = in_core(substr($0, 4))
            if (/^fl/) file = path
        }
        # Line 0 is code of the compiler, in no file.
        path != "" && /^[1-9]/ {
            if (!(path in passed)) { files++; passed[path] }
            # The lines of a function with one line of code: its head, that line, its brace.
            if (path == file && !((file, called, $1) in lines)) {
                lines[file, called, $1]
                if (++length_of[file, called] == 4) longer++
            }
        }
        /^fn=/ && file != "" {
            called = substr($0, 4)
            sub(/\x27[0-9]+$/, "", called)
            if (!((file, called) in seen)) {
                seen[file, called]
                all++
                functions[file] = functions[file] "\n        " called
            }
        }
        END {
            printf "%-20s %3d files %4d functions, %3d of more than one line\n", name, files, all, longer
            if (list) for (file in passed) print "    " file functions[file]
        }' "$work/profile"
done
