//! More texts from public issue threads, shortened and without names of hosts and users. Each begins with its sentence.

use std::path::Path;

use pageset_explain::explain;

/// The file, where the text is from, and the beginning of the sentence.
const REPORTS: &[(&str, &str, &str)] = &[
    (
        "bpftrace-alloc-latency.txt",
        "https://github.com/scylladb/scylladb/issues/8828",
        "996 of 1,705 values of nsec_alloc_pages_latency[memhog, 2097152] are from 2,048 to 4,095 ns, and all are below 2,097,152 ns; the text \
         is the output of a tracing tool (a histogram), which shows no zone",
    ),
    (
        "funclatency-compact.txt",
        "https://github.com/iovisor/bcc/pull/2582",
        "No order is missing: node 0 DMA32 has free blocks up to the largest order, 10 (4,096 kB).",
    ),
    (
        "log-3.8-percpu-hi-btch.txt",
        "https://github.com/openzfs/spl/issues/217",
        "An order-0 GFP_KERNEL request of splat failed, but node 0 DMA32 was above the mark when the kernel printed this: 45,020 kB free, \
         above its min mark of 18,404 kB plus lowmem_reserve of 18,972 kB.",
    ),
    (
        "log-8k-pages-boost.txt",
        "https://github.com/ColinIanKing/stress-ng/issues/177",
        "An order-0 GFP_HIGHUSER_MOVABLE request of stress-ng started the OOM killer because memory is short: zone Normal has 248,784 kB \
         free, below its min mark of 292,864 kB; slab caches that cannot be freed (slab_unreclaimable) hold 4,276,720 kB",
    ),
    (
        "log-interleaved-cpus.txt",
        "https://github.com/coolsnowwolf/lede/issues/2453",
        "An order-0 GFP_ATOMIC request of swapper/3 failed, but zone Normal was above the mark when the kernel printed this: 432 kB free",
    ),
    (
        "log-order10-arm64-padded.txt",
        "https://github.com/openwrt/openwrt/issues/18446",
        "An order-10 GFP_KERNEL|GFP_DMA request of ifconfig failed because order 10 (4,096 kB) is missing, not memory: zone DMA has 288,440 \
         kB free",
    ),
    (
        "log-work-hogged.txt",
        "https://github.com/scylladb/scylladb/issues/24234",
        "Memory is not short: vmstat_update, a work of the kernel that visits every zone and shrinks per-CPU lists, ran longer than 10,000 µs \
         (4 times)",
    ),
    (
        "log-workqueue-lockup.txt",
        "https://github.com/AmpereComputing/ampere-lts-kernel---DEPRECATED/issues/71",
        "A request waits until a CPU empties its per-CPU lists (drain_local_pages_wq), and that CPU's works do not run",
    ),
    (
        "log-workqueue-printk-columns.txt",
        "https://github.com/koverstreet/bcachefs/issues/114",
        "Works of CPU 3 did not run for 23,152 s: what keeps the CPU busy is the cause, not a zone.",
    ),
    (
        "log-xtensa-nommu.txt",
        "https://github.com/jcmvbkbc/linux-xtensa/issues/5",
        "An order-5 GFP_KERNEL request of sh failed because memory is short, and order 5 (128 kB) is missing too: zone Normal has 204 kB free",
    ),
    (
        "pagetypeinfo-prompt.txt",
        "https://github.com/netdata/netdata/issues/6802",
        "Order 5 (128 kB) and above are missing, not memory: node 0 Normal has 236,553 free pages, but no free block above order 4.",
    ),
    (
        "perf-children-folded.txt",
        "https://github.com/concourse/hush-house/issues/22",
        "The waits are for a shrinker's list (list_lru): 100 % of them, in list_lru_count_one (3.6 % of the samples wait for locks).",
    ),
    (
        "seastar-stall.txt",
        "https://github.com/scylladb/scylladb/issues/8828",
        "The text shows no failed request: a thread of Seastar (shard 5) did not come back to its loop for 2,044 ms",
    ),
];

fn read(name: &str) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reports").join(name);
    std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

#[test]
fn each_report_has_its_sentence() {
    for (name, source, begin) in REPORTS {
        assert!(source.starts_with("https://"), "{name}");
        let found = explain(&[(name, &read(name))]).unwrap_or_else(|| panic!("{name} is not understood"));
        assert!(found.answer.starts_with(begin), "{name}: {}", found.answer);
    }
    let files = std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reports")).unwrap();
    assert_eq!(files.count(), REPORTS.len(), "each file has its sentence");
}

/// A histogram beside another text is a finding, and all of its rows are understood, also those without a bar.
#[test]
fn histograms_beside_other_texts_are_findings() {
    let found = explain(&[("-", &read("funclatency-compact.txt"))]).unwrap();
    let text = pageset_explain::text(&found, None).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("16 of 32 values of msecs are from 64 to 127 ms, and all are below 128 ms"), "{text}");
    assert_eq!(found.lines_unknown, 5, "prompts, and what bcc says by itself");
    assert_eq!(explain(&[("-", &read("bpftrace-alloc-latency.txt"))]).unwrap().lines_unknown, 0);
}

/// Messages of a few lines that are not about a zone.
#[test]
fn short_reports() {
    for (text, begin) in [
        (
            "workqueue: ext4_end_io_rsv_work hogged CPU for >10000us 8 times, consider switching to WQ_UNBOUND\n",
            "The text shows no shortage: ext4_end_io_rsv_work, a work of the kernel, ran longer than 10,000 µs (8 times)",
        ),
        (
            "nommu: Allocation of length 131072 from process 17 (sh) failed\n",
            "A program without an MMU needs its 131,072 bytes in one piece, and no free block is that large.",
        ),
        (
            "Write-error on swap-device (254:0:649608)\n",
            "A page could not be written to swap: the device reports an error, or zram found no page for it.",
        ),
    ] {
        let found = explain(&[("-", text)]).map(|found| found.answer).unwrap_or_default();
        assert!(found.starts_with(begin), "{text}{found}");
    }
}
