//! Forwards packets between two network interfaces with AF_XDP. The frames are pages of a pool.
//!
//! `cargo run --release -p pageset-host --example af_xdp_forward [DATAGRAMS] [private|shared]` (default: 20000 private), as
//! root and with the program `ip`. It changes nothing outside its own network namespaces. Prints `SKIPPED` and a reason
//! where the kernel or the privilege is missing.
//!
//! A frame goes this way. Its number in the rings is the offset of its page in the pool's address space:
//!
//! | step | ring | the page |
//! | --- | --- | --- |
//! | the forwarder gives an empty frame to the interface | fill | `alloc_bulk`, `offset_of` |
//! | the interface returns it with a packet | rx | |
//! | the forwarder gives it to the other interface | tx | |
//! | the other interface has sent it | completion | `at_offset`, `free_bulk` |
//!
//! So the pool decides how many frames each interface has, and no frame belongs to one for ever.

mod bpf;
mod network;

use std::env;
use std::error::Error;
use std::num::NonZero;
use std::ptr::NonNull;
use std::sync::mpsc::TryRecvError;
use std::time::{Duration, Instant};

use pageset_host::{GiveBack, Memory, OnFork, Order, PAGE_BYTES, PagePool};
use xdpilone::xdp::XdpDesc;
use xdpilone::{DeviceQueue, Errno, IfInfo, RingRx, RingTx, Socket, SocketConfig, Umem, UmemConfig};

/// The size of the pool in bytes: far more frames than all rings hold.
const POOL_BYTES: u64 = 16 << 20;
/// Entries of each ring, and so the most frames that an interface has for packets to come.
const RING: u32 = 256;
/// The most entries that one step takes from a ring.
const BATCH: u32 = 64;

fn error(action: &'static str) -> impl Fn(Errno) -> Box<dyn Error> {
    move |error| format!("cannot {action}: {error}").into()
}

/// The rings of one interface.
struct Port {
    queue: DeviceQueue,
    rx: RingRx,
    tx: RingTx,
    /// Frames in the fill ring, or at the interface for a packet to come.
    waiting: u32,
    _program: bpf::Attached,
}

impl Port {
    /// Opens queue 0 of an interface. The first port of a UMEM uses its socket.
    fn open(umem: &Umem, name: &std::ffi::CStr, is_first: bool) -> Result<Port, Box<dyn Error>> {
        let mut info = IfInfo::invalid();
        info.from_name(name).map_err(error("find the interface"))?;
        let socket = if is_first { Socket::with_shared(&info, umem) } else { Socket::new(&info) };
        let socket = socket.map_err(error("open a socket"))?;
        let queue = umem.fq_cq(&socket).map_err(error("make the fill and completion rings"))?;
        let config = SocketConfig { rx_size: NonZero::new(RING), tx_size: NonZero::new(RING), bind_flags: 0 };
        let user = umem.rx_tx(&socket, &config).map_err(error("make the rx and tx rings"))?;
        let (rx, tx) = (user.map_rx().map_err(error("map rx"))?, user.map_tx().map_err(error("map tx"))?);
        umem.bind(&user).map_err(error("bind the socket to the interface"))?;
        let program = bpf::attach(info.ifindex(), queue.as_raw_fd())?;
        Ok(Port { queue, rx, tx, waiting: 0, _program: program })
    }

    /// Gives the interface frames for packets to come, as far as the pool has pages.
    fn fill(&mut self, pool: &PagePool) -> Result<(), Box<dyn Error>> {
        let mut pages = [NonNull::dangling(); BATCH as usize];
        let wanted = (RING - self.waiting).min(BATCH) as usize;
        let pages = &mut pages[..wanted];
        // An empty pool is no error: completions free pages.
        let got = pool.alloc_bulk(pages).unwrap_or(0);
        let mut fill = self.queue.fill(got as u32);
        let inserted = fill.insert(pages[..got].iter().filter_map(|&page| pool.memory().offset_of(page)));
        fill.commit();
        drop(fill);
        self.waiting += inserted;
        // SAFETY: the kernel did not get these pages, and nothing else refers to them.
        unsafe { pool.free_bulk(Order::ZERO, &pages[inserted as usize..got])? };
        Ok(())
    }

    /// Makes the interface send what the tx ring has, and frees the frames that it has sent.
    fn complete(&mut self, pool: &PagePool) -> Result<(), Box<dyn Error>> {
        // A call sends up to 32 packets, and the ring can have more.
        if self.tx.pending() > 0 {
            self.tx.wake();
        }
        let mut pages = vec![];
        let mut done = self.queue.complete(BATCH);
        while let Some(offset) = done.read() {
            pages.push(page_of(pool, offset)?);
        }
        done.release();
        // SAFETY: the kernel has returned these frames, and nothing else refers to them.
        unsafe { pool.free_bulk(Order::ZERO, &pages)? };
        Ok(())
    }

    /// Moves packets from this interface to another, and returns how many. What the other has no room for is lost.
    fn forward(&mut self, to: &mut Port, pool: &PagePool) -> Result<u64, Box<dyn Error>> {
        let mut packets: Vec<XdpDesc> = vec![];
        let mut received = self.rx.receive(BATCH);
        while let Some(packet) = received.read() {
            packets.push(packet);
        }
        received.release();
        drop(received);
        if packets.is_empty() {
            return Ok(0);
        }
        self.waiting -= packets.len() as u32;
        let mut sent = 0;
        // A reservation can end where the ring last was full, although it has room again. The next one then continues.
        while sent < packets.len() {
            let mut transmit = to.tx.transmit((packets.len() - sent) as u32);
            let inserted = transmit.insert(packets[sent..].iter().copied()) as usize;
            transmit.commit();
            if inserted == 0 {
                break;
            }
            sent += inserted;
        }
        let lost = packets[sent..].iter().map(|packet| page_of(pool, packet.addr));
        // SAFETY: the kernel has returned these frames, and did not get them again.
        unsafe { pool.free_bulk(Order::ZERO, &lost.collect::<Result<Vec<_>, _>>()?)? };
        Ok(sent as u64)
    }
}

/// The page of a frame. A packet does not begin at the start of its frame.
fn page_of(pool: &PagePool, offset: u64) -> Result<NonNull<u8>, Box<dyn Error>> {
    let start = offset / PAGE_BYTES as u64 * PAGE_BYTES as u64;
    Ok(pool
        .memory()
        .at_offset(start)
        .ok_or_else(|| format!("the kernel returned offset {offset}, which is outside the pool"))?)
}

/// Waits up to a millisecond for a packet.
fn wait(ports: &[&Port; 2]) {
    let mut polled = ports.map(|port| libc::pollfd { fd: port.rx.as_raw_fd(), events: libc::POLLIN, revents: 0 });
    // SAFETY: the array has two entries.
    unsafe { libc::poll(polled.as_mut_ptr(), 2, 1) };
}

fn main() -> Result<(), Box<dyn Error>> {
    let datagrams = env::args().nth(1).map_or(Ok(20_000), |text| text.parse())?;
    let memory = match env::args().nth(2).as_deref() {
        None | Some("private") => Memory::Private,
        Some("shared") => Memory::Shared,
        Some(other) => return Err(format!("cannot use memory {other:?}: try private or shared").into()),
    };
    let (start, counts) = match network::build() {
        Ok(network) => network,
        Err(reason) => {
            println!("SKIPPED af_xdp_forward: {reason}");
            return Ok(());
        }
    };

    // The kernel keeps the pages of this moment: all are resident, none goes back, and a fork copies none.
    let builder = PagePool::builder(POOL_BYTES).memory(memory).name("frames").on_fork(OnFork::Absent);
    let pool = builder.prefault(true).give_back(GiveBack::OFF).build()?;
    let config =
        UmemConfig { fill_size: RING, complete_size: RING, frame_size: PAGE_BYTES as u32, headroom: 0, flags: 0 };
    // SAFETY: the pool outlives the UMEM, which is dropped first.
    let umem = match unsafe { Umem::new(config, pool.memory().address_space()) } {
        Ok(umem) => umem,
        Err(error) if [libc::EAFNOSUPPORT, libc::EPERM].contains(&error.get_raw()) => {
            println!("SKIPPED af_xdp_forward: no AF_XDP sockets: {error}");
            return Ok(());
        }
        Err(error) => return Err(format!("cannot register the pool's memory: {error}").into()),
    };
    let mut s1 = Port::open(&umem, c"s1", true)?;
    let mut r1 = Port::open(&umem, c"r1", false)?;

    let began = Instant::now();
    start.send(datagrams)?;
    let mut forwarded = [0; 2];
    let mut last = None;
    let counts = loop {
        for port in [&mut s1, &mut r1] {
            port.complete(&pool)?;
            port.fill(&pool)?;
        }
        let moved = [s1.forward(&mut r1, &pool)?, r1.forward(&mut s1, &pool)?];
        forwarded = [forwarded[0] + moved[0], forwarded[1] + moved[1]];
        match counts.try_recv() {
            Ok(counts) => last = Some((counts?, began.elapsed())),
            Err(TryRecvError::Disconnected) if last.is_none() => return Err("the sender ended without a count".into()),
            Err(_) => {}
        }
        // Each page in use is a frame that waits for a packet, when all sent frames have come back.
        let waiting = u64::from(s1.waiting + r1.waiting) * PAGE_BYTES as u64;
        match last.take() {
            Some((counts, took)) if pool.stats().in_use_bytes == waiting => break (counts, took),
            Some((counts, took)) if took + Duration::from_secs(5) < began.elapsed() => {
                let lost = pool.stats().in_use_bytes - waiting;
                return Err(format!("{} datagrams: {lost} bytes of frames did not come back", counts.sent).into());
            }
            unfinished => last = unfinished,
        }
        if moved == [0, 0] {
            wait(&[&s1, &r1]);
        }
    };
    let (counts, took) = counts;
    println!("memory: {memory:?}, {} frames of {PAGE_BYTES} bytes", POOL_BYTES / PAGE_BYTES as u64);
    println!(
        "datagrams: {} sent, {} back with the same bytes, in {:.2} s",
        counts.sent,
        counts.back,
        took.as_secs_f64()
    );
    println!("packets forwarded: {} from s1 to r1, {} from r1 to s1", forwarded[0], forwarded[1]);
    let stats = pool.stats();
    let pages = |bytes| bytes / PAGE_BYTES as u64;
    println!(
        "pages: {} allocated, {} freed, {} in fill rings",
        pages(stats.alloc_bytes),
        pages(stats.free_total_bytes),
        pages(stats.in_use_bytes)
    );
    drop((s1, r1, umem));
    if counts.back == counts.sent { Ok(()) } else { Err("datagrams were lost".into()) }
}
