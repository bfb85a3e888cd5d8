//! Prints what each CPU adds to the metadata of a zone, and fails where it is more than 2 KiB with 64 CPUs on 4 GiB (18 KiB with the feature
//! `bulk`), or where blocks that are allocated and freed again and again do not stay in the pageset. Run on the host.

use std::mem::MaybeUninit;
use std::process::ExitCode;

use pageset::{
    Allocator, Config, CpuId, Machine, MigrateType, NodeId, Order, PageRange, Pfn, Request, SpinLock, ZoneKind,
    ZoneSpec,
};

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

/// Rounds of [`drains`] that are counted.
const ROUNDS: u64 = 64;

/// Whether the arrays have room for as many blocks as the rules allow.
const BULK: bool = cfg!(feature = "bulk");

/// What a CPU may take, in bytes.
const MOST: usize = if BULK { 18 << 10 } else { 2 << 10 };

/// Allocates some blocks of one order and frees them again, single pages with one call each way if `bulk`. Returns the drains of [`ROUNDS`]
/// rounds, and the pages drained.
fn drains(cpus: usize, order: Order, held: usize, bulk: bool) -> Result<[u64; 2], Box<dyn std::error::Error>> {
    let span = PageRange::new(Pfn(0), 300 << 10);
    let ranges = [span];
    let zones = [ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span, ranges: &ranges }];
    let nodes = vec![NodeId(0); cpus];
    let config = Config::new(&zones, &nodes);
    let memory = vec![MaybeUninit::new(0_u8); config.metadata_bytes::<Kernel>()?].leak();
    let world = Allocator::from_bytes(Kernel, &config, memory)?;
    let request = Request::new(order, MigrateType::Movable);
    let mut blocks = vec![Pfn(0); held];
    let round = |blocks: &mut [Pfn]| -> Result<(), Box<dyn std::error::Error>> {
        if bulk {
            let got = world.alloc_bulk(&request, blocks)?;
            world.free_bulk_of(order, &blocks[..got])?;
            return if got == held { Ok(()) } else { Err(format!("{got} of {held} blocks").into()) };
        }
        for block in blocks.iter_mut() {
            *block = world.alloc(&request)?;
        }
        blocks.iter().try_for_each(|&block| world.free(block, order))?;
        Ok(())
    };
    (0..ROUNDS).try_for_each(|_| round(&mut blocks))?;
    let zone = world.zone(0).ok_or("a zone")?;
    let stats = || zone.pageset(CpuId(0)).map(|pageset| pageset.stats()).ok_or("a CPU");
    let before = stats()?;
    (0..ROUNDS).try_for_each(|_| round(&mut blocks))?;
    let after = stats()?;
    let found = zone.audit().map_err(|error| format!("{error:?}"))?;
    if found.in_use > 0 {
        return Err(format!("{} pages are in use after all were freed", found.in_use).into());
    }
    Ok([after.drains - before.drains, after.drain_pages - before.drain_pages])
}

/// Checks that 32 blocks of each order stay, and that single pages beyond the arrays go in drains of a batch and more.
fn check_drains() -> Result<(), Box<dyn std::error::Error>> {
    for cpus in [1, 2] {
        for order in [Order::ZERO, Order::COSTLY, Order::new(4).ok_or("an order")?, Order::PAGEBLOCK] {
            let [drains, pages] = drains(cpus, order, 32, false)?;
            if drains > 0 {
                return Err(format!(
                    "with {cpus} CPUs, 32 blocks of order {order} do not stay: {drains} drains of {pages} pages"
                )
                .into());
            }
        }
        for bulk in [false, true] {
            let [drains, pages] = drains(cpus, Order::ZERO, 512, bulk)?;
            let allowed = if BULK { "none" } else { "63 and more each" };
            if if BULK { drains > 0 } else { drains == 0 || pages < 63 * drains } {
                let how = if bulk { "in bulk" } else { "one by one" };
                return Err(format!(
                    "with {cpus} CPUs, {drains} drains move {pages} single pages, {how}; allowed: {allowed}"
                )
                .into());
            }
        }
    }
    Ok(())
}

fn main() -> ExitCode {
    // From 64 CPUs on, the zone of 4 GiB has no more regions.
    let (Some(few), Some(many)) = (bytes(1 << 20, 64), bytes(1 << 20, 128)) else {
        eprintln!("error: the configuration is invalid");
        return ExitCode::FAILURE;
    };
    let each = (many - few) / 64;
    let build = if BULK { "small build with bulk" } else { "small build" };
    println!(
        "{build}, 4 GiB: {each} bytes for each CPU; {:.2} bytes a page with 64 CPUs",
        few as f64 / (1 << 20) as f64
    );
    if each > MOST {
        eprintln!("error: a CPU takes {each} bytes; allowed: {MOST}");
        return ExitCode::FAILURE;
    }
    if let Err(error) = check_drains() {
        eprintln!("error: {error}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
