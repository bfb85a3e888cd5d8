//! The end of a run: the audit of each zone, and the counters.

use pageset::{CpuId, MigrateType, Order};

use crate::cpu::{COUNTS, Counter, Counts};
use crate::frames::frames;
use crate::hotplug::Hotplug;
use crate::mailboxes::{BLOCKS_MOVED, PAGES_RECLAIMED};
use crate::serial::say;
use crate::smp;

/// Audits each zone and prints its counters. Everything has been freed.
///
/// # Panics
/// An audit fails, or pages are in use.
pub fn zones() {
    frames().drain_all();
    for view in frames().zones() {
        let zone = view.number();
        let books = view.audit().unwrap_or_else(|error| panic!("the audit of zone {zone} failed: {error}"));
        assert!(books.in_use == 0, "zone {zone} has {} pages in use after everything was freed", books.in_use);
        let stats = view.stats();
        let largest: u32 = MigrateType::ALL.map(|list| view.free_blocks(Order::MAX, list)).iter().sum();
        say!(
            "zone {zone}: audit passed; {} pages free, {} in pagesets, {} in use; {largest} blocks of order 10",
            books.free,
            books.cached,
            books.in_use
        );
        say!(
            "zone {zone}: {} pages allocated; zone lock taken {} times: {} refills, {} drains, {} allocations, {} frees, {} others",
            stats.pgalloc(),
            stats.lock_acquisitions(),
            stats.lock_refill,
            stats.lock_drain,
            stats.lock_direct_alloc,
            stats.lock_direct_free,
            stats.lock_map
        );
    }
}

/// Prints what the CPUs did, what came and went, and how much of a stack was used.
pub fn work(hotplug: &Hotplug, stack_bytes: usize) {
    let total = |counter: fn(&Counts) -> &Counter| -> u64 {
        (0..smp::count()).map(|cpu| counter(COUNTS.of(CpuId(cpu))).get()).sum()
    };
    say!("operations: {}, of which refused {}", total(|c| &c.operations), total(|c| &c.operations_refused));
    say!("page faults: {}, in {} regions", total(|c| &c.faults), total(|c| &c.regions));
    say!("timer interrupts: {}, of which refused {}", total(|c| &c.interrupts), total(|c| &c.interrupts_refused));
    let (nmis, refused, freed) = (total(|c| &c.nmis), total(|c| &c.nmis_refused), total(|c| &c.nmis_freed));
    say!("NMIs: {nmis}, of which refused {refused}, freed a block {freed}");
    say!(
        "CPUs: {} started {} times, stopped {} times",
        smp::count() - 1,
        total(|c| &c.starts),
        hotplug.cpus_stopped.get()
    );
    say!(
        "ranges of 4 MiB: {} offline and online again, {} refused",
        hotplug.ranges_offline.get(),
        hotplug.ranges_refused.get()
    );
    say!("stacks: at most {stack_bytes} bytes used, on all CPUs but the first");
    say!("mailboxes: {} blocks moved, {} pages reclaimed", BLOCKS_MOVED.get(), PAGES_RECLAIMED.get());
}
