//! The texts in `inputs`, each with its sentence. They are shortened from public issue threads and mailing lists, without names of
//! hosts and users; `sources.txt` has their addresses. Some are made from the described form of a kernel or a tool.

use pageset_explain::explain;
use proptest::prelude::*;

/// The file, and the sentence that it begins with.
const SENTENCES: &[(&str, &str)] = &[
    (
        "ansi-order4.txt",
        "An order-4 GFP_KERNEL request of xorg failed because order 4 (64 kB) is missing, not memory: node 0 Normal has 173,104 kB free, above its min mark of 17,308 kB, but its largest free block is of order 2 (16 kB).",
    ),
    ("bcc-offcputime.txt", "No stack of the text waits for a lock; those that sleep do it most in rcu_nocb_kthread."),
    (
        "bpftrace-zone.txt",
        "The waits are for the zone lock: 86 % of them, in free_pcppages_bulk; others: LRU lock 13 %, futex buckets 1 %.",
    ),
    (
        "buddyinfo-drgn.txt",
        "No order is missing: node 0 Normal has free blocks up to the largest order, 10 (4,096 kB).",
    ),
    (
        "buddyinfo-healthy.txt",
        "No order is missing: node 0 DMA32 has free blocks up to the largest order, 10 (4,096 kB).",
    ),
    (
        "buddyinfo-small-blocks.txt",
        "Order 5 (128 kB) and above are missing, not memory: node 1 Normal has 1,011,124 free pages, but no free block above order 4.",
    ),
    (
        "earlyoom.txt",
        "The text shows no failed request: earlyoom, a program, watches available memory and ends processes by its own thresholds.",
    ),
    (
        "extfrag.txt",
        "Order 3 and above are missing, not memory: the fragmentation index of node 0 Normal is 0.999, near 1, which means that free memory is in small blocks.",
    ),
    ("hard-lockup-zone.txt", "The waits are for the zone lock: 100 % of them, in free_pcppages_bulk."),
    ("hugepages-all-used.txt", "All 1,024 huge pages of 2,048 kB are in use: DPDK found no free huge page of 2 MB."),
    (
        "hugepages-files.txt",
        "9,000 of 9,000 huge pages are free; the text is /sys/kernel/mm/hugepages, which shows no zone, mark, free block or per-CPU list.",
    ),
    (
        "hugepages-not-opened.txt",
        "4,096 of 4,096 huge pages are free: DPDK cannot open its file of huge pages, so it does not get them: most often rights, the mount point, or files that another run left.",
    ),
    (
        "hugepages-qemu.txt",
        "QEMU could not get the guest's memory from huge pages: on the nodes or in the cgroup (hugetlb) that it may use, too few are free.",
    ),
    ("hugepages-spdk.txt", "Huge pages are missing: the kernel was asked to reserve 4,096 and found room for 3,738."),
    (
        "hung-task-numbered.txt",
        "Task python3 waited for 120 s or more without running; it sleeps in shrink_page_list, while it reclaims memory, which is not a wait for a lock.",
    ),
    (
        "kmsg-6.8-boost.txt",
        "An order-0 GFP_ATOMIC request of kswapd0 failed, but node 0 DMA32 was above the mark when the kernel printed this: 122,112 kB free, above the 1,460 kB that an urgent request must leave (min is 3,888 kB) plus lowmem_reserve of 120,396 kB; 11,264 kB of node 0 Normal wait in per-CPU lists, 248 kB of it in the list of the CPU that failed.",
    ),
    (
        "lmkd-parse-error.txt",
        "The text shows no shortage: Android's low memory killer cannot read a file of this kernel (a parse error), so it does not know how much is free.",
    ),
    (
        "lmkd-reclaim.txt",
        "The text shows no failed request: Android's low memory killer ended a process to keep memory available, by its own thresholds.",
    ),
    (
        "lmkd.txt",
        "The text shows no failed request: Android's low memory killer ended a process to keep memory available, by its own thresholds.",
    ),
    (
        "lock-stat-callers.txt",
        "The waits are for the zone lock: 100 % of them, in get_page_from_freelist, free_one_page, free_pcppages_bulk.",
    ),
    (
        "log-2.4-order-first.txt",
        "An order-0 GFP_KERNEL request failed; the text has no zones (Mem-Info), so it does not show which zone was short.",
    ),
    (
        "log-2.6.32-first-zone.txt",
        "The text lacks the zones that serve ordinary requests, and the request that failed: it has node 0 DMA with 15,728 kB free.",
    ),
    (
        "log-2.6.32-trace-only.txt",
        "An order-2 GFP_ATOMIC request of swapper failed; the text has no zones (Mem-Info), so it does not show which zone was short.",
    ),
    (
        "log-2.6.38-atomic-markdown.txt",
        "An order-0 GFP_ATOMIC request of swapper failed because memory is short: node 0 Normal has 2,264 kB free, below its min mark of 13,224 kB and the 4,960 kB that even an urgent request must leave, and the other 2 zones refuse it too.",
    ),
    (
        "log-3.10-memcg-java.txt",
        "A memory cgroup, not a zone, is short: java asked for memory beyond the limit of its cgroup.",
    ),
    (
        "log-3.18-order4-kasan.txt",
        "An order-4 GFP_KERNEL request of a.out failed; the text has no zones (Mem-Info), so it does not show which zone was short.",
    ),
    (
        "log-3.2-lists-per-cpu.txt",
        "An order-0 GFP_ATOMIC request of z_wr_int/10 failed because memory is short: zone DMA32 has 744 kB free, below its min mark of 5,708 kB and the 2,144 kB that even an urgent request must leave, and the other zone refuses it too; 2,828 kB of zone DMA32 wait in per-CPU lists, most in CPU 0's (185 pages), which would have been enough.",
    ),
    (
        "log-3.2-vmalloc-0-bytes.txt",
        "A vmalloc request of modprobe for 0 bytes failed because the caller asked for nothing: memory is not short.",
    ),
    (
        "log-3.8-order9.txt",
        "An order-9 GFP_ATOMIC request of tcpdump failed; the text has no zones (Mem-Info), so it does not show which zone was short.",
    ),
    (
        "log-4.12-highuser-mail.txt",
        "An order-0 GFP_HIGHUSER request of RenderThread failed; the text has no zones (Mem-Info), so it does not show which zone was short.",
    ),
    ("log-4.14-no-zones.txt", "The text has no zone with its marks: 1,883 pages are free in the whole machine."),
    (
        "log-4.14-vmalloc-no-room.txt",
        "A vmalloc request of modload for 425,984 bytes failed because its address space has no hole of that size, not because memory is short: zones, marks and per-CPU lists do not decide this.",
    ),
    (
        "log-4.18-cut-after-dma.txt",
        "An order-0 GFP_ATOMIC request of worker failed because memory is short: node 0 DMA has 13,312 kB free, above its min mark of 64 kB, but lowmem_reserve keeps 61,568 kB from this request, and the text ends before the zones that should have served it; 1,688 more pages (6,752 kB, 1.5 % of what is free) wait in per-CPU lists of all zones.",
    ),
    (
        "log-4.4-oom-two-zones.txt",
        "An order-0 GFP_KERNEL request of java started the OOM killer because memory is short: node 0 Normal has 18,296 kB free, below its min mark of 48,948 kB, and the other zone refuses it too; 1,124 kB of node 0 DMA32 wait in per-CPU lists, 120 kB of it in the list of the CPU that failed, which would have been enough; locked pages (mlocked) hold 7,752,072 kB (54 % of the memory).",
    ),
    (
        "log-4.4-vmalloc-arm64.txt",
        "A vmalloc request of modprobe for 3,760,332 bytes failed because its address space has no hole of that size, not because memory is short: zones, marks and per-CPU lists do not decide this.",
    ),
    (
        "log-4.9-four-nodes.txt",
        "An order-0 GFP_ATOMIC request of java failed, but node 2 Normal was above the mark when the kernel printed this: 209,784 kB free, above the 6,144 kB that an urgent request must leave (min is 16,384 kB); the text lacks node 0, which may be the short one.",
    ),
    (
        "log-4.9-one-number-a-line.txt",
        "An order-0 GFP_ATOMIC request of swapper/12 failed because memory is short: node 0 Normal has 24,148 kB free, below its min mark of 65,640 kB and the 24,616 kB that even an urgent request must leave; 5,984 kB of node 0 Normal wait in per-CPU lists, 460 kB of it in the list of the CPU that failed, which would have been enough.",
    ),
    (
        "log-4.9-order10-only-cma.txt",
        "An order-10 GFP_ATOMIC request of app failed because order 10 (4,096 kB) is missing, not memory: zone Normal has 248,344 kB free, above the 920 kB that an urgent request must leave (min is 2,444 kB), but its free blocks of order 10 and above are CMA, which this request may not use.",
    ),
    (
        "log-5.15-no-request.txt",
        "No zone is short for an ordinary order-0 request: node 0 Normal has 300,328 kB free, and 53,036 kB must stay; the text lacks the request that failed.",
    ),
    (
        "log-5.4-highatomic.txt",
        "An order-0 GFP_KERNEL request of mmcqd started the OOM killer because memory is short: zone Normal has 56,424 kB free, but 56,424 kB of that is reserved for atomic requests (HighAtomic), and the other 0 kB are below its min mark of 8,192 kB.",
    ),
    (
        "log-5.4-kmem-limit.txt",
        "An order-0 GFP_KERNEL request for the slab cache signal_cache failed, most likely at the limit of memory cgroup 632851, which owns that cache: the text has no page allocation failure.",
    ),
    (
        "log-5.x-order4-drm.txt",
        "An order-4 GFP_KERNEL request of Xorg failed because memory is short, and order 4 (64 kB) is missing too: node 0 Normal has 173,104 kB free, below its min mark of 173,116 kB, and the other 2 zones refuse it too; 780 kB of node 0 Normal wait in per-CPU lists, 0 kB of it in the list of the CPU that failed.",
    ),
    (
        "log-6.1-oom-cma.txt",
        "An order-0 GFP_KERNEL request of app started the OOM killer because memory is short: zone DMA has 519,112 kB free, but 513,592 kB of that is CMA, which this request may not use, and the other 5,520 kB are below its min mark of 10,428 kB.",
    ),
    (
        "log-6.1-trace-only-arm.txt",
        "A request failed, but the text has only its call trace: neither the order nor the zones.",
    ),
    (
        "log-64k-pages.txt",
        "An order-0 GFP_ATOMIC request of worker failed because memory is short: node 0 Normal has 192,000 kB free, below its min mark of 704,512 kB and the 264,192 kB that even an urgent request must leave.",
    ),
    (
        "log-at-boot.txt",
        "The zones have no marks and no free page: the kernel printed this at boot, before it gave the memory to the page allocator, so a request came too early.",
    ),
    (
        "log-bug-in-compaction.txt",
        "Memory is not short: the kernel found its own state wrong and stopped (BUG at mm/page_alloc.c:3112).",
    ),
    (
        "log-cma-alloc.txt",
        "A CMA request for 2,025 contiguous pages failed because no free range of its area is that long (-12, ENOMEM); marks and per-CPU lists do not decide this.",
    ),
    (
        "log-cma-busy-ranges.txt",
        "A CMA request for 148 contiguous pages failed because pages in its area are in use and could not be moved, or another caller was emptying them (-16, EBUSY): 33,161 of its 81,920 pages are free, and its longest free range has 7,276; marks and per-CPU lists do not decide this.",
    ),
    (
        "log-cma-busy.txt",
        "A contiguous range could not be emptied: pages in it are in use and could not be moved; marks and per-CPU lists do not decide this.",
    ),
    (
        "log-cma-gpu.txt",
        "A CMA request for 2,040 contiguous pages failed because no free range of its area is that long (-12, ENOMEM); marks and per-CPU lists do not decide this.",
    ),
    (
        "log-cma-longest-range.txt",
        "A CMA request for 256 contiguous pages failed because no free range of its area is that long (-12, ENOMEM): 357 of its 2,048 pages are free, and its longest free range has 166; marks and per-CPU lists do not decide this.",
    ),
    (
        "log-cma-named-area.txt",
        "A CMA request for 16 contiguous pages failed because no free range of its area is that long (-12, ENOMEM); marks and per-CPU lists do not decide this.",
    ),
    ("log-end-only.txt", "The text is the end of a report: the request and the zones are in the lines before it."),
    (
        "log-end-then-request.txt",
        "An order-0 GFP_ATOMIC request of mmcqd/0 failed; the text has no zones (Mem-Info), so it does not show which zone was short.",
    ),
    (
        "log-highmem-pi4.txt",
        "An order-0 GFP_ATOMIC request of kworker/0:1 failed because memory is short: zone DMA has 5,668 kB free, below its min mark of 16,384 kB and the 6,144 kB that even an urgent request must leave.",
    ),
    (
        "log-hugetlb.txt",
        "Huge pages are missing: the kernel was asked to reserve 1,024 of 2.00 MiB and found room for 512.",
    ),
    (
        "log-hung-task-drain.txt",
        "Task swapper/0 waited for 10 s or more without running; it sleeps in drain_all_pages, until other CPUs have emptied their per-CPU lists.",
    ),
    (
        "log-hung-task-lru-drain.txt",
        "Task khugepaged waited for 122 s or more without running; it sleeps in __lru_add_drain_all, until other CPUs have emptied their batches for the LRU lists.",
    ),
    ("log-hung-task.txt", "The waits are for mmap_lock: 100 % of them, in __x64_sys_brk."),
    (
        "log-kmalloc-warning.txt",
        "Memory is not short: the kernel warns of the size that the caller asked kmalloc for, and refuses it.",
    ),
    ("log-list-corruption.txt", "Memory is not short: something overwrote a list of the kernel."),
    (
        "log-lockdep-pcp.txt",
        "Memory is not short: the kernel's checker of locks (lockdep) found locks that are taken in a way that can deadlock, a fault of the kernel or of a module.",
    ),
    (
        "log-memcg-constraint-line.txt",
        "A memory cgroup, not a zone, is short: kubepods-burstable-podeded8c65.slice is at its limit, and the kernel killed worker in it.",
    ),
    (
        "log-memcg-task-in.txt",
        "A memory cgroup, not a zone, is short: docker-b2720133.scope uses 1,048,576 kB of its limit of 1,048,576 kB (reached 189 times).",
    ),
    (
        "log-memcg-then-failure.txt",
        "An order-0 GFP_ATOMIC request of swapper/1 failed because memory is short: node 0 Normal has 13,564 kB free, below its min mark of 65,640 kB and the 24,616 kB that even an urgent request must leave.",
    ),
    (
        "log-memcg-usage-after-trace.txt",
        "A memory cgroup, not a zone, is short: kubepods-burstable-pod1.slice uses 1,048,576 kB of its limit of 1,048,576 kB (reached 141 times).",
    ),
    (
        "log-no-mem-info-router.txt",
        "An order-3 GFP_ATOMIC request of swapper failed; the text has no zones (Mem-Info), so it does not show which zone was short.",
    ),
    (
        "log-nvidia-gpu-memory.txt",
        "The message is of the NVIDIA driver: it says nothing about a zone of the kernel unless a `page allocation failure` follows.",
    ),
    (
        "log-oom-by-hand.txt",
        "Memory is not short: the OOM killer was started by hand (order -1: sysrq f), so the zones show no failed request.",
    ),
    (
        "log-oom-last-line.txt",
        "The OOM killer ended java, and the text has only its last line, so it does not show which zone was short.",
    ),
    (
        "log-order-too-large.txt",
        "Memory is not short: the kernel warns of the request itself (mm/page_alloc.c), most often because its order is above the largest one, and refuses it.",
    ),
    (
        "log-order3-blocks-only.txt",
        "An order-3 GFP_ATOMIC request of kworker/u8:7 failed, most likely because order 3 (32 kB) is missing: zone Normal has 280,296 kB free, and its largest free block is of order 1; the text lacks its marks.",
    ),
    (
        "log-order5-missing-mail.txt",
        "An order-5 GFP_ATOMIC request of khubd failed because order 5 (128 kB) is missing, not memory: zone Normal has 12,200 kB free, above the 1,080 kB that an urgent request must leave (min is 2,868 kB), but its largest free block is of order 3 (32 kB).",
    ),
    (
        "log-percpu-size.txt",
        "Memory is not short: the caller asked the allocator of per-CPU variables for more than it gives in one piece (32 kB).",
    ),
    (
        "log-riscv-dma32.txt",
        "An order-0 GFP_KERNEL|GFP_DMA32 request of swapper/0 failed; the text has no zones (Mem-Info), so it does not show which zone was short.",
    ),
    (
        "log-slub-only.txt",
        "An order-0 GFP_ATOMIC request for the slab cache kmalloc-1024 failed, most likely at the limit of memory cgroup 1793, which owns that cache: the text has no page allocation failure.",
    ),
    (
        "log-slub-two-nodes.txt",
        "An order-0 GFP_ATOMIC request for the slab cache mnt_cache failed, most likely at the limit of memory cgroup 9946, which owns that cache: the text has no page allocation failure.",
    ),
    (
        "log-soft-lockup-running.txt",
        "CPU 5 did not schedule for 23 s (process modprobe); it executed csd_lock_wait.isra.1, which is not a wait for a spin lock.",
    ),
    (
        "log-trace-without-message.txt",
        "The text is a call trace without its message, so it does not show what happened: the task was in shrink_zone while it reclaims memory, which is not a wait for a lock.",
    ),
    (
        "log-vmalloc-8-gib.txt",
        "A vmalloc request of syz-executor6 for 8,589,934,588 bytes failed, and the text does not show why: it lacks how much memory the machine has.",
    ),
    (
        "log-vmap-only.txt",
        "A vmalloc request for 36,864 bytes failed because its address space has no hole of that size, not because memory is short: zones, marks and per-CPU lists do not decide this.",
    ),
    (
        "log-xfs-deadlock.txt",
        "XFS repeats a request of runc:[1:CHILD] that does not succeed; the text has no zones, so it does not show whether the order or the memory is missing.",
    ),
    (
        "log-zfs-deadlock.txt",
        "ZFS repeats a request for 44,037 bytes (order 4, 64 kB) that does not succeed; the text has no zones, so it does not show whether the order or the memory is missing.",
    ),
    ("log-zfs-large.txt", "The text shows no failed request: ZFS warns that it asks for a large piece at once."),
    (
        "log-zspages.txt",
        "Memory is short: node 0 DMA32 has 3,512 kB free, below its min mark of 3,912 kB; compressed swap (zspages) hold 927,940 kB (93 % of the memory); the text lacks the request that failed.",
    ),
    (
        "memcg-event.txt",
        "A memory cgroup, not a zone, is short: the cgroup of this process is at its limit, and the kernel killed node in it.",
    ),
    (
        "meminfo.txt",
        "Memory is not short: 21,034,988 kB of 32,780,412 kB are available; the text is /proc/meminfo, which shows no zone, mark, free block or per-CPU list.",
    ),
    (
        "nmi-backtrace-kswapd.txt",
        "CPU 1 was asked for its stack; it executed shrink_node_memcg, which is not a wait for a spin lock.",
    ),
    (
        "pagetypeinfo-cma.txt",
        "Order 4 (64 kB) and above are missing, not memory, for all requests that may not use CMA or HighAtomic: node 0 Normal has 135,056 free pages, but its other free blocks end at order 3.",
    ),
    (
        "perf-folded-nameless.txt",
        "The waits are for the lock in finish_wait: 50 % of them (2.5 % of the samples wait for locks); others: lock in tcp_prequeue 50 %.",
    ),
    (
        "perf-folded-slab-reclaim.txt",
        "The waits are for a shrinker's list (list_lru): 100 % of them, in list_lru_count_one (3.6 % of the samples wait for locks).",
    ),
    (
        "perf-graph-in-mail.txt",
        "The waits are for the zone lock: 100 % of them, in free_one_page (10.8 % of the samples wait for locks).",
    ),
    (
        "perf-lock-contention.txt",
        "The waits are for the zone lock: 95 % of them, in rmqueue_bulk; others: LRU lock 5 %.",
    ),
    (
        "perf-report-children.txt",
        "The waits are for the zone lock: 100 % of them, in get_page_from_freelist (65.1 % of the samples wait for locks).",
    ),
    (
        "perf-report-compaction.txt",
        "No samples are in functions that wait for locks; no function that takes the zone lock is in the text, and 8.5 % of the samples are the zeroing of pages.",
    ),
    (
        "perf-report-futex-flat.txt",
        "No samples are in functions that wait for locks; functions that take futex buckets have 38.7 % themselves (futex_wake, futex_wait, do_futex), which is work and not waiting.",
    ),
    (
        "perf-report-kworker.txt",
        "The waits are for the zone lock: 100 % of them, in free_pcppages_bulk (2.6 % of the samples wait for locks).",
    ),
    (
        "perf-report-no-kernel-frames.txt",
        "1.8 % of the samples wait for spin locks, but the call chains end before the function that takes the lock, so they do not show which; no function that takes the zone lock is in the text.",
    ),
    (
        "perf-report-zone.txt",
        "The waits are for the zone lock: 100 % of them, in rmqueue_bulk, free_pcppages_bulk (62.4 % of the samples wait for locks).",
    ),
    (
        "perf-script-slab.txt",
        "The waits are for a slab's list lock: 100 % of them, in get_partial_node (50.0 % of the samples wait for locks).",
    ),
    (
        "perf-script-zone.txt",
        "The waits are for the zone lock: 100 % of them, in rmqueue (50.0 % of the samples wait for locks).",
    ),
    ("perf-test-robot.txt", "The waits are for the zone lock: 74 % of them, in rmqueue_bulk; others: LRU lock 26 %."),
    (
        "perf-top-addresses.txt",
        "The profile has addresses in place of the kernel's functions, so it does not show what waits for a lock.",
    ),
    (
        "perf-top-flat.txt",
        "4.8 % of the samples wait for spin locks, but the text has no call chains, so it does not show which lock; no function that takes the zone lock is in the text.",
    ),
    (
        "perf-top-graph-lru.txt",
        "The waits are for the LRU lock: 78 % of them, in shrink_inactive_list (29.4 % of the samples wait for locks); others: zone lock 22 %.",
    ),
    (
        "perf-top-ticket.txt",
        "18.4 % of the samples wait for spin locks, but the text has no call chains, so it does not show which lock; no function that takes the zone lock is in the text.",
    ),
    (
        "perf-top-two-screens.txt",
        "4.3 % of the samples wait for spin locks, but the text has no call chains, so it does not show which lock; no function that takes the zone lock is in the text.",
    ),
    (
        "perf-top-work.txt",
        "No samples are in functions that wait for locks; functions that take the zone lock have 4.3 % themselves (rmqueue, __free_pages_ok), which is work and not waiting.",
    ),
    ("proc-stack.txt", "The waits are for the LRU lock: 100 % of them, in shrink_inactive_list."),
    (
        "rcu-stall.txt",
        "A CPU kept RCU waiting; the text has no stack that waits for a lock, so it does not show what it waits for.",
    ),
    (
        "slabtop.txt",
        "The largest slab cache of the text is dentry: 78,520 kB of 402,211 kB in all; the text is the output of slabtop, which shows no zone, mark, free block or per-CPU list.",
    ),
    (
        "soft-lockup-4.3-queued.txt",
        "CPU 4 did not schedule for 22 s (process java); it waits for a spin lock, but the text ends before the call trace, so it does not show which.",
    ),
    (
        "soft-lockup-no-stack.txt",
        "CPU 3 did not schedule for 23 s (process ipcm); the text has no stack that waits for a lock, so it does not show what it waits for.",
    ),
    ("soft-lockup-zone.txt", "The waits are for the zone lock: 100 % of them, in free_pcppages_bulk."),
    ("stack-in-journal.txt", "The waits are for the lock in nr_blockdev_pages: 100 % of them."),
    (
        "swiotlb-all-used.txt",
        "The bounce buffers (swiotlb) have no free piece of 4,000 bytes, which a device asked for: 32,768 of 32,768 slots of 2 kB are in use; zones are not short.",
    ),
    (
        "swiotlb-no-counts.txt",
        "The bounce buffers (swiotlb) have no free piece of 16,384 bytes, which a device asked for; zones are not short.",
    ),
    (
        "swiotlb-too-large.txt",
        "The device asked for more at once than a bounce buffer (swiotlb) can be: 524,288 bytes, and 262,144 is the most; 4 of 32,768 slots of 2 kB are in use.",
    ),
    (
        "swiotlb-wrapped.txt",
        "The bounce buffers (swiotlb) have no free piece of 262,144 bytes, which a device asked for: 523,564 of 524,288 slots of 2 kB are in use; zones are not short.",
    ),
    (
        "sysctl-a.txt",
        "These settings: vm.min_free_kbytes is 67,584, vm.watermark_scale_factor is 10, vm.watermark_boost_factor is 15,000, the kernel sizes the per-CPU lists (vm.percpu_pagelist_high_fraction is 0); the text has no zones, so it does not show whether one is short.",
    ),
    (
        "table-compactsnoop.txt",
        "The text has 3 compactions, and the longest took 113.975603 ms (process zsh); the text is the output of compactsnoop, which shows no zone, mark, free block or per-CPU list.",
    ),
    (
        "table-drsnoop.txt",
        "The text has 12 direct reclaims, and the longest took 104.84 ms (process summond); the text is the output of drsnoop, which shows no zone, mark, free block or per-CPU list.",
    ),
    (
        "table-free-enomem.txt",
        "A program got ENOMEM: a limit of processes, of overcommitted memory or of a cgroup, more often than a zone.",
    ),
    (
        "table-memcg-files.txt",
        "The memory cgroup uses 501,346,304 bytes (95.6 %) of its limit of 524,288,000, which it has reached; the text is a memory cgroup's files, which shows no zone, mark, free block or per-CPU list.",
    ),
    (
        "table-meminfo-huge.txt",
        "Memory is short: 301,244 kB of 8,041,204 kB are available, and reserved huge pages hold 2,621,440 kB (33 %); the text is /proc/meminfo, which shows no zone, mark, free block or per-CPU list.",
    ),
    (
        "table-memory-events.txt",
        "A memory cgroup was short: it reached its limit (memory.max) 812 times, and the kernel killed 3 of its processes; the text is memory.events, which shows no zone, mark, free block or per-CPU list.",
    ),
    (
        "table-memory-stat.txt",
        "The largest part of the memory cgroup's memory is slab caches that can be freed (slab_reclaimable): 1,232,589,368 bytes (99 % of what the text counts), and its limit is not in the text; the text is memory.stat, which shows no zone, mark, free block or per-CPU list.",
    ),
    (
        "table-numactl.txt",
        "Node 1 has the least free memory: 19,214 MB of 64,307 MB (29.9 %); the text is the output of numactl --hardware, which shows no zone, mark, free block or per-CPU list.",
    ),
    (
        "table-numastat-m.txt",
        "Node 0 has the least free memory: 3,062 MB of 32,143 MB (9.5 %); the text is the output of numastat -m, which shows no zone, mark, free block or per-CPU list.",
    ),
    (
        "table-numastat-node.txt",
        "All pages for which node 0 was preferred came from it (numa_foreign is 0); other nodes are not in the text; the text is the output of numastat, which shows no zone, mark, free block or per-CPU list.",
    ),
    (
        "table-pressure-none.txt",
        "No task has waited (for memory, if this is pressure/memory); the text is a file of pressure (PSI), which shows no zone, mark, free block or per-CPU list.",
    ),
    (
        "table-pressure.txt",
        "In the last 10 s some task waited 70.2 % of the time, and all tasks at once 57.6 % (for memory, if this is pressure/memory); the text is a file of pressure (PSI), which shows no zone, mark, free block or per-CPU list.",
    ),
    (
        "table-sar-b.txt",
        "Requests reclaim memory themselves: they scan up to 141 pages/s (pgscand/s), and kswapd up to 0 (pgscank/s); the text is the output of sar -B, which shows no zone, mark, free block or per-CPU list.",
    ),
    (
        "table-slabinfo-row.txt",
        "The largest slab cache of the text is dentry: 451,300 kB with pages of 4 KiB; the text is /proc/slabinfo, which shows no zone, mark, free block or per-CPU list.",
    ),
    (
        "table-slabtop-leak.txt",
        "The largest slab cache of the text is ebitmap_node: 45,906,648 kB of 47,376,581 kB in all; the text is the output of slabtop, which shows no zone, mark, free block or per-CPU list.",
    ),
    (
        "table-top-threads.txt",
        "The kernel works for memory: khugepaged makes huge pages with 100 % of a CPU, kswapd0 reclaims with 100 % of a CPU; the text is the output of top, which shows no zone, mark, free block or per-CPU list.",
    ),
    (
        "table-vmstat-5.txt",
        "The machine does not swap (si and so are 0), and 9,446,460 kB are free at least; the text is the output of vmstat, which shows no zone, mark, free block or per-CPU list.",
    ),
    (
        "table-vmstat-s.txt",
        "2,448,760 kB of 4,020,152 kB are free; the text is the output of vmstat -s, which shows no zone, mark, free block or per-CPU list.",
    ),
    (
        "table-vmstat-swaps.txt",
        "The machine swaps on average since boot: up to 651 kB/s in (si) and 531 kB/s out (so), with 9,170,080 kB free at least; the text is the output of vmstat, which shows no zone, mark, free block or per-CPU list.",
    ),
    (
        "trace-alloc-failed.txt",
        "The text is a trace of the kernel: 1 of 3 allocations failed, which was of order 9; it shows no zone, mark or free block.",
    ),
    (
        "trace-direct-reclaim.txt",
        "The text is a trace of the kernel: it has 2 direct reclaims, the longest of 80.611 ms (khugepaged-22, order 9); it shows no zone, mark or free block.",
    ),
    (
        "unusable-index.txt",
        "Order 9 is scarce: 100.0 % of the free memory of node 0 Normal is in smaller blocks; the text does not show how much is free.",
    ),
    (
        "vmstat-part.txt",
        "148,236 pages of the whole machine are free; the text is a part of /proc/vmstat, which shows no zone, mark or free block.",
    ),
    ("vmstat-reclaim.txt", "Since boot, requests that waited scanned 412,312 pages, and kswapd 98,123,123."),
    (
        "vmstat.txt",
        "Since boot, 152,360 allocations waited for direct reclaim (allocstall), 2,284 of 2,310 direct compactions failed, 90,000 of 91,200 huge-page faults got small pages.",
    ),
    (
        "wrapped-4.14-oom.txt",
        "An order-0 GFP_HIGHUSER_MOVABLE request of app started the OOM killer, but zone Normal was above the mark when the kernel printed this: 20,212 kB free, above its min mark of 16,384 kB.",
    ),
    (
        "zoneinfo-3.7-i686.txt",
        "No zone is short: node 0 Normal has 186,234 pages free, 11.3 times its high mark of 16,429 pages, though node 0 DMA has nothing to reclaim (all_unreclaimable); 81 pages wait in the lists of 1 CPU of node 0 Normal, all in CPU 0's; the lists have fixed sizes (`high` is 6 x batch, the rule up to 5.13).",
    ),
    (
        "zoneinfo-3.x-no-indentation.txt",
        "No zone is short: node 0 DMA32 has 268,210 pages free, 16.0 times its high mark of 16,756 pages; no pages wait in the lists of node 0 DMA, and the text lacks those of node 0 DMA32; whether the lists tune themselves is not known.",
    ),
    (
        "zoneinfo-4.18-cut.txt",
        "No zone is short: a zone whose name the text lacks has 7,226,981 pages free, 289.7 times its high mark of 24,944 pages; 408 pages wait in the lists of 3 CPUs of a zone whose name the text lacks, most in CPU 0's (244); the lists have fixed sizes (`high` is 6 x batch, the rule up to 5.13).",
    ),
    (
        "zoneinfo-4.19-first-zone.txt",
        "The text ends before the zones that serve ordinary requests: node 0 DMA has 3,976 pages free, but keeps 257,742 pages from such requests (protection).",
    ),
    (
        "zoneinfo-6.13.txt",
        "Node 0 Normal is below its low mark: 20,000 pages free of 24,000 pages, so kswapd reclaims; 1,440 pages (7.2 % of what is free) wait in the lists of 2 CPUs of node 0 Normal, most in CPU 0's (1,310); the lists tune themselves (the kernel prints high_min and high_max, which differ (6.13 and later)).",
    ),
    (
        "zoneinfo-batch-15.txt",
        "No zone is short: node 0 Normal has 900,000 pages free, 150.0 times its high mark of 6,000 pages; 72 pages wait in the lists of 2 CPUs of node 0 Normal, most in CPU 0's (60); the lists have fixed sizes (`high` is 6 x batch, the rule up to 5.13); batch is 15 in node 0 Normal, but the kernel's rule gives 63 (31 up to 4.18) for its 1,021,000 pages, and 15 for 45,056 to 90,111 pages.",
    ),
    (
        "zoneinfo-highs-differ.txt",
        "No zone is short: node 0 Normal has 497,162 pages free, 12.7 times its high mark of 39,108 pages; 9,303 pages (1.9 % of what is free) wait in the lists of 12 CPUs of node 0 Normal, most in CPU 5's (1,448); the lists tune themselves (`high` differs between the CPUs of node 0 Normal, which no rule before 6.7 does).",
    ),
    (
        "zoneinfo-prompt-crlf.txt",
        "Node 0 Normal is below its low mark: 20,000 pages free of 82,000 pages, so kswapd reclaims; 300 pages (1.5 % of what is free) wait in the lists of 1 CPU of node 0 Normal, all in CPU 0's; the lists have fixed sizes (`high` is 6 x batch, the rule up to 5.13).",
    ),
];

fn read(name: &str) -> String {
    std::fs::read_to_string(format!("{}/tests/inputs/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

#[test]
fn each_text_has_its_sentence() {
    let mut wrong = String::new();
    for (name, sentence) in SENTENCES {
        let found = explain(&[("-", &read(name))]).map(|found| found.answer).unwrap_or_default();
        if found != *sentence {
            wrong += &format!("    (\"{name}\", {found:?}),\n");
        }
    }
    assert_eq!(wrong, "", "these sentences differ");
    let files = std::fs::read_dir(format!("{}/tests/inputs", env!("CARGO_MANIFEST_DIR"))).unwrap();
    assert_eq!(files.count(), SENTENCES.len(), "a file without a sentence");
}

/// Where each text is from: a public address, `made` from the described form of a kernel or a tool, or `unknown` if the address was
/// not kept.
#[test]
fn each_text_has_its_source() {
    let sources = std::fs::read_to_string(format!("{}/tests/sources.txt", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let sources: Vec<(&str, &str)> = sources.lines().map(|line| line.split_once(' ').unwrap()).collect();
    let named: Vec<&str> = sources.iter().map(|(name, _)| *name).collect();
    assert_eq!(named, SENTENCES.iter().map(|(name, _)| *name).collect::<Vec<_>>());
    let is_known = |source: &str| source.starts_with("https://") || matches!(source, "made" | "unknown");
    assert!(sources.iter().all(|(_, source)| is_known(source)));
    let public = sources.iter().filter(|(_, source)| source.starts_with("https://")).count();
    assert!(public >= 25, "only {public} texts have a public address");
}

/// What another program makes of a line.
type Dress = fn(&str) -> String;

/// Each line of a log with what other programs put before it.
#[test]
fn prefixes_do_not_change_the_sentence() {
    let is_log = |name: &&str| name.starts_with("log-") || name.starts_with("soft-");
    let dressed: [(&str, Dress); 7] = [
        ("dmesg", |line| format!("[ 1234.567890] {line}\n")),
        ("dmesg with the caller", |line| format!("[ 1234.567890][  T123] {line}\n")),
        ("journal", |line| format!("Feb 09 08:09:39 host kernel: {line}\n")),
        ("syslog with CRLF", |line| format!("Feb  9 08:09:39 host kernel: [ 12.345678] {line}\r\n")),
        ("mail", |line| format!("> > {line}\n")),
        ("serial console", |line| format!("<4>[    1.234567] {line}\n")),
        ("indented", |line| format!("        {line}\n")),
    ];
    let mut seen = 0;
    for (name, sentence) in SENTENCES.iter().filter(|(name, _)| is_log(name)) {
        for (form, dress) in dressed {
            let text: String = read(name).lines().map(dress).collect();
            let found = explain(&[("-", &text)]).map(|found| found.answer);
            assert_eq!(found.as_deref(), Some(*sentence), "{name} as {form}");
            seen += 1;
        }
    }
    assert!(seen >= 80, "{seen}");
}

/// Texts of one machine together: the failure is the answer, and zoneinfo adds what the log lacks.
#[test]
fn several_texts_are_explained_together() {
    let (log, info) = (read("log-4.9-order10-only-cma.txt"), read("zoneinfo-highs-differ.txt"));
    let found = explain(&[("dmesg", &log), ("zoneinfo", &info)]).unwrap();
    assert!(found.answer.starts_with("An order-10 GFP_ATOMIC request"), "{}", found.answer);
    assert_eq!(found.auto_tuning.as_deref(), Some("on"));
    assert!(found.answer.contains("the lists tune themselves"), "{}", found.answer);
    // In one file, after each other.
    let one = explain(&[("-", &(log + "\n" + &info))]).unwrap();
    assert_eq!(one.answer, found.answer);
}

/// One bad line is counted and named; the others count.
#[test]
fn a_bad_line_is_counted() {
    let text = read("buddyinfo-healthy.txt").replace("Node 0, zone    DMA32", "zone?? DMA32 x");
    let found = explain(&[("b.txt", &text)]).unwrap();
    assert_eq!((found.lines, found.lines_unknown), (4, 2));
    let first = found.first_unknown.unwrap();
    assert_eq!((first.file.as_str(), first.line), ("b.txt", 1));
    assert!(explain(&[("-", "nothing\nof a known kind\n")]).is_none());
    assert!(explain(&[("-", "")]).is_none());
}

/// The beginning of the sentence for texts of a few lines.
#[test]
fn short_texts() {
    let vmstat = "procs memory swap cpu\ntotal used free shared\nswpd free si so\n1 2 3 4\n1 2 3 4\n";
    let comma = "12:00:01 pgpgin/s pgpgout/s pgscank/s pgscand/s\n12:00:02 0,00 1,00 12,00 141,50\n";
    let pressures = "==> /proc/pressure/cpu <==\nsome avg10=9.00 avg60=9.00 avg300=9.00 total=9\n\n==> /proc/pressure/memory <==\n\
                     some avg10=1.50 avg60=0.00 avg300=0.00 total=9\nfull avg10=0.50 avg60=0.00 avg300=0.00 total=9\n";
    let group = "$ cat /sys/fs/cgroup/a/memory.pressure\nsome avg10=0.00 avg60=0.00 avg300=0.00 total=0\n";
    let io = "$ cat /proc/pressure/io\nsome avg10=2.00 avg60=0.00 avg300=0.00 total=7\n";
    let folded = "node0 node1\nnuma_hit 60 20\nnuma_miss 0 10\nnuma_foreign 0 0\nlocal_node 1 1\n\
                  node2 node3\nnuma_hit 10 0\nnuma_miss 0 0\nnuma_foreign 0 10\nlocal_node 1 1\n";
    let one = "numa_hit 90\nnuma_miss 0\nnuma_foreign 10\nlocal_node 90\n";
    let wide = "Per-node system memory usage (in MBs):\nNode 4 Node 5 Total\nMemTotal 100.0 100.0 200.0\nMemFree 50.0 20.0 70.0\n";
    let parents = "65.10%  0.10%  a  [k] do_syscall_64\n  |\n  ---do_syscall_64\n     rmqueue_bulk\n     _raw_spin_lock\n     native_queued_spin_lock_slowpath\n\n\
                   65.10%  0.10%  a  [k] rmqueue_bulk\n  |\n  ---rmqueue_bulk\n     _raw_spin_lock\n     native_queued_spin_lock_slowpath\n";
    let unsure = "INFO: task a:1 blocked for more than 120 seconds.\nCall Trace:\n [<ffffffff813a3aee>] ? io_schedule+0x5b/0x74\n \
                  [<ffffffffa0352d39>] ? cv_wait_common+0xa7/0x103 [spl]\n";
    let stalls = "db: page allocation stalls for 10104ms, order:0, mode:0x14201ca(GFP_HIGHUSER_MOVABLE|__GFP_COLD)\n\
                  db: page allocation stalls for 610074ms, order:0, mode:0x14201ca(GFP_HIGHUSER_MOVABLE|__GFP_COLD)\n";
    let slub = "Node 0 Normal free:124kB min:10088kB low:12608kB high:15132kB present:8791040kB\nlowmem_reserve[]: 0 0 0 0\n\
                SLUB: Unable to allocate memory on node -1 (gfp=0x20)\n  cache: a, object size: 448, default order: 2, min order: 0\n";
    let crash = "CACHE             OBJSIZE  ALLOCATED     TOTAL  SLABS  SSIZE  NAME\n\
                 ffff893b6736a200      256       1052     42993    843    16k  nf_conntrack\n";
    let oomd = "systemd-oomd[1]: Killed /a.scope due to memory pressure for /a being 51.07% > 50.00% for > 20s with reclaim activity\n";
    for (text, begin) in [
        (
            unsure,
            "Task a waited for 120 s or more without running; by lines of its call trace that are not certain (`?`), it sleeps in cv_",
        ),
        (
            stalls,
            "An order-0 GFP_HIGHUSER_MOVABLE request of db waited 10,104 ms; the text has no zones (Mem-Info), so it does not show \
             which zone was short; the longest wait in the text is 610,074 ms.",
        ),
        (
            slub,
            "An order-0 GFP_ATOMIC request for the slab cache a failed because memory is short: node 0 Normal has 124 kB free",
        ),
        (
            crash,
            "The largest slab cache of the text is nf_conntrack: 13,488 kB; the text is the output of kmem -s of crash",
        ),
        (
            oomd,
            "The text shows no failed request: systemd-oomd, a program, ended a cgroup because tasks in /a waited for memory 51.07% of the time",
        ),
        (vmstat, "The machine swaps: up to 3 kB/s in (si) and 4 kB/s out (so), with 2 kB free at least"),
        (comma, "Requests reclaim memory themselves: they scan up to 141 pages/s"),
        ("12:00:01 pgpgin/s pgpgout/s pgscank/s pgscand/s\n", "The text is the output of sar -B: it shows"),
        (
            pressures,
            "In the last 10 s some task waited for memory 1.5 % of the time, and all tasks at once 0.5 %; the text is /proc/pressure/memory",
        ),
        (
            group,
            "The memory cgroup is not short: no task of the cgroup has waited for memory; the text is memory.pressure",
        ),
        (io, "In the last 10 s some task waited for I/O 2.0 % of the time"),
        (
            folded,
            "10.0 % of the pages came from another node than preferred (numa_miss), most often because node 3 was short",
        ),
        (one, "10.0 % of the pages for which this node was preferred came from another node (numa_foreign)"),
        (wide, "Node 5 has the least free memory: 20 MB of 100 MB"),
        (
            "low 0\nhigh 7\nmax 0\noom 0\noom_kill 0\n",
            "A memory cgroup was short: the kernel slowed it down 7 times because it was above",
        ),
        (
            "EAL: No free 1048576 kB hugepages reported on node 1\n",
            "DPDK found no free huge page of one size, which stops it only if it has none of another size.",
        ),
        (
            "Out of memory: Killed process 7 (worker) total-vm:1kB\n",
            "The OOM killer ended worker, and the text has only its last line",
        ),
        (
            "5.41%  native_queued_spin_lock_slowpath   (which?)\n3.97%  clear_page_erms\n1.36%  do_anonymous_page\n",
            "5.4 % of the samples wait for spin locks, but the text has no call chains, so it does not show which lock",
        ),
        (
            "The node was low on resource: memory. Threshold quantity: 100Mi, available: 80736Ki. \n",
            "The text shows no failed request: Kubernetes ended a pod because 80736Ki was available on the node, less than its own",
        ),
        (
            "oom-kill:constraint=CONSTRAINT_CPUSET,nodemask=1,cpuset=a,mems_allowed=1,global_oom,task_memcg=/j,task=w,pid=1,uid=0\n",
            "The nodes that w may use are short (1: its cpuset or memory policy), not the whole machine",
        ),
        // The kernel prints `(null)` for a cpuset: the nodes are those of mems_allowed.
        (
            "oom-kill:constraint=CONSTRAINT_CPUSET,nodemask=(null),cpuset=a,mems_allowed=0-1,4,global_oom,task_memcg=/j,task=w,pid=1\n",
            "The nodes that w may use are short (0-1,4: its cpuset or memory policy), not the whole machine",
        ),
        (
            "oom-kill:constraint=CONSTRAINT_MEMORY_POLICY,nodemask=0-1,4,cpuset=a,mems_allowed=0-7,global_oom,task_memcg=/j,task=w\n",
            "The nodes that w may use are short (0-1,4: its cpuset or memory policy), not the whole machine",
        ),
        // A mail broke the lines: the parts of the next one count, be they of this message or not.
        (
            "oom-kill:constraint=CONSTRAINT_CPUSET,nodemask=(null),cpuset=a,\nmems_allowed=0-1,4,global_oom,\ntask_memcg=/j,task=w,pid=1\n",
            "The nodes that w may use are short (0-1,4: its cpuset or memory policy), not the whole machine",
        ),
        (
            "oom-kill:constraint=CONSTRAINT_CPUSET,nodemask=(null),cpuset=a,\nx\n",
            "The nodes that a process may use are short (its cpuset or memory policy), not the whole machine",
        ),
        (
            "EAL: No free 2048 kB hugepages reported in hugepages-2048kB,\nwatchdog: BUG: soft lockup - CPU#3 stuck for 23s! [a:1]\n",
            "CPU 3 did not schedule for 23 s (process a)",
        ),
        (
            "vmalloc: allocation failure: 2147483648 bytes\nMem-Info:\n4194304 pages RAM\n",
            "A vmalloc request for 2,147,483,648 bytes failed, and the text does not show why: the machine has more (16,777,216 kB).",
        ),
        (
            "vmalloc: allocation failure: 2147483648 bytes\nMem-Info:\n262144 pages RAM\n",
            "A vmalloc request for 2,147,483,648 bytes failed because that is more than the machine has (1,048,576 kB), not because a",
        ),
        (
            "cma: cma_alloc: alloc failed, req-size: 256 pages, ret: -12\n300@572=> 300 free of 2048 total pages\n",
            "A CMA request for 256 contiguous pages failed because it has no free range of that length and alignment, or no memory to \
             move pages to (-12, ENOMEM): 300 of its 2,048 pages are free, and its longest free range has 300;",
        ),
        (
            "swiotlb buffer is full (sz: 65536 bytes), total 32768 (slots), used 400 (slots)\n",
            "The bounce buffers (swiotlb) have no free piece of 65,536 bytes, which a device asked for: 400 of 32,768 slots of 2 kB",
        ),
        (
            "cache 40960\nrss 36864\nmapped_file 0\nhierarchical_memory_limit 104857600\n",
            "The largest part of the memory cgroup's memory is pages of files (cache): 40,960 bytes (53 % of what the text counts), and \
             its limit is 104,857,600 bytes;",
        ),
        (
            "anon 1\nfile 3\nslab_reclaimable 0\nmemory.max:max\n",
            "The largest part of the memory cgroup's memory is pages of files (file): 3 bytes (75 % of what the text counts), and it has \
             no limit;",
        ),
        (
            "a-1 [0] 1.0: mm_page_alloc: pfn=1 order=0\na-1 [0] 1.0: mm_page_alloc: pfn=1 order=1\na-1 [0] 1.0: mm_page_alloc: pfn=1 order=0\n",
            "The text is a trace of the kernel: it has 3 allocations, 2 of them of order 0, and none failed;",
        ),
        (
            "a-1 [0] 1.0: mm_page_alloc: pfn=1 order=2\n",
            "The text is a trace of the kernel: it has 1 allocation, of order 2, and none failed;",
        ),
        (
            "a-1 [0] 1.0: mm_page_free: pfn=1 order=2\na-1 [0] 1.0: mm_page_pcpu_drain: pfn=1 order=2\na-1 [0] 1.0: mm_page_free: pfn=1\n",
            "The text is a trace of the kernel: it has 3 events, 2 of them mm_page_free;",
        ),
        ("memory.current:4096\nmemory.max:max\n", "The memory cgroup has no limit and uses 4,096 bytes"),
        (
            parents,
            "The waits are for the zone lock: 100 % of them, in rmqueue_bulk (65.1 % of the samples wait for locks).",
        ),
    ] {
        let found = explain(&[("-", text)]).map(|found| found.answer).unwrap_or_default();
        assert!(found.starts_with(begin), "{text}{found}");
    }
    assert!(explain(&[("-", "[ 1.0] foo 0000:01:00.0: Cannot allocate memory for rings\n")]).is_none());
    assert!(
        explain(&[("-", "traps: prog[123] general protection fault ip:7f1f sp:7ffd error:0 in libc.so\n")]).is_none()
    );
    for fault in [": 0000 [#1] SMP", ", probably for non-canonical address 0x25b5: 0000 [#1] SMP"] {
        let crash = explain(&[("-", &format!("general protection fault{fault}\n"))]).unwrap().answer;
        assert!(crash.starts_with("Memory is not short: the kernel used a wrong address and crashed"), "{crash}");
    }
    let named = explain(&[("memory.pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n")]).unwrap();
    assert!(named.answer.starts_with("The memory cgroup is not short"), "{}", named.answer);
}

/// kB of a log and its pages: the amounts in JSON are pages of the size that the log shows.
#[test]
fn amounts_are_pages() {
    let of = |name: &str| explain(&[("-", &read(name))]).unwrap();
    let large = of("log-64k-pages.txt");
    let zone = &large.zones[0];
    assert_eq!((large.page_bytes, zone.free, zone.min, zone.held), (65_536, Some(3000), Some(11_008), Some(40)));
    let small = of("log-2.6.38-atomic-markdown.txt");
    let zone = &small.zones[1];
    assert_eq!(
        (small.page_bytes, zone.free, zone.reserve, zone.serves),
        (4096, Some(12_233), Some(13_130), Some(false))
    );
    let info = of("zoneinfo-prompt-crlf.txt");
    assert_eq!((info.zones[1].free, info.zones[1].low), (Some(20_000), Some(82_000)));
}

/// The text as the command prints it, and JSON.
#[test]
fn results_have_two_forms() {
    for (name, sentence) in SENTENCES {
        let found = explain(&[("-", &read(name))]).unwrap();
        let text = pageset_explain::text(&found);
        let first: String = text.split("\n\n").next().unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(first, *sentence);
        let json = serde_json::to_value(&found).unwrap();
        assert_eq!(json["schema"], pageset_explain::SCHEMA);
    }
}

proptest! {
    /// Parts of texts, in any order, with lines changed and numbers without bounds, are read without a panic.
    #[test]
    fn damaged_texts_are_read(
        first in 0..SENTENCES.len(),
        second in 0..SENTENCES.len(),
        cuts in prop::collection::vec((0..400_usize, 0..200_usize, 0..7_u8), 0..12),
        end in 0..4000_usize,
    ) {
        let text = read(SENTENCES[first].0) + &read(SENTENCES[second].0);
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        for (line, at, how) in cuts {
            let count = lines.len().max(1);
            let Some(line) = lines.get_mut(line % count) else { continue };
            let at = line.char_indices().map(|(at, _)| at).nth(at % line.chars().count().max(1)).unwrap_or(0);
            match how {
                0 => line.truncate(at),
                1 => line.insert_str(at, "18446744073709551615"),
                2 => line.insert(at, '\u{1b}'),
                3 => *line = line.chars().map(|c| if c.is_ascii_digit() { '9' } else { c }).collect(),
                4 => line.insert_str(at, " 99999999999999999999kB "),
                5 => *line = line.repeat(3),
                _ => lines.swap(at % count, 0),
            }
        }
        let mut text = lines.join("\n");
        let end = text.char_indices().map(|(at, _)| at).nth(end).unwrap_or(text.len());
        text.truncate(end);
        if let Some(found) = explain(&[("-", &text)]) {
            prop_assert!(found.answer.ends_with('.'));
            prop_assert!(pageset_explain::text(&found).len() > 10);
        }
    }
}
