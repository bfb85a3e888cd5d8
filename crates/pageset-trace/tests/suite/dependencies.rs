//! Reading is apart from recording: a program that reads recordings compiles no recorder.

use std::process::Command;

/// Crates of the recorder and of live counting: perf events, signals, the kernel's configuration.
const RECORDER: [&str; 3] = ["pageset-record", "signal-hook", "flate2"];

/// The crates that `pageset-trace` needs, down to this depth, without those of its tests.
fn crates(depth: &str) -> Vec<String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["tree", "--offline", "--edges=normal", "--prefix=none", "--format={lib}", "--depth", depth])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(|name| name.replace('_', "-")).collect()
}

#[test]
fn a_reader_compiles_no_recorder() {
    let all = crates("100");
    assert!(all.iter().any(|name| name == "linux-perf-data"), "{all:?}");
    for name in RECORDER {
        assert!(!all.iter().any(|other| other == name), "pageset-trace compiles {name}");
    }
    // System calls: the recorder's `bpf`, `poll` and mounts. Only libraries may need them here.
    for name in ["libc", "rustix"] {
        assert!(!crates("1").iter().any(|other| other == name), "pageset-trace uses {name}");
    }
}
