//! Pages and waits by call site: who, in the kernel, makes the page allocator move pages or wait.

use std::collections::BTreeMap;

use super::kallsyms::Symbols;

/// The most call chains between two reads. What further ones move is [`Sites::lost_pages`]. A guess: the kernel needs
/// 1.2 MB for them on 6.18.
pub const SITES_MAX: u32 = 4096;

/// A CPU reads the call chain of one block in about this many pages, separately for refills and drains. A power of two. See
/// the measurements of call sites in `docs/archive/overhead.md`.
pub const PAGES_APART: u32 = 4096;

/// The functions that are no call site: the page allocator and what only passes pages to it or from it. `*` stands for
/// any end of a name. Source: call chains of `kmem:mm_page_alloc_zone_locked` and `kmem:mm_page_pcpu_drain` on 6.18,
/// names of slabs in its `/proc/kallsyms`, and names in the kernel's commit messages since 5.14.
const ALLOCATOR: [&str; 5] = [
    // Allocation.
    "__rmqueue* rmqueue* get_page_from_freelist __alloc_frozen_pages* alloc_frozen_pages* __alloc_pages* \
     alloc_pages* __folio_alloc* folio_alloc folio_alloc_noprof folio_alloc_mpol* vma_alloc_folio* \
     __get_free_pages* get_free_pages* get_zeroed_page*",
    // Freeing.
    "free_one_page __free_one_page free_pcppages_bulk free_frozen_* __free_frozen_* free_unref_* __free_pages* \
     free_pages free_the_page decay_pcp_high drain_zone_pages drain_pages* drain_local_pages*",
    // References to pages.
    "__folio_put* folio_put folios_put* __put_page put_page release_pages free_pages_and_swap_cache \
     __folio_batch_release",
    // Pages that wait for a flush of TLBs.
    "__tlb_batch_free_encoded_pages tlb_batch_pages_flush tlb_flush_mmu* tlb_finish_mmu",
    // Slabs.
    "allocate_slab new_slab* __free_slab free_slab discard_slab ___slab_alloc __slab_alloc* __slab_free \
     rcu_free_slab __put_partials put_cpu_partial __unfreeze_partials unfreeze_partials deactivate_slab \
     defer_deactivate_slab flush_cpu_slab __pcs_* free_to_pcs* alloc_empty_sheaf barn_* flush_rcu_sheaf \
     rcu_free_sheaf* __rcu_free_sheaf* __sheaf_flush_* refill_*sheaf* __refill_* __kmem_cache_* kmem_cache_* \
     __kmalloc* kmalloc_noprof kmalloc_large* ___kmalloc_large* free_large_kmalloc __kvmalloc* kvmalloc* kfree \
     kvfree*",
];

/// A name without the ends that the compiler gives to parts and copies of functions.
fn whole(name: &str) -> &str {
    name.split('.').next().unwrap_or(name)
}

fn is_allocator(name: &str) -> bool {
    let is = |pattern: &str| match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == pattern,
    };
    ALLOCATOR.iter().flat_map(|part| part.split(' ')).any(is)
}

/// The functions of a call site, the innermost first: two, or fewer if the call chain has no more.
type Functions = Vec<String>;

/// The call site of a call chain. The chain begins with functions of tracing and of locks.
fn functions(chain: &[u64], symbols: &Symbols) -> Functions {
    let names = || chain.iter().map_while(|address| (*address > 0).then(|| symbols.at(*address).map_or("?", whole)));
    let outer = names().skip_while(|name| !is_allocator(name)).skip_while(|name| is_allocator(name));
    outer.take(2).map(str::to_owned).collect()
}

/// What a call site moved between two reads.
///
/// The call site is the first function of the kernel's call chain outside the page allocator. Pages are estimated from
/// samples: each sample stands for the pages that its CPU moved since the CPU's previous sample.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Site {
    /// The function; empty if the call chain does not show it.
    pub function: String,
    /// The function that called it; empty if the call chain does not show it.
    pub caller: String,
    /// Pages taken from the free lists for requests of cached orders: see [`super::Traffic::refill_pages`].
    pub refill_pages: u64,
    /// Pages drained from pagesets: see [`super::Traffic::drain_pages`].
    pub drain_pages: u64,
    /// The number of samples from which the pages are estimated.
    pub samples: u64,
    /// The waits for zone locks, if measured. Each wait is a sample.
    pub wait: Option<super::Wait>,
}

/// What call sites moved between two reads, in no order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sites {
    /// The call sites that moved pages or waited.
    pub all: Vec<Site>,
    /// Pages of call chains beyond [`SITES_MAX`].
    pub lost_pages: u64,
    /// Waits of call chains beyond [`SITES_MAX`]. Unit: nanoseconds.
    pub lost_wait_ns: u64,
}

/// What a call chain's samples stand for, and their numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Samples {
    pub(super) refill_pages: u64,
    pub(super) drain_pages: u64,
    pub(super) wait_ns: u64,
    /// The number of samples of refills and drains.
    pub(super) page_samples: u64,
    /// The number of waits. Each wait is a sample.
    pub(super) waits: u64,
}

/// Adds up the samples of each call site. `waits` says whether waits are measured.
pub(super) fn sites(samples: impl Iterator<Item = (Vec<u64>, Samples)>, symbols: &Symbols, waits: bool) -> Vec<Site> {
    let mut sites: BTreeMap<Functions, Site> = BTreeMap::new();
    for (chain, samples) in samples {
        let functions = functions(&chain, symbols);
        let name = |place: usize| functions.get(place).cloned().unwrap_or_default();
        let new = Site { function: name(0), caller: name(1), wait: waits.then(Default::default), ..Site::default() };
        let site = sites.entry(functions).or_insert(new);
        site.refill_pages += samples.refill_pages;
        site.drain_pages += samples.drain_pages;
        site.samples += samples.page_samples;
        if let Some(wait) = &mut site.wait {
            (wait.ns, wait.times) = (wait.ns + samples.wait_ns, wait.times + samples.waits);
        }
    }
    sites.into_values().collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::{Counters, Detail, Traffic, Wait};
    use super::*;

    /// A function each 0x100 bytes, and return addresses inside them.
    fn kernel(names: &[&str]) -> (Symbols, Vec<u64>) {
        let begin = |place: usize| 0xffff_ffff_8100_0000_u64 + 0x100 * place as u64;
        let line = |(place, name): (usize, &&str)| format!("{:x} t {name}\n", begin(place));
        let text: String = names.iter().enumerate().map(line).collect();
        (Symbols::parse(&text), (0..names.len()).map(|place| begin(place) + 0x80).collect())
    }

    /// Call chains from 6.18, as perf shows them, below what tracing adds.
    #[test]
    fn the_call_site_is_the_first_function_outside_the_allocator() {
        for (names, expected) in [
            (
                "bpf_trace_run2 __traceiter_mm_page_alloc_zone_locked __rmqueue_pcplist get_page_from_freelist \
                 __alloc_frozen_pages_noprof alloc_pages_mpol vma_alloc_folio_noprof do_anonymous_page __handle_mm_fault \
                 handle_mm_fault",
                ["do_anonymous_page", "__handle_mm_fault"],
            ),
            (
                "__rmqueue_pcplist get_page_from_freelist __alloc_frozen_pages_noprof alloc_pages_mpol allocate_slab \
                 ___slab_alloc __slab_alloc.isra.0 __kmalloc_node_track_caller_noprof kmalloc_reserve __alloc_skb",
                ["kmalloc_reserve", "__alloc_skb"],
            ),
            (
                "free_pcppages_bulk free_frozen_page_commit free_unref_folios folios_put_refs free_pages_and_swap_cache \
                 __tlb_batch_free_encoded_pages tlb_finish_mmu vms_clear_ptes.part.0 vms_complete_munmap_vmas",
                ["vms_clear_ptes", "vms_complete_munmap_vmas"],
            ),
            (
                "__pv_queued_spin_lock_slowpath _raw_spin_lock_irqsave get_page_from_freelist \
                 __alloc_frozen_pages_noprof alloc_pages_mpol ___kmalloc_large_node __kmalloc_large_node_noprof \
                 __kvmalloc_node_noprof listxattr path_listxattrat",
                ["listxattr", "path_listxattrat"],
            ),
            (
                "free_pcppages_bulk free_frozen_page_commit __free_frozen_pages __put_partials kmem_cache_free \
                 free_buffer_head try_to_free_buffers",
                ["free_buffer_head", "try_to_free_buffers"],
            ),
            // Names from `/proc/kallsyms` of 6.18, with the ends that its compiler gives.
            (
                "free_pcppages_bulk __free_frozen_pages free_slab __put_partials deactivate_slab.cold put_cpu_partial \
                 __slab_free free_to_pcs_bulk __kmem_cache_free_bulk.part.0 kfree_skb_list_reason unix_release_sock",
                ["kfree_skb_list_reason", "unix_release_sock"],
            ),
            (
                "__rmqueue_pcplist alloc_pages_mpol alloc_empty_sheaf barn_replace_full_sheaf.part.0 \
                 kmem_cache_alloc_noprof alloc_buffer_head folio_alloc_buffers",
                ["alloc_buffer_head", "folio_alloc_buffers"],
            ),
            ("free_pcppages_bulk __free_frozen_pages free_large_kmalloc.cold kvfree seq_release", ["seq_release", ""]),
            (
                "free_pcppages_bulk free_unref_folios folios_put_refs __folio_batch_release truncate_inode_pages_range",
                ["truncate_inode_pages_range", ""],
            ),
            // Who asked for it is not in the chain of later work.
            (
                "free_pcppages_bulk __free_frozen_pages __free_slab rcu_free_slab rcu_free_sheaf rcu_do_batch rcu_core",
                ["rcu_do_batch", "rcu_core"],
            ),
            ("free_pcppages_bulk decay_pcp_high refresh_cpu_vm_stats", ["refresh_cpu_vm_stats", ""]),
            ("bpf_trace_run2 a_function_of_no_allocator", ["", ""]),
        ] {
            let names: Vec<&str> = names.split_ascii_whitespace().collect();
            let (symbols, mut chain) = kernel(&names);
            chain.push(0);
            let found = functions(&chain, &symbols);
            let found: Vec<&str> = found.iter().map(String::as_str).chain(["", ""]).take(2).collect();
            assert_eq!(found, expected, "{names:?}");
        }
    }

    /// Call chains that differ elsewhere are one call site.
    #[test]
    fn samples_of_a_call_site_add_up() {
        let names = ["free_pages", "rmqueue", "shrink", "exit", "fault", "one", "other"];
        let (symbols, at) = kernel(&names);
        let chain = |places: &[usize]| places.iter().map(|place| at[*place]).collect::<Vec<u64>>();
        let none = Samples::default();
        let samples = || {
            [
                (chain(&[1, 4, 3, 5]), Samples { refill_pages: 4000, page_samples: 1, ..none }),
                (chain(&[1, 4, 3, 6]), Samples { refill_pages: 9000, page_samples: 2, ..none }),
                (chain(&[0, 4, 3, 6]), Samples { drain_pages: 500, page_samples: 1, ..none }),
                (chain(&[0, 4, 3]), Samples { wait_ns: 70, waits: 5, ..none }),
                (chain(&[0, 4, 2]), Samples { wait_ns: 8, waits: 1, ..none }),
            ]
            .into_iter()
        };
        let all = sites(samples(), &symbols, true);
        let of = |caller: &str| all.iter().find(|site| site.caller == caller).unwrap().clone();
        let fault = |caller: &str| Site { function: "fault".to_owned(), caller: caller.to_owned(), ..Site::default() };
        let wait = |times, ns| Some(Wait { times, ns });
        let exit = Site { refill_pages: 13_000, drain_pages: 500, samples: 4, wait: wait(5, 70), ..fault("exit") };
        assert_eq!((all.len(), of("exit")), (2, exit));
        assert_eq!(of("shrink"), Site { wait: wait(1, 8), ..fault("shrink") });
        assert!(sites(samples(), &symbols, false).iter().all(|site| site.wait.is_none()));
    }

    /// As root: the pages that a thread touches appear at the page fault, and all call sites together moved what the CPUs
    /// moved, but for the pages since the last sample.
    #[test]
    fn touched_pages_belong_to_the_page_fault() {
        let mut counters = match Counters::start(Detail::Movers, 0) {
            Ok(counters) => counters,
            Err(error) => return println!("SKIPPED touched_pages_belong_to_the_page_fault: {error}"),
        };
        let before = counters.read().unwrap();
        if counters.sites().is_none() {
            return println!("SKIPPED touched_pages_belong_to_the_page_fault: {:?}", counters.missing());
        }
        let mut now = before.clone();
        let mut functions = BTreeMap::new();
        let (mut refills, mut drains, mut samples, mut kept) = (0, 0, 0, Vec::new());
        // Pagesets may hold an eighth of the memory, and give it without a refill. So what was touched is kept.
        while refills < 200_000 && kept.len() < 12 {
            kept.push(std::hint::black_box(vec![1_u8; 1 << 28]));
            now = counters.read().unwrap();
            let sites = counters.sites().unwrap();
            assert_eq!(sites.lost_pages, 0);
            for site in &sites.all {
                (refills, drains) = (refills + site.refill_pages, drains + site.drain_pages);
                samples += site.samples;
                *functions.entry(site.function.clone()).or_insert(0) += site.refill_pages;
                assert!(site.samples > 0 || site.wait.is_some_and(|wait| wait.times > 0), "{site:?}");
            }
        }
        println!("{functions:?}");
        // The function of base pages, and those of folios of several pages, on all kernels.
        let is_fault = |name: &str| ["anonymous_page", "anon_folio"].iter().any(|part| name.contains(part));
        let faults: u64 = functions.iter().filter(|(name, _)| is_fault(name)).map(|(_, pages)| pages).sum();
        assert!(faults >= 100_000 && 2 * faults >= refills, "{faults} of {refills} pages: {functions:?}");
        let apart = (refills + drains) / samples.max(1);
        let expected = u64::from(PAGES_APART);
        assert!((expected / 2..=2 * expected).contains(&apart), "{samples} samples of {refills} and {drains} pages");
        let grown = |of: fn(&Traffic) -> u64| now.iter().map(of).sum::<u64>() - before.iter().map(of).sum::<u64>();
        // The first read is after the start: pages before it are in its samples, or in the next.
        let tail = 4 * u64::from(PAGES_APART) * now.len() as u64;
        for (by_site, by_cpu) in [(refills, grown(|t| t.refill_pages)), (drains, grown(|t| t.drain_pages))] {
            assert!(by_site.abs_diff(by_cpu) <= tail, "{by_site} of {by_cpu} pages");
        }
    }
}
