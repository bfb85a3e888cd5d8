//! The frame allocator of the kernel: one zone for each node, over metadata from early memory.

use arrayvec::ArrayVec;
use pageset::machine::Access;
use pageset::{Allocator, Config, CpuId, Machine, NodeId, Order, PageRange, Pfn, ZoneKind, ZoneSpec};
use spin::Once;

use crate::acpi::{NodeMemory, Topology};
use crate::cpu::{self, MAX_CPUS, PerCpu};
use crate::early::Early;
use crate::lock::MaskingLock;
use crate::pvh::MAX_RANGES;
use crate::random::Random;
use crate::serial::say;
use crate::{settings, stack};

/// The machine, as the allocator sees it.
pub struct Kernel;

impl Machine for Kernel {
    type Lock = MaskingLock;

    #[inline(always)]
    fn cpu(&self) -> CpuId {
        cpu::number()
    }

    /// With the feature `interleave`: at some accesses to shared memory, lets another CPU run.
    #[inline(always)]
    fn probe(&self, _access: Access) {
        if cfg!(feature = "interleave") && INTERLEAVING.here().below(ACCESSES_PER_SWITCH) == 0 {
            // Where all CPUs share one thread, QEMU runs the next CPU after this instruction.
            core::hint::spin_loop();
        }
    }
}

/// The mean number of accesses between two switches to another CPU. A guess: a call of the allocator has some tens.
const ACCESSES_PER_SWITCH: u32 = 64;

/// The random numbers of each CPU's switches.
pub static INTERLEAVING: PerCpu<Random> = PerCpu([const { Random::unseeded() }; MAX_CPUS]);

/// The most stack that the construction of the allocator may use, in bytes.
const STACK_MOST: usize = 4096;

static FRAMES: Once<Allocator<'static, Kernel>> = Once::new();

unsafe extern "C" {
    /// The ends of the kernel's image, from the linker script.
    static kernel_start: u8;
    static kernel_end: u8;
}

/// The frame allocator.
///
/// # Panics
/// [`build`] has not run.
pub fn frames() -> &'static Allocator<'static, Kernel> {
    FRAMES.get().expect("the frame allocator is built")
}

/// The spans of the zones.
pub fn spans() -> impl Iterator<Item = PageRange> {
    frames().zones().map(|zone| zone.span())
}

/// Builds the allocator and brings all memory online, except the kernel's image and the metadata. Only the first CPU is online
/// then.
///
/// # Safety
/// Nobody but the kernel's image uses the memory of `usable`.
///
/// # Panics
/// There is no memory for the metadata, or the allocator refuses the memory map.
pub unsafe fn build(usable: &[PageRange], topology: &Topology) {
    let pieces = pieces_of_nodes(usable, &topology.memory);
    let image_end = Pfn((&raw const kernel_end as u64).div_ceil(4096));
    let image_start = Pfn(&raw const kernel_start as u64 / 4096);

    // The size of the metadata follows from the spans. The pages come online when it is known where the metadata end.
    let zones: ArrayVec<ZoneSpec<'static>, MAX_RANGES> = (0..MAX_RANGES as u32)
        .filter_map(|node| {
            let own = || pieces.iter().filter(|piece| piece.node == NodeId(node)).map(|piece| piece.range);
            let (start, end) = (own().map(|range| range.start).min()?, own().map(|range| range.end()).max()?);
            let span = PageRange::new(start, end.0 - start.0);
            Some(ZoneSpec { node: NodeId(node), kind: ZoneKind::Normal, span, ranges: &[] })
        })
        .collect();
    // Each zone's metadata lie on its own node, in the node's largest piece of memory after the image.
    let mut early: ArrayVec<Early, MAX_RANGES> = zones
        .iter()
        .map(|zone| {
            let own = pieces.iter().filter(|piece| piece.node == zone.node).map(|piece| after(piece.range, image_end));
            let largest = own.max_by_key(|range| range.pages).expect("a zone has memory");
            // SAFETY: the range is memory after the image, and the caller vouches that nobody else uses it.
            unsafe { Early::new(largest) }
        })
        .collect();
    let nodes: ArrayVec<NodeId, MAX_CPUS> = topology.cpus.iter().map(|cpu| cpu.node).collect();
    let tuning = settings::get().rules.tuning;
    let config = Config { tuning, online_cpus: &[CpuId(0)], ..Config::new(&zones, &nodes) };
    let stack_bytes = stack::used(|| {
        FRAMES.call_once(|| {
            let memory = |zone: usize, bytes| early[zone].bytes(bytes);
            Allocator::from_zone_bytes(Kernel, &config, memory).expect("a valid memory map")
        });
    });
    say!("stack of the allocator's construction: {stack_bytes} bytes");
    assert!(stack_bytes <= STACK_MOST, "the allocator's construction used {stack_bytes} bytes of stack");
    let allocator = frames();

    for piece in &pieces {
        let used_end = early
            .iter()
            .map(Early::used)
            .filter(|used| used.start >= piece.range.start && used.start < piece.range.end())
            .map(|used| used.end());
        let used_end = used_end.max().unwrap_or(image_end);
        for free in [before(piece.range, image_start), after(piece.range, used_end)] {
            if free.pages > 0 {
                allocator.online(free).expect("memory inside a zone");
            }
        }
    }
    for (number, early) in early.iter().enumerate() {
        say!("metadata of zone {number}: {} KiB from page {} on", early.used().pages * 4, early.used().start);
    }
    for (number, zone) in allocator.zones().enumerate() {
        let (span, stats) = (zone.span(), zone.stats());
        let (node, start, end) = (stats.node.0, span.start, span.end());
        say!("zone {number}: node {node}, pages {start} to {end}, {} managed", stats.managed);
    }
}

/// The usable memory of each node. All of it is in node 0 if the firmware names no nodes. A pageblock has one zone,
/// so one that lies in two nodes belongs to the upper.
fn pieces_of_nodes(usable: &[PageRange], nodes: &[NodeMemory]) -> ArrayVec<NodeMemory, MAX_RANGES> {
    let whole = [NodeMemory { node: NodeId(0), range: PageRange::new(Pfn(0), u64::MAX) }];
    let nodes = if nodes.is_empty() { &whole } else { nodes };
    let pageblock = Order::PAGEBLOCK;
    let pairs = nodes.iter().flat_map(|node| usable.iter().map(move |range| (node, range)));
    let pieces = pairs.map(|(node, range)| NodeMemory {
        node: node.node,
        range: before(after(*range, node.range.start.align_down(pageblock)), node.range.end().align_down(pageblock)),
    });
    pieces.filter(|piece| piece.range.pages > 0).collect()
}

/// The part of a range before a page; it may be empty.
fn before(range: PageRange, end: Pfn) -> PageRange {
    PageRange::new(range.start, range.end().min(end).0.saturating_sub(range.start.0))
}

/// The part of a range from a page on; it may be empty.
fn after(range: PageRange, start: Pfn) -> PageRange {
    let start = range.start.max(start);
    PageRange::new(start, range.end().0.saturating_sub(start.0))
}
