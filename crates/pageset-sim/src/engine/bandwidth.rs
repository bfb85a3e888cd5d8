//! The bandwidth of each node's memory, which all cores of the node share.
//!
//! A core alone clears a page in a time that its own buffers limit. All cores together cannot clear more than the memory
//! takes. While they try, clearing slows down until what they write fits. The engine measures the traffic of each window
//! of virtual time and stretches the next window's clearing by the traffic's excess. Below the limit nothing is stretched:
//! queues of a memory that is nearly full are not modelled.

use std::cell::Cell;

use super::topology::Socket;
use crate::time::Time;

/// The memory of one node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Memory {
    /// What the node's memory transfers, in bytes a second. At least 1.
    pub bytes_per_second: u64,
    /// What clearing a page in memory transfers, in bytes.
    pub bytes_per_page: u64,
}

/// The time over which traffic is measured: short against a run, and long against the time by which CPUs run ahead of each other,
/// some 31 page faults. A guess.
const WINDOW: Time = Time::from_ps(100_000_000 * (pageset::Pfn::PAGE_BYTES / 4096));
/// The least and the largest stretch, in thousandths. The largest is far beyond any need.
const STRETCH: std::ops::RangeInclusive<u64> = 1000..=1_000_000;

#[derive(Debug)]
struct Node {
    /// Start of the current window, and its traffic in bytes so far.
    start: Cell<Time>,
    bytes: Cell<u64>,
    /// Duration of clearing in thousandths of its duration for one core alone.
    permille: Cell<u64>,
}

#[derive(Debug)]
pub(super) struct Bandwidth {
    memory: Memory,
    nodes: Box<[Node]>,
}

impl Bandwidth {
    pub(super) fn new(memory: Memory, nodes: u32) -> Self {
        let node =
            |_| Node { start: Cell::new(Time::ZERO), bytes: Cell::new(0), permille: Cell::new(*STRETCH.start()) };
        Bandwidth { memory, nodes: (0..nodes).map(node).collect() }
    }

    /// The duration of clearing a page of `node` at `now`, which takes `time` on a core alone.
    pub(super) fn clear(&self, node: Socket, now: Time, time: Time) -> Time {
        let node = &self.nodes[node.0 as usize];
        // CPUs run ahead of each other, so `now` may be before the window.
        if now > node.start.get() + WINDOW {
            let seconds = (now - node.start.get()).seconds();
            let used = node.bytes.replace(0) as f64 / (seconds * self.memory.bytes_per_second as f64);
            let permille = (node.permille.get() as f64 * used).round() as u64;
            node.permille.set(permille.clamp(*STRETCH.start(), *STRETCH.end()));
            node.start.set(now);
        }
        node.bytes.set(node.bytes.get() + self.memory.bytes_per_page);
        time.permille(node.permille.get())
    }
}
