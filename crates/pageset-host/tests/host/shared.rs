//! Pools of shared memory: another process maps the pages, freed pages leave the file, and nothing remains after an error.

use std::env;
use std::fs::{self, File};
use std::io::{IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::ptr::NonNull;
use std::thread;
use std::time::Duration;

use pageset_host::{GiveBack, HugePages, Memory, OnFork, Order, PagePool, PoolError, SharedView, ViewError};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};
use rustix::process::{Resource, Rlimit, setrlimit};

use crate::common::{MIB, order};

/// A pool of shared base pages that gives back only what a test asks for.
fn pool(bytes: u64) -> PagePool {
    let builder = PagePool::builder(bytes).memory(Memory::Shared).huge_pages(HugePages::None);
    builder.give_back(GiveBack::OFF).build().expect("a pool")
}

fn memory_fd(pool: &PagePool) -> BorrowedFd<'_> {
    // SAFETY: the tests write and read runs through the descriptor only while no slice refers to them.
    unsafe { pool.memory().descriptor() }.expect("shared memory")
}

/// The bytes that the pool's file takes.
fn file_bytes(pool: &PagePool) -> u64 {
    let file = File::from(memory_fd(pool).try_clone_to_owned().expect("a descriptor"));
    file.metadata().expect("a state").blocks() * 512
}

fn send(socket: &UnixStream, file: BorrowedFd<'_>, bytes: &[u8]) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let files = [file];
    assert!(ancillary.push(SendAncillaryMessage::ScmRights(&files)));
    let sent = sendmsg(socket, &[IoSlice::new(bytes)], &mut ancillary, SendFlags::empty()).expect("a message");
    assert_eq!(sent, bytes.len());
}

fn receive(socket: &UnixStream, bytes: &mut [u8]) -> OwnedFd {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let got = recvmsg(socket, &mut [IoSliceMut::new(bytes)], &mut ancillary, RecvFlags::empty()).expect("a message");
    assert_eq!(got.bytes, bytes.len());
    let files = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    });
    files.expect("a descriptor")
}

/// The environment variable that makes a process of this test the second one.
const SECOND: &str = "PAGESET_TEST_SECOND_PROCESS";

/// The second process reads the text of the first at the offset that it received, and answers in the same page.
#[test]
fn a_second_process_maps_the_pages() {
    const TEST: &str = "shared::a_second_process_maps_the_pages";
    if env::var_os(SECOND).is_some() {
        let socket = UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned().expect("a socket"));
        let mut offset = [0; 8];
        let file = receive(&socket, &mut offset);
        let view = SharedView::writable(&file).expect("a view");
        drop(file);
        let page = view.resolve(u64::from_ne_bytes(offset), 4096).expect("a page").cast::<[u8; 4096]>();
        // SAFETY: (1) the first process waits for the answer, and does not use the page meanwhile; (2) a page is aligned.
        unsafe {
            assert_eq!(&page.as_ref()[..5], b"first");
            page.cast::<[u8; 6]>().write(*b"second");
        }
        return (&socket).write_all(&view.size_bytes().to_ne_bytes()).expect("an answer");
    }
    let (here, there) = UnixStream::pair().expect("sockets");
    let mut command = Command::new(env::current_exe().expect("this test"));
    command.args(["--exact", TEST, "--nocapture"]).env(SECOND, "1").stdin(Stdio::from(OwnedFd::from(there)));
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("a process");
    drop(command);
    let pool = pool(8 * MIB);
    let runs: Vec<_> = (0..5).map(|_| pool.pages(order(3)).expect("memory")).collect();
    let page = runs[4].as_ptr().cast_mut();
    let offset = pool.memory().offset_of(NonNull::new(page).expect("a page")).expect("a page of the pool");
    let run = runs.into_iter().next_back().expect("a run").into_raw().cast::<u8>();
    // SAFETY: the run is allocated, and nothing else refers to it.
    unsafe { run.cast::<[u8; 5]>().write(*b"first") };
    send(&here, memory_fd(&pool), &offset.to_ne_bytes());
    let mut size = [0; 8];
    let answered = (&here).read_exact(&mut size);
    let out = child.wait_with_output().expect("an end");
    let text = format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success() && answered.is_ok(), "{text}");
    assert_eq!(u64::from_ne_bytes(size), 8 * MIB);
    // SAFETY: (1) the second process has ended; (2) the run is allocated.
    unsafe {
        assert_eq!(&run.cast::<[u8; 6]>().read(), b"second");
        pool.free(run, order(3)).expect("an allocated run");
    }
}

/// The second process maps the memory, reads and writes pages, and unmaps it, until the first one kills it somewhere in between. The pool
/// of the first does not notice, and the pages leave the file.
#[test]
fn a_second_process_may_be_killed_at_any_moment() {
    const TEST: &str = "shared::a_second_process_may_be_killed_at_any_moment";
    if env::var_os(SECOND).is_some() {
        let socket = UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned().expect("a socket"));
        let mut offset = [0; 8];
        let file = receive(&socket, &mut offset);
        let offset = u64::from_ne_bytes(offset);
        for round in 0_u64.. {
            let view = SharedView::writable(&file).expect("a view");
            let page = view.resolve(offset, 4096).expect("a page").cast::<u64>();
            assert!(view.resolve(u64::MAX, 4096).is_err());
            // SAFETY: (1) the first process does not use the page meanwhile; (2) a page is aligned.
            unsafe { (0..512).for_each(|at| page.add(at).write_volatile(round)) };
            drop(view);
            let view = SharedView::read_only(&file).expect("a view");
            let page = view.resolve(offset, 4096).expect("a page").cast::<u64>();
            // SAFETY: as above.
            assert_eq!(unsafe { page.read_volatile() }, round);
            if round == 0 {
                (&socket).write_all(&[1]).expect("an answer");
            }
        }
    }
    let mut pool = pool(8 * MIB);
    for round in 0..6_u64 {
        let (here, there) = UnixStream::pair().expect("sockets");
        let mut command = Command::new(env::current_exe().expect("this test"));
        command.args(["--exact", TEST, "--nocapture"]).env(SECOND, "1").stdin(Stdio::from(OwnedFd::from(there)));
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("a process");
        drop(command);
        let mut page = pool.pages(Order::ZERO).expect("memory");
        page.fill(0);
        let offset = pool.memory().offset_of(NonNull::from(&mut page[0])).expect("a page of the pool");
        send(&here, memory_fd(&pool), &offset.to_ne_bytes());
        assert!((&here).read_exact(&mut [0]).is_ok(), "the second process ended early");
        // The pool is in use meanwhile.
        let others: Vec<_> = (0..50).map(|_| pool.pages(order(2)).expect("memory")).collect();
        thread::sleep(Duration::from_micros(300 * round + 37));
        child.kill().expect("a process");
        drop(others);
        assert_eq!(child.wait().expect("an end").code(), None, "it was killed");
        drop(page);
        assert_eq!(pool.stats().in_use_bytes, 0);
        pool.give_back(u64::MAX).expect("given back");
        assert_eq!(file_bytes(&pool), 0, "the second process keeps no page");
    }
    pool.audit().expect("a consistent pool");
}

#[test]
fn offsets_and_addresses_correspond() {
    for memory in [Memory::Private, Memory::Shared] {
        let pool = PagePool::builder(2 * MIB).reserve(8 * MIB).memory(memory).build().expect("a pool");
        let start = pool.memory().address_space().cast::<u8>();
        for offset in [0, 1, 4096, 8 * MIB - 1] {
            let address = start.map_addr(|at| at.saturating_add(offset as usize));
            assert_eq!(
                (pool.memory().at_offset(offset), pool.memory().offset_of(address)),
                (Some(address), Some(offset))
            );
        }
        assert_eq!((pool.memory().at_offset(8 * MIB), pool.memory().at_offset(u64::MAX)), (None, None));
        assert_eq!(pool.memory().offset_of(start.map_addr(|at| at.saturating_add(8 << 20))), None);
        assert_eq!(pool.memory().offset_of(NonNull::dangling()), None);
        // SAFETY: the descriptor is not used.
        assert_eq!(unsafe { pool.memory().descriptor() }.is_some(), memory == Memory::Shared);
    }
}

/// `MADV_DONTNEED` would leave the pages in the file.
#[test]
fn freed_pages_leave_the_file() {
    let pool = pool(64 * MIB);
    assert_eq!(file_bytes(&pool), 0, "building the pool touched it");
    let mut runs: Vec<_> = (0..32).map(|_| pool.pages(order(8)).expect("memory")).collect();
    runs.iter_mut().for_each(|run| run.fill(1));
    assert_eq!((file_bytes(&pool), pool.memory().resident_bytes().expect("a count")), (32 * MIB, 32 * MIB));
    assert_eq!(pool.give_back(u64::MAX).expect("given back"), 0, "memory in use went back");
    runs.sort_by_key(|run| run.as_ptr());
    runs.truncate(5);
    // The fifth run keeps its half of a block of 2 MiB. The other half goes back as a part.
    assert_eq!(pool.give_back(u64::MAX).expect("given back"), 27 * MIB);
    assert_eq!((file_bytes(&pool), pool.memory().resident_bytes().expect("a count")), (5 * MIB, 5 * MIB));
    assert!(runs.iter().all(|run| run.iter().all(|&byte| byte == 1)), "memory in use went back");
    let fresh: Vec<_> = (0..27).map(|_| pool.pages(order(8)).expect("memory")).collect();
    assert!(fresh.iter().all(|run| run.iter().all(|&byte| byte == 0)), "a page kept its bytes");
    drop((runs, fresh));
    assert_eq!(pool.stats().given_back_bytes, 27 * MIB);
}

#[test]
fn ticks_and_shrinking_take_pages_out_of_the_file() {
    crate::common::pin(crate::common::allowed_cpus()[0]).expect("an allowed CPU");
    let policy = GiveBack { interval: Duration::from_millis(1), after_scans: 1, bytes_per_scan: u64::MAX };
    let builder = PagePool::builder(16 * MIB).memory(Memory::Shared).huge_pages(HugePages::None);
    let ticked = builder.clone().give_back(policy).build().expect("a pool");
    let shrunk = builder.give_back(GiveBack::OFF).prefault(true).build().expect("a pool");
    ticked.contig_pages(16 << 20).expect("memory").fill(1);
    assert_eq!((file_bytes(&ticked), file_bytes(&shrunk)), (16 * MIB, 16 * MIB));
    for _ in 0..3 {
        thread::sleep(Duration::from_millis(2));
        ticked.tick().expect("a tick");
    }
    assert_eq!(file_bytes(&ticked), 0);
    assert_eq!(shrunk.shrink(6 * MIB).expect("free memory"), 10 * MIB);
    assert_eq!(file_bytes(&shrunk), 10 * MIB);
    assert_eq!(shrunk.grow(2 * MIB).expect("a reserve"), 12 * MIB);
    assert_eq!(file_bytes(&shrunk), 12 * MIB, "prefault");
}

/// The path or name of the mapping that starts at the pool's address space.
fn name_in_maps(pool: &PagePool) -> String {
    let start = format!("{:x}-", pool.memory().address_space().cast::<u8>().addr());
    let maps = fs::read_to_string("/proc/self/maps").expect("maps");
    let line = maps.lines().find(|line| line.starts_with(&start)).unwrap_or_else(|| panic!("no {start} in {maps}"));
    line.splitn(6, ' ').last().unwrap_or_default().trim_start().to_owned()
}

#[test]
fn shared_memory_has_a_name_in_maps() {
    let builder = PagePool::builder(8 * MIB).memory(Memory::Shared);
    assert_eq!(name_in_maps(&builder.clone().build().expect("a pool")), "/memfd:pageset (deleted)");
    assert_eq!(name_in_maps(&builder.name("rx frames 0").build().expect("a pool")), "/memfd:rx frames 0 (deleted)");
}

#[test]
fn private_memory_has_a_name_in_maps() {
    let pool = PagePool::builder(8 * MIB).name("rx frames 0").build().expect("a pool");
    let own = PagePool::builder(8 * MIB).build().expect("a pool");
    assert_eq!(name_in_maps(&own), "");
    // SAFETY: nothing writes the memory, because no run is allocated.
    let region = unsafe { own.memory().address_space().as_ref() };
    match rustix::process::set_virtual_memory_region_name(region, Some(c"own")) {
        Ok(()) => assert_eq!(name_in_maps(&pool), "[anon:rx frames 0]"),
        Err(error) => println!("SKIPPED private_memory_has_a_name_in_maps: this kernel has no names: {error}"),
    }
}

/// Descriptors and mappings of this process whose file has that name.
fn traces_of(name: &str) -> usize {
    let target = format!("/memfd:{name} (deleted)");
    let files =
        fs::read_dir("/proc/self/fd").expect("descriptors").filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    let files = files.filter(|path| path.as_os_str() == target.as_str()).count();
    files + fs::read_to_string("/proc/self/maps").expect("maps").matches(&target).count()
}

#[test]
fn nothing_remains_of_a_dropped_pool_or_after_an_error() {
    let builder = PagePool::builder(8 * MIB).memory(Memory::Shared).name("remains");
    let pool = builder.clone().build().expect("a pool");
    assert_eq!(traces_of("remains"), 2, "a descriptor and a mapping");
    drop(pool);
    assert_eq!(traces_of("remains"), 0);
    let tuning = pageset_host::Tuning { batch_scale_max: 7, ..Default::default() };
    builder.clone().tuning(tuning).build().expect_err("an impossible tuning");
    assert_eq!(traces_of("remains"), 0);
}

#[test]
fn impossible_settings_are_refused() {
    let builder = PagePool::builder(8 * MIB).memory(Memory::Shared);
    let error = builder.clone().on_fork(OnFork::Copy).build().expect_err("no copy of shared memory");
    assert!(matches!(error, PoolError::SharedCopy));
    assert!(error.to_string().ends_with("try OnFork::Absent, and a SharedView in the child"), "{error}");
    builder.clone().on_fork(OnFork::Absent).build().expect("the default");
    for memory in [Memory::Private, Memory::Shared] {
        let error = builder.clone().memory(memory).name("a[0]").build().expect_err("no such name").to_string();
        assert!(error.starts_with("cannot name the memory \"a[0]\": a name has 1 to 79 printable ASCII"), "{error}");
    }
}

/// A file beyond `ulimit -f` is an error, not the signal that the system sends. A refused mapping leaves no file.
#[test]
fn limits_are_errors() {
    const TEST: &str = "shared::limits_are_errors";
    if env::var_os(SECOND).is_some() {
        let builder = |bytes| PagePool::builder(bytes).memory(Memory::Shared).name("limited");
        let limit = |bytes| Rlimit { current: Some(bytes), maximum: None };
        setrlimit(Resource::As, limit(1024 * MIB)).expect("a lower limit");
        println!("{}", builder(2048 * MIB).build().expect_err("1 GiB of addresses is allowed"));
        setrlimit(Resource::Fsize, limit(4 * MIB)).expect("a lower limit");
        println!("{}", builder(6 * MIB).build().expect_err("4 MiB are allowed"));
        assert_eq!(traces_of("limited"), 0);
        builder(4 * MIB).build().expect("4 MiB");
        return;
    }
    let mut command = Command::new(env::current_exe().expect("this test"));
    let out = command.args(["--exact", TEST, "--nocapture"]).env(SECOND, "1").output().expect("a process");
    let text = format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success(), "{text}");
    assert!(text.contains("cannot create shared memory (6291456 bytes): File too large"), "{text}");
    assert!(text.contains("cannot create shared memory (2147483648 bytes): Cannot allocate memory"), "{text}");
    assert!(text.contains("ulimit -f") && text.contains("ulimit -v"), "{text}");
}

#[test]
fn views_refuse_other_files_and_ranges() {
    let pool = pool(4 * MIB);
    let view = SharedView::read_only(memory_fd(&pool)).expect("a view");
    assert_eq!(view.size_bytes(), 4 * MIB);
    for (offset, bytes, is_inside) in [
        (0, 4 << 20, true),
        (4 * MIB - 1, 1, true),
        (4 * MIB - 1, 2, false),
        (4 * MIB, 0, false),
        (0, usize::MAX, false),
        (u64::MAX, 1, false),
        (1, 4 << 20, false),
    ] {
        let found = view.resolve(offset, bytes);
        assert_eq!(found.is_ok(), is_inside, "{bytes} bytes at {offset}: {found:?}");
    }
    let error = view.resolve(5 * MIB, 8).expect_err("beyond the end").to_string();
    assert_eq!(error, "cannot resolve 8 bytes at offset 5242880: the memory has 4194304 bytes; try a range inside it");
    let unsealed = rustix::fs::memfd_create("unsealed", rustix::fs::MemfdFlags::ALLOW_SEALING).expect("a file");
    rustix::fs::ftruncate(&unsealed, 4096).expect("a length");
    let (pipe, _) = std::io::pipe().expect("a pipe");
    let this_file = File::open(env::current_exe().expect("this test")).expect("a file");
    for file in [unsealed.as_fd(), pipe.as_fd(), this_file.as_fd()] {
        let error = SharedView::read_only(file).expect_err("another file");
        assert!(matches!(error, ViewError::NotAPool), "{error}");
    }
    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&memory_fd(&pool)));
    let read_only = File::open(path).expect("for reading");
    SharedView::read_only(&read_only).expect("a view");
    assert!(matches!(SharedView::writable(&read_only), Err(ViewError::System(_))));
}

/// The memory of a view stays when the pool is gone.
#[test]
fn a_view_outlives_its_pool() {
    let pool = pool(4 * MIB);
    let mut page = pool.pages(Order::ZERO).expect("memory");
    page[..4].copy_from_slice(b"kept");
    let offset = pool.memory().offset_of(NonNull::from(&page[0])).expect("a page of the pool");
    let view = SharedView::read_only(memory_fd(&pool)).expect("a view");
    drop(page);
    drop(pool);
    // SAFETY: no process writes the page any more.
    assert_eq!(unsafe { view.resolve(offset, 4).expect("4 bytes").as_ref() }, b"kept");
}
