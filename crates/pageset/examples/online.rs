//! Measures the metadata of a large machine: bytes per page, and the time to bring 512 GiB online, at the start and at run time.
//!
//! `cargo run --release -p pageset --features alloc --example online`

use std::fs;

use pageset::alloc::owned::OwnedMetadata;
use pageset::policy::presets::LINUX_6_18;
use pageset::{Allocator, Config, CpuId, Machine, NodeId, PageRange, Pfn, SpinLock, ZoneKind, ZoneSpec};

struct OneCpu;

impl Machine for OneCpu {
    type Lock = SpinLock;

    fn cpu(&self) -> CpuId {
        CpuId(0)
    }
}

/// The time that this thread had a CPU for, in milliseconds: other work on the machine does not count.
fn cpu_ms() -> Result<f64, Box<dyn std::error::Error>> {
    let text = fs::read_to_string("/proc/thread-self/schedstat")?;
    let ns = text.split(' ').next().ok_or("schedstat has no first number")?;
    Ok(ns.parse::<f64>()? / 1e6)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (pages_per_node, nodes, cpus) = (1_u64 << 25, 4, 192);
    let ranges: Vec<_> = (0..nodes).map(|node| [PageRange::new(Pfn(node * pages_per_node), pages_per_node)]).collect();
    let zones: Vec<_> = ranges
        .iter()
        .enumerate()
        .map(|(node, ranges)| ZoneSpec { node: NodeId(node as u32), kind: ZoneKind::Normal, span: ranges[0], ranges })
        .collect();
    let cpus: Vec<_> = (0..cpus).map(|cpu| NodeId(cpu / (192 / nodes as u32))).collect();
    let config = Config::new(&zones, &cpus);
    let bytes = config.metadata_bytes::<OneCpu>()?;
    println!("512 GiB, 4 nodes, 192 CPUs: {:.2} bytes a page", bytes as f64 / (4 * pages_per_node) as f64);
    for _ in 0..3 {
        let metadata = OwnedMetadata::new(&config)?;
        let mut zones = metadata.zones();
        let start = cpu_ms()?;
        let allocator = Allocator::new(OneCpu, &config, metadata.lend(&mut zones))?;
        println!("{} zones online in {:.2} ms", allocator.zones().len(), cpu_ms()? - start);
    }
    let span = PageRange::new(Pfn(0), pages_per_node * nodes);
    let zones = [ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span, ranges: &[] }];
    let config = Config { tuning: LINUX_6_18, ..Config::new(&zones, &cpus) };
    for _ in 0..3 {
        let metadata = OwnedMetadata::new(&config)?;
        let mut zones = metadata.zones();
        let allocator = Allocator::new(OneCpu, &config, metadata.lend(&mut zones))?;
        let start = cpu_ms()?;
        allocator.online(span)?;
        println!("512 GiB online at run time in {:.2} ms", cpu_ms()? - start);
    }
    Ok(())
}
