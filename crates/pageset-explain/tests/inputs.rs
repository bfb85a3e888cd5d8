//! The texts in `inputs`, each with its sentence. They are shortened from public issue threads and mailing lists, without names of
//! hosts; some are made from the described form of a kernel.

use pageset_explain::explain;
use proptest::prelude::*;

/// The file, and the sentence that it begins with.
const SENTENCES: &[(&str, &str)] = &[
    (
        "bpftrace-zone.txt",
        "The waits are for the zone lock: 86 % of them, in free_pcppages_bulk; others: LRU lock 13 %, futex buckets 1 %.",
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
        "extfrag.txt",
        "Order 3 and above are missing, not memory: the fragmentation index of node 0 Normal is 0.999, near 1, which means that free memory is in small blocks.",
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
        "log-3.2-lists-per-cpu.txt",
        "An order-0 GFP_ATOMIC request of z_wr_int/10 failed because memory is short: zone DMA32 has 744 kB free, below its min mark of 5,708 kB and the 2,144 kB that even an urgent request must leave, and the other zone refuses it too; 2,828 kB of zone DMA32 wait in per-CPU lists, most in CPU 0's (185 pages), which would have been enough.",
    ),
    (
        "log-4.18-cut-after-dma.txt",
        "An order-0 GFP_ATOMIC request of worker failed because memory is short: node 0 DMA has 13,312 kB free, above its min mark of 64 kB, but lowmem_reserve keeps 61,568 kB from this request, and the text ends before the zones that should have served it; 1,688 more pages (6,752 kB, 1.5 % of what is free) wait in per-CPU lists of all zones.",
    ),
    (
        "log-4.4-oom-two-zones.txt",
        "An order-0 GFP_KERNEL request of java started the OOM killer because memory is short: node 0 Normal has 18,296 kB free, below its min mark of 48,948 kB, and the other zone refuses it too; 1,124 kB of node 0 DMA32 wait in per-CPU lists, 120 kB of it in the list of the CPU that failed, which would have been enough.",
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
        "log-5.4-highatomic.txt",
        "An order-0 GFP_KERNEL request of mmcqd started the OOM killer because memory is short: zone Normal has 56,424 kB free, but 56,424 kB of that is reserved for atomic requests (HighAtomic), and the other 0 kB are below its min mark of 8,192 kB.",
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
        "log-64k-pages.txt",
        "An order-0 GFP_ATOMIC request of worker failed because memory is short: node 0 Normal has 192,000 kB free, below its min mark of 704,512 kB and the 264,192 kB that even an urgent request must leave.",
    ),
    (
        "log-cma-alloc.txt",
        "A CMA request for 2,025 contiguous pages failed: pages in that CMA area are in use and could not be moved, or the area is too small; marks and per-CPU lists do not decide this.",
    ),
    (
        "log-no-mem-info-router.txt",
        "An order-3 GFP_ATOMIC request of swapper failed; the text has no zones (Mem-Info), so it does not show which zone was short.",
    ),
    (
        "log-order5-missing-mail.txt",
        "An order-5 GFP_ATOMIC request of khubd failed because order 5 (128 kB) is missing, not memory: zone Normal has 12,200 kB free, above the 1,080 kB that an urgent request must leave (min is 2,868 kB), but its largest free block is of order 3 (32 kB).",
    ),
    (
        "log-slub-only.txt",
        "An order-0 GFP_ATOMIC request for the slab cache kmalloc-1024 failed; the text has no zones (Mem-Info), so it does not show which zone was short.",
    ),
    (
        "pagetypeinfo-cma.txt",
        "Order 4 (64 kB) and above are missing, not memory, for all requests that may not use CMA or HighAtomic: node 0 Normal has 135,056 free pages, but its other free blocks end at order 3.",
    ),
    (
        "perf-folded-slab-reclaim.txt",
        "The waits are for a shrinker's list (list_lru): 100 % of them, in list_lru_count_one.",
    ),
    (
        "perf-lock-contention.txt",
        "The waits are for the zone lock: 95 % of them, in rmqueue_bulk; others: LRU lock 5 %.",
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
        "perf-top-flat.txt",
        "4.8 % of the samples wait for spin locks, but the text has no call chains, so it does not show which lock; no function that takes the zone lock is in the text.",
    ),
    (
        "perf-top-graph-lru.txt",
        "The waits are for the LRU lock: 78 % of them, in shrink_inactive_list (29.4 % of the samples wait for locks); others: zone lock 22 %.",
    ),
    ("soft-lockup-zone.txt", "The waits are for the zone lock: 100 % of them, in free_pcppages_bulk."),
    (
        "vmstat.txt",
        "Since boot, 152,360 allocations waited for direct reclaim (allocstall), 2,284 of 2,310 direct compactions failed, 90,000 of 91,200 huge-page faults got small pages.",
    ),
    (
        "zoneinfo-3.7-i686.txt",
        "No zone is short: node 0 Normal has 186,234 pages free, 11.3 times its high mark of 16,429 pages, though node 0 DMA has nothing to reclaim (all_unreclaimable); 81 pages wait in the lists of 1 CPU of node 0 Normal, all in CPU 0's; the lists have fixed sizes (`high` is 6 x batch, the rule up to 5.13).",
    ),
    (
        "zoneinfo-4.18-cut.txt",
        "No zone is short: a zone whose name the text lacks has 7,226,981 pages free, 289.7 times its high mark of 24,944 pages; 408 pages wait in the lists of 3 CPUs of a zone whose name the text lacks, most in CPU 0's (244); the lists have fixed sizes (`high` is 6 x batch, the rule up to 5.13).",
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
    assert!(SENTENCES.len() >= 25);
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
