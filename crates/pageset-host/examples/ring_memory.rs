//! What becomes resident of a pool while one thread allocates buffers, and another one frees them after 512 others.
//!
//! `cargo run --release -p pageset-host --example ring_memory -- [BUFFERS]` (default: 4,000,000)
//!
//! A buffer is a page of 4 KiB, so the ring itself has 2 MiB. The pool has 1 GiB, uses no huge pages and gives nothing back. The threads stay
//! on two CPUs, the first and the last that the process may use.

use std::env;
use std::error::Error;
use std::sync::mpsc::sync_channel;
use std::thread;

use pageset_host::{GiveBack, HugePages, Order, PagePool};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

const RING: usize = 512;
const FIRST_LOOK: u64 = 10_000;

fn stay_on(cpu: Option<usize>) -> rustix::io::Result<()> {
    let mut one = CpuSet::new();
    cpu.into_iter().for_each(|cpu| one.set(cpu));
    sched_setaffinity(None, &one)
}

fn main() -> Result<(), Box<dyn Error>> {
    let buffers = env::args().nth(1).map_or(Ok(4_000_000_u64), |text| text.parse())?;
    let allowed = sched_getaffinity(None)?;
    let cpus: Vec<_> = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).collect();
    let (first, last) = (cpus.first().copied(), cpus.last().copied());
    let pool = PagePool::builder(1 << 30).huge_pages(HugePages::None).give_back(GiveBack::OFF).build()?;
    let (send, receive) = sync_channel(RING);
    thread::scope(|scope| -> Result<(), Box<dyn Error>> {
        scope.spawn(move || {
            stay_on(last)?;
            receive.into_iter().for_each(drop);
            rustix::io::Result::Ok(())
        });
        stay_on(first)?;
        let mut look = FIRST_LOOK;
        for number in 1..=buffers {
            let mut buffer = pool.pages(Order::ZERO)?;
            buffer[0] = 1;
            send.send(buffer).map_err(|_| "the other thread ended")?;
            if number == look || number == buffers {
                let mib = pool.memory().resident_bytes()? as f64 / f64::from(1 << 20);
                println!("{number:>9} buffers: {mib:.1} MiB resident");
                look *= 10;
            }
        }
        drop(send);
        Ok(())
    })
}
