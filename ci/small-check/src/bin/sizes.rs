//! Prints what each CPU adds to the metadata of a zone, and fails where it is more than 2 KiB with 64 CPUs on 4 GiB. Run on the host.

use std::process::ExitCode;

use pageset::{Config, CpuId, Machine, NodeId, PageRange, Pfn, SpinLock, ZoneKind, ZoneSpec};

struct Kernel;

impl Machine for Kernel {
    type Lock = SpinLock;

    fn cpu(&self) -> CpuId {
        CpuId(0)
    }
}

/// Bytes of a zone's metadata.
fn bytes(pages: u64, cpus: usize) -> Option<usize> {
    let zones =
        [ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span: PageRange::new(Pfn(0), pages), ranges: &[] }];
    let nodes = vec![NodeId(0); cpus];
    Config::new(&zones, &nodes).metadata_bytes::<Kernel>().ok()
}

fn main() -> ExitCode {
    // From 64 CPUs on, the zone of 4 GiB has no more regions.
    let (Some(few), Some(many)) = (bytes(1 << 20, 64), bytes(1 << 20, 128)) else {
        eprintln!("error: the configuration is invalid");
        return ExitCode::FAILURE;
    };
    let each = (many - few) / 64;
    println!(
        "small build, 4 GiB: {each} bytes for each CPU; {:.2} bytes a page with 64 CPUs",
        few as f64 / (1 << 20) as f64
    );
    if each > 2048 {
        eprintln!("error: a CPU takes {each} bytes; allowed: 2048");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
