//! Which lock a waiting stack waits for.

use std::collections::HashMap;
use std::sync::LazyLock;

/// A lock, or a kind of locks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Lock {
    /// `zone->lock`: the free lists of a zone.
    Zone,
    /// `lruvec->lru_lock`, and `zone->lru_lock` before 4.8.
    Lru,
    /// `list_lock` of a slab cache's node.
    Slab,
    PageTable,
    /// `mmap_lock`.
    Mmap,
    /// `i_pages` of a file.
    PageCache,
    RunQueue,
    /// Swap slots.
    Swap,
    /// `vmap_area_lock`.
    Vmalloc,
    Memcg,
    Futex,
    /// Directory entries.
    Dentry,
    /// A list of objects that a shrinker frees.
    ListLru,
    Network,
}

impl Lock {
    pub(crate) fn all() -> impl Iterator<Item = Lock> {
        LOCKS.iter().map(|(lock, ..)| *lock)
    }

    /// For a sentence.
    pub(crate) const fn text(self) -> &'static str {
        LOCKS[self as usize].1
    }
}

/// Each lock in the order of [`Lock`]: its name for a sentence, and the functions that take it, as the frame next to the wait.
const LOCKS: [(Lock, &str, &str); 14] = [
    (
        Lock::Zone,
        "the zone lock",
        "rmqueue_bulk free_pcppages_bulk free_one_page rmqueue rmqueue_buddy __rmqueue_pcplist get_page_from_freelist \
         buffered_rmqueue free_hot_cold_page free_hot_cold_page_list __free_pages_ok free_unref_page_commit \
         free_frozen_page_commit free_unref_page_list free_unref_folios free_pages_bulk drain_pages_zone \
         drain_zone_pages drain_pages isolate_freepages_block __isolate_free_page unreserve_highatomic_pageblock \
         reserve_highatomic_pageblock take_page_off_buddy free_pcp_prepare __free_one_page set_migratetype_isolate \
         unset_migratetype_isolate move_freepages_block frag_show_print walk_zones_in_node pagetypeinfo_showfree_print \
         decay_pcp_high free_to_pcp rmqueue_pcplist show_free_areas balance_pgdat alloc_contig_range split_free_page \
         __free_pages_core zone->lock",
    ),
    (
        Lock::Lru,
        "the LRU lock",
        "folio_lruvec_lock_irqsave folio_lruvec_lock_irq folio_lruvec_lock lock_page_lruvec_irqsave \
         lock_page_lruvec_irq lock_page_lruvec pagevec_lru_move_fn folio_batch_move_lru __page_cache_release \
         release_pages folios_put_refs shrink_inactive_list shrink_active_list isolate_migratepages_block \
         isolate_lru_page isolate_lru_pages folio_isolate_lru __pagevec_lru_add ____pagevec_lru_add pagevec_move_tail \
         activate_page folio_activate lru_add_drain_cpu lru_note_cost evict_folios isolate_folios move_folios_to_lru \
         shrink_lruvec shrink_zone check_move_unevictable_pages relock_page_lruvec_irqsave folio_lruvec_relock_irqsave \
         mlock_folio_batch lru_deactivate_file put_page_testzero page_cache_release lru_lock lru_gen_look_around \
         __activate_page",
    ),
    (
        Lock::Slab,
        "a slab's list lock",
        "get_partial_node get_partial_node.part __unfreeze_partials unfreeze_partials deactivate_slab ___slab_alloc \
         __slab_alloc __slab_free put_cpu_partial cache_alloc_refill cache_flusharray free_block drain_array \
         cache_grow fallback_alloc ____cache_alloc_node get_any_partial new_slab list_lock spl_kmem_cache_alloc \
         __slab_try_return_freelist",
    ),
    (
        Lock::PageTable,
        "page-table locks",
        "__pte_offset_map_lock do_anonymous_page handle_pte_fault do_numa_page zap_pte_range copy_pte_range \
         __pte_alloc do_huge_pmd_anonymous_page finish_fault wp_page_copy do_wp_page follow_page_pte change_pte_range \
         page_vma_mapped_walk alloc_set_pte filemap_map_pages __do_fault do_cow_page",
    ),
    (
        Lock::Mmap,
        "mmap_lock",
        "down_read_killable vm_mmap_pgoff do_munmap __vm_munmap do_user_addr_fault lock_mm_and_find_vma mmap_lock \
         mmap_sem do_mprotect_pkey __do_page_fault do_madvise sys_brk __x64_sys_brk __se_sys_brk __x64_sys_munmap \
         __x64_sys_mprotect __do_sys_brk",
    ),
    (
        Lock::PageCache,
        "the page cache's lock of a file (i_pages)",
        "__filemap_add_folio filemap_add_folio __add_to_page_cache_locked add_to_page_cache_lru __remove_mapping \
         __set_page_dirty_nobuffers __folio_mark_dirty __folio_start_writeback __folio_end_writeback \
         test_clear_page_writeback delete_from_page_cache_batch truncate_cleanup_page __filemap_remove_folio \
         shadow_lru_isolate workingset_update_node page_cache_tree_insert",
    ),
    (
        Lock::RunQueue,
        "run queues of the scheduler",
        "try_to_wake_up load_balance sched_balance_rq raw_spin_rq_lock_nested task_rq_lock __task_rq_lock ttwu_queue \
         update_blocked_averages newidle_balance scheduler_tick __schedule double_lock_balance update_sd_lb_stats \
         distribute_cfs_runtime sched_tick",
    ),
    (
        Lock::Swap,
        "swap slots",
        "get_swap_pages get_swap_page swap_entry_free swapcache_free swap_duplicate __swap_duplicate swap_info_get \
         free_swap_slot get_swap_page_of_type scan_swap_map_slots swap_alloc_slow folio_alloc_swap",
    ),
    (
        Lock::Vmalloc,
        "the vmalloc lock",
        "alloc_vmap_area find_vmap_area free_vmap_area_noflush __purge_vmap_area_lazy get_vmalloc_info remove_vm_area",
    ),
    (
        Lock::Memcg,
        "a memory cgroup",
        "refill_stock try_charge mem_cgroup_charge_statistics cgroup_rstat_flush_locked css_rstat_flush uncharge_batch \
         cgroup_rstat_updated",
    ),
    (Lock::Futex, "futex buckets", "futex_wake futex_wait_setup futex_q_lock futex_requeue futex_wait do_futex"),
    (
        Lock::Dentry,
        "directory entries",
        "d_alloc d_alloc_parallel lockref_get_not_dead lockref_put_return dput lockref_get d_walk shrink_dentry_list",
    ),
    (
        Lock::ListLru,
        "a shrinker's list (list_lru)",
        "list_lru_add list_lru_del list_lru_count_one list_lru_walk_one __list_lru_walk_one",
    ),
    (
        Lock::Network,
        "network queues",
        "__dev_queue_xmit sch_direct_xmit tcp_v4_rcv release_sock lock_sock_nested skb_queue_tail unix_stream_sendmsg \
         enqueue_to_backlog sock_def_readable ep_poll_callback __netif_receive_skb __qdisc_run",
    ),
];

/// Each function that takes a lock, in the order of the table.
fn takers() -> impl Iterator<Item = (&'static str, Lock)> {
    LOCKS.iter().flat_map(|(lock, _, takers)| takers.split(' ').map(|taker| (taker, *lock)))
}

static TAKERS: LazyLock<HashMap<&'static str, Lock>> = LazyLock::new(|| takers().collect());

/// Work for memory that is not a wait for a lock: a name for a sentence, and the functions.
const WORK: [(&str, &str); 4] = [
    (
        "compaction",
        "compact_zone isolate_migratepages_block isolate_migratepages isolate_freepages isolate_freepages_block \
         fast_find_migrateblock fast_isolate_freepages split_map_pages compaction_alloc",
    ),
    (
        // Compaction does it, and so do the balancing of nodes, reclaim and demotion.
        "the migration or unmapping of pages",
        "migrate_pages migrate_pages_batch migrate_folio_unmap map_pte page_vma_mapped_walk remove_migration_pte \
         try_to_migrate_one rmap_walk_anon rmap_walk copy_highpage folio_copy",
    ),
    (
        "the zeroing of pages",
        "clear_page_erms clear_page_rep clear_page_orig clear_page clear_huge_page clear_subpage clear_highpage",
    ),
    (
        "reclaim",
        "shrink_node shrink_node_memcg shrink_lruvec shrink_slab do_shrink_slab shrink_page_list shrink_folio_list \
         folio_referenced_one page_referenced_one try_to_unmap_one super_cache_count super_cache_scan prune_super \
         mem_cgroup_iter balance_pgdat",
    ),
];

/// The work for memory that a function does.
pub(crate) fn work_of(function: &str) -> Option<&'static str> {
    WORK.iter().find(|(_, functions)| functions.split(' ').any(|name| name == function)).map(|(work, _)| *work)
}

/// Functions that wait for a lock themselves.
const SPINS: &str = "native_queued_spin_lock_slowpath __pv_queued_spin_lock_slowpath pv_queued_spin_lock_slowpath \
     queued_spin_lock_slowpath queued_read_lock_slowpath queued_write_lock_slowpath __ticket_spin_lock \
     ticket_spin_lock __ticket_spin_lock_slowpath osq_lock rwsem_spin_on_owner mutex_spin_on_owner lock_contention \
     virt_spin_lock";

/// The parts of names of functions between a wait and the function that takes the lock.
const WRAPPERS: &str = "_raw_spin_ raw_spin_lock _spin_lock do_raw_spin_lock spin_lock __raw_spin_ lock_acquire __lock_text rwsem_down_ \
     rwsem_optimistic __mutex_lock mutex_lock down_write down_read trace_contention __traceiter_";

/// Whether a function waits for a lock itself, or is what a sample shows of it.
pub(crate) fn spins(function: &str) -> bool {
    SPINS.split(' ').any(|spin| spin == function) || is_spin_lock(function)
}

/// Whether a task that waits for a lock sleeps in this function, or in one that this function calls.
pub(crate) fn sleeps(function: &str) -> bool {
    const BEGINS: &str = "rwsem_down_ __rwsem_down_ call_rwsem_down_ __mutex_lock mutex_lock schedule_preempt_disabled";
    matches!(function, "__schedule" | "schedule") || BEGINS.split(' ').any(|begin| function.starts_with(begin))
}

/// The function in which a task sleeps that waits for no lock: the first one below those of the scheduler. Frames are the innermost first.
pub(crate) fn sleeps_in(frames: &[String]) -> Option<&str> {
    const BEGINS: &str = "__schedule schedule io_schedule __switch_to wait_for_ do_wait_for_ __wait_for_ __wait_on_ out_of_line_wait_on_ \
         wait_on_ bit_wait folio_wait_ __folio_lock __lock_page flush_work __flush_work";
    let is_wait = |frame: &&String| BEGINS.split(' ').any(|begin| frame.starts_with(begin));
    frames.first().filter(is_wait)?;
    frames.iter().find(|frame| !is_wait(frame)).map(String::as_str)
}

/// `_raw_spin_lock` and its kind: on kernels with inlined waiting the samples are here.
fn is_spin_lock(function: &str) -> bool {
    let lock = function.trim_start_matches('_').trim_start_matches("raw_").trim_start_matches("do_raw_");
    lock.starts_with("spin_lock") || lock.starts_with("spin_trylock")
}

/// Whether a function is known here, so that a line with nothing else is a frame.
pub(crate) fn is_known(function: &str) -> bool {
    spins(function) || sleeps(function) || TAKERS.contains_key(function)
}

/// Whether a function is the outermost caller of a stack.
pub(crate) fn is_outermost(function: &str) -> bool {
    const STARTS: &str = "entry_SYSCALL do_syscall_64 ret_from_fork asm_ page_fault __libc_ _start secondary_startup start_kernel \
         kthread system_call el0 main start_secondary";
    STARTS.split(' ').any(|start| function.starts_with(start))
}

/// What a stack waits for: the lock if it is known, and the function that takes it. `None` if the stack does not wait for a lock.
/// Frames are the innermost first.
pub(crate) fn waited_for(frames: &[String]) -> Option<(Option<Lock>, &str)> {
    let is_asleep = |frame: &&String| sleeps(frame) && !frame.ends_with("schedule");
    let spin = frames.iter().position(|frame| spins(frame) || is_asleep(&frame))?;
    let is_wrapper =
        |frame: &str| spins(frame) || sleeps(frame) || WRAPPERS.split(' ').any(|part| frame.starts_with(part));
    let taker = frames[spin..].iter().position(|frame| !is_wrapper(frame)).map(|place| spin + place);
    // A chain that goes on at the outermost function lacks the one that takes the lock.
    let Some(taker) = taker.filter(|taker| !is_outermost(&frames[*taker])) else { return Some((None, "")) };
    // A taker may be inlined in its caller; the next frames decide then, but only for locks of memory.
    let known = lock_of(&frames[taker]);
    Some((known, &frames[taker]))
}

/// The lock that a function takes, or that has this name.
pub(crate) fn lock_of(function: &str) -> Option<Lock> {
    if function.contains("->") || function.starts_with('&') {
        return takers().find(|(taker, _)| taker.ends_with("lock") && function.contains(taker)).map(|(_, lock)| lock);
    }
    TAKERS.get(function).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_told_apart() {
        let stack = |frames: &[&str]| frames.iter().map(|frame| (*frame).to_owned()).collect::<Vec<_>>();
        for (frames, expected) in [
            (
                &["native_queued_spin_lock_slowpath", "_raw_spin_lock", "rmqueue_bulk", "get_page_from_freelist"][..],
                Some(Lock::Zone),
            ),
            (&["native_queued_spin_lock_slowpath", "_raw_spin_lock_irqsave", "free_pcppages_bulk"], Some(Lock::Zone)),
            (&["_raw_spin_lock", "get_page_from_freelist"], Some(Lock::Zone)),
            (
                &[
                    "native_queued_spin_lock_slowpath",
                    "_raw_spin_lock_irqsave",
                    "folio_lruvec_lock_irqsave",
                    "release_pages",
                ],
                Some(Lock::Lru),
            ),
            (&["native_queued_spin_lock_slowpath", "_raw_spin_lock_irq", "shrink_inactive_list"], Some(Lock::Lru)),
            (
                &["native_queued_spin_lock_slowpath", "_raw_spin_lock", "get_partial_node", "___slab_alloc"],
                Some(Lock::Slab),
            ),
            (&["native_queued_spin_lock_slowpath", "_raw_spin_lock", "futex_wake"], Some(Lock::Futex)),
            (&["native_queued_spin_lock_slowpath", "_raw_spin_lock", "something_else"], None),
            (&["native_queued_spin_lock_slowpath", "do_syscall_64", "entry_SYSCALL_64_after_hwframe"], None),
            (
                &["__schedule", "schedule", "rwsem_down_write_slowpath", "down_write_killable", "__x64_sys_brk"],
                Some(Lock::Mmap),
            ),
        ] {
            assert_eq!(waited_for(&stack(frames)).unwrap().0, expected, "{frames:?}");
        }
        assert_eq!(waited_for(&stack(&["clear_page_erms", "get_page_from_freelist"])), None);
        assert_eq!(waited_for(&stack(&["__schedule", "schedule", "io_schedule", "filemap_get_pages"])), None);
        assert_eq!(lock_of("&zone->lock"), Some(Lock::Zone));
        assert_eq!(lock_of("&(&lruvec->lru_lock)->rlock"), Some(Lock::Lru));
        assert_eq!(lock_of("&rq->__lock"), None);
    }

    #[test]
    fn a_function_takes_one_lock() {
        let all: Vec<&str> = takers().map(|(taker, _)| taker).collect();
        for function in &all {
            assert_eq!(all.iter().filter(|other| *other == function).count(), 1, "{function}");
        }
    }
}
