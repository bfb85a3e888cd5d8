//! Pools of explicit huge pages, with real ones where the system has or can get them.
//!
//! One test does all, because huge pages belong to the whole machine. As root, it sets some apart and restores the setting.

mod common;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use pageset_host::{GiveBack, HugePages, Memory, Order, PAGE_BYTES, PagePool, PoolBuilder, PoolError};

use common::MIB;

/// Huge pages of one size that the test has set apart. Dropping the value restores the setting.
struct SetApart {
    file: PathBuf,
    before: u64,
}

fn folder(page_bytes: u64) -> PathBuf {
    format!("/sys/kernel/mm/hugepages/hugepages-{}kB", page_bytes >> 10).into()
}

fn count(page_bytes: u64, name: &str) -> Option<u64> {
    fs::read_to_string(folder(page_bytes).join(name)).ok()?.trim().parse().ok()
}

impl SetApart {
    /// Sets `pages` more huge pages apart, if the system allows it and finds them.
    fn new(page_bytes: u64, pages: u64) -> Result<SetApart, String> {
        let before = count(page_bytes, "nr_hugepages").ok_or("the system has no huge pages of that size")?;
        let file = folder(page_bytes).join("nr_hugepages");
        fs::write(&file, (before + pages).to_string()).map_err(|error| format!("{}: {error}", file.display()))?;
        // Only a setting that was changed is restored.
        let set = SetApart { file, before };
        let got = count(page_bytes, "nr_hugepages").unwrap_or(before);
        if got < before + pages { Err(format!("the system found {} of {pages}", got - before)) } else { Ok(set) }
    }
}

impl Drop for SetApart {
    fn drop(&mut self) {
        let restored = fs::write(&self.file, self.before.to_string());
        assert!(restored.is_ok() || std::thread::panicking(), "{restored:?}");
    }
}

fn builder(bytes: u64, huge_pages: HugePages, memory: Memory) -> PoolBuilder {
    // One node, so that the pool needs the same number of pages on each machine.
    let node = pageset_host::topology::Topology::of_this_machine().nodes[0];
    let builder = PagePool::builder(bytes).huge_pages(huge_pages).memory(memory).nodes(&[node]);
    builder.name("huge pages").give_back(GiveBack::OFF)
}

/// The value of a line of the mapping in smaps, in bytes.
fn in_smaps(pool: &PagePool, line: &str) -> u64 {
    let smaps = fs::read_to_string("/proc/self/smaps").expect("smaps");
    let start = format!("{:x}-", pool.memory().address_space().cast::<u8>().addr());
    let of_mapping = smaps.split_once(&start).expect("the mapping").1;
    let kib = of_mapping.lines().find_map(|text| text.strip_prefix(line)?.strip_prefix(':')).expect("a line");
    kib.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
}

/// Fills a pool of two huge pages, and gives one back.
fn two_pages_of_2_mib(memory: Memory) {
    const HUGE: u64 = 2 * MIB;
    let free = || count(HUGE, "free_hugepages").expect("a count");
    let before = free();
    let mut pool = builder(2 * HUGE, HugePages::Explicit, memory).build().expect("a pool");
    assert_eq!((in_smaps(&pool, "KernelPageSize"), free()), (HUGE, before), "{memory:?}: reserved, and not taken yet");
    let reserved = count(HUGE, "resv_hugepages").expect("a count");
    assert!(reserved >= 2, "{memory:?}: {reserved}");
    let maps = fs::read_to_string("/proc/self/maps").expect("maps");
    assert_eq!(maps.contains("/memfd:huge pages (deleted)"), memory == Memory::Shared, "{maps}");
    let mut runs: Vec<_> = (0..2).map(|_| pool.pages(Order::PAGEBLOCK).expect("memory")).collect();
    runs.iter_mut().for_each(|run| run.chunks_mut(PAGE_BYTES).for_each(|page| page[0] = 1));
    assert_eq!((free(), pool.memory().resident_bytes().expect("a count")), (before - 2, 2 * HUGE), "{memory:?}");
    assert_eq!(pool.give_back(u64::MAX).expect("given back"), 0, "{memory:?}: memory in use went back");
    runs.pop();
    assert_eq!(pool.give_back(u64::MAX).expect("given back"), HUGE, "{memory:?}");
    assert_eq!((free(), pool.memory().resident_bytes().expect("a count")), (before - 1, HUGE), "{memory:?}");
    println!("{memory:?}: reserved {reserved}, after giving one back {}", count(HUGE, "resv_hugepages").unwrap_or(0));
    if memory == Memory::Shared {
        // SAFETY: the descriptor is only asked about.
        let file = unsafe { pool.memory().descriptor() }
            .and_then(|file| file.try_clone_to_owned().ok())
            .expect("a descriptor");
        let blocks = fs::File::from(file).metadata().expect("a state").blocks();
        assert_eq!(blocks * 512, HUGE, "the file keeps the page");
    }
    assert!(runs[0].chunks(PAGE_BYTES).all(|page| page[0] == 1), "{memory:?}: memory in use went back");
    let fresh = pool.pages(Order::PAGEBLOCK).expect("memory");
    assert!(fresh.iter().all(|&byte| byte == 0), "{memory:?}: a page kept its bytes");
    drop((runs, fresh));
    pool.audit().expect("a consistent pool");
    drop(pool);
    assert_eq!(free(), before, "{memory:?}: the pool kept huge pages");
}

/// A pool of one page of 1 GiB gives nothing back, until it is dropped.
fn one_page_of_1_gib(memory: Memory) {
    const HUGE: u64 = 1024 * MIB;
    let free = || count(HUGE, "free_hugepages").expect("a count");
    let before = free();
    let pool = builder(3 * MIB, HugePages::Explicit1GiB, memory).build().expect("a pool");
    assert_eq!((pool.stats().size_bytes, in_smaps(&pool, "KernelPageSize")), (HUGE, HUGE), "{memory:?}: rounded up");
    let mut run = pool.pages(Order::MAX).expect("memory");
    run.fill(1);
    assert_eq!(free(), before - 1, "{memory:?}");
    assert_eq!(pool.give_back(u64::MAX).expect("nothing"), 0, "{memory:?}");
    drop(run);
    assert_eq!((pool.give_back(u64::MAX).expect("nothing"), free()), (0, before - 1), "{memory:?}");
    assert_eq!(pool.shrink(512 * MIB).expect("free memory"), 512 * MIB, "{memory:?}");
    assert_eq!((free(), pool.stats().given_back_bytes), (before - 1, 0), "{memory:?}: a part of a page went back");
    drop(pool);
    assert_eq!(free(), before, "{memory:?}: the pool kept huge pages");
}

#[test]
fn real_huge_pages() {
    for memory in [Memory::Private, Memory::Shared] {
        match SetApart::new(2 * MIB, 2) {
            Ok(_set_apart) => two_pages_of_2_mib(memory),
            Err(error) => println!("SKIPPED real_huge_pages of 2 MiB: {error}"),
        }
        match SetApart::new(1024 * MIB, 1) {
            Ok(_set_apart) => one_page_of_1_gib(memory),
            Err(error) => println!("SKIPPED real_huge_pages of 1 GiB: {error}"),
        }
    }
}

/// The error says how many pages are missing, and how to get them. No machine has that many.
#[test]
fn a_lack_of_huge_pages_says_what_is_missing() {
    const BYTES: u64 = 8 << 40;
    for memory in [Memory::Private, Memory::Shared] {
        for (huge_pages, pages, how) in [
            (HugePages::Explicit, 4_194_304, "; try vm.nr_hugepages=4194304 or more (sysctl, as root), or transparent"),
            (
                HugePages::Explicit1GiB,
                8192,
                "kB/nr_hugepages (as root), the boot parameters hugepagesz=1G hugepages=8192",
            ),
        ] {
            let error = builder(BYTES, huge_pages, memory).build().expect_err("8 TiB of huge pages");
            let PoolError::NoHugePages { page_bytes, .. } = error else { panic!("{error}") };
            assert_eq!(BYTES / page_bytes, pages);
            let text = error.to_string();
            assert!(text.starts_with("cannot reserve huge pages (8796093022208 bytes): "), "{text}");
            assert!(
                text.contains(&format!("; the pool needs {pages} pages of {} MiB, and ", page_bytes >> 20)),
                "{text}"
            );
            assert!(text.contains(how), "{text}");

            println!("{text}");
        }
    }
    let maps = fs::read_to_string("/proc/self/maps").expect("maps");
    assert!(!maps.contains("huge pages"), "a pool that was not built left a mapping: {maps}");
}
