//! Builds the DPDK peer if DPDK is installed. The check runs once: after installing or removing DPDK, run `cargo clean
//! -p pageset-bench-peers`.

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=dpdk.c");
    println!("cargo:rerun-if-env-changed=PKG_CONFIG_PATH");
    println!("cargo:rustc-check-cfg=cfg(dpdk)");
    // DPDK's flags contain more than paths: a processor type and a header.
    let Some(flags) = pkg_config("--cflags") else { return };
    let mut build = cc::Build::new();
    build.file("dpdk.c").opt_level(3);
    flags.split_whitespace().for_each(|flag| {
        build.flag(flag);
    });
    build.compile("peer_dpdk");
    let folders = pkg_config("--libs-only-L").unwrap_or_default();
    for folder in folders.split_whitespace().filter_map(|flag| flag.strip_prefix("-L")) {
        println!("cargo:rustc-link-search=native={folder}");
    }
    for library in ["rte_mempool", "rte_eal"] {
        println!("cargo:rustc-link-lib=dylib={library}");
    }
    println!("cargo:rustc-cfg=dpdk");
}

/// The output of `pkg-config` for DPDK; `None` without DPDK.
fn pkg_config(what: &str) -> Option<String> {
    let said = Command::new("pkg-config").args([what, "libdpdk"]).output().ok()?;
    said.status.success().then(|| String::from_utf8_lossy(&said.stdout).into_owned())
}
