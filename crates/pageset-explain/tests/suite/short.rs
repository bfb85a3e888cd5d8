//! Texts of a few lines: forms that no text in `inputs` has.

use pageset_explain::explain;

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
