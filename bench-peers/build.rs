//! Looks for DPDK, and builds what calls it where it is there.

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=dpdk.c");
    println!("cargo:rerun-if-env-changed=PKG_CONFIG_PATH");
    println!("cargo:rustc-check-cfg=cfg(dpdk)");
    // Its flags are more than paths: it wants a processor and a header named.
    let Ok(found) = Command::new("pkg-config").args(["--cflags", "libdpdk"]).output() else { return };
    if !found.status.success() {
        return;
    }
    let flags = String::from_utf8_lossy(&found.stdout).into_owned();
    let mut build = cc::Build::new();
    build.file("dpdk.c").opt_level(3);
    flags.split_whitespace().for_each(|flag| {
        build.flag(flag);
    });
    build.compile("peer_dpdk");
    for library in ["rte_mempool", "rte_eal"] {
        println!("cargo:rustc-link-lib=dylib={library}");
    }
    println!("cargo:rustc-cfg=dpdk");
}
