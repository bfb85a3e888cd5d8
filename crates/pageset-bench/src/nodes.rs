//! What a free costs, by the node of its page: pools of several nodes, on a machine that may have one.
//!
//! The nodes are pretended: their memory comes from anywhere. So the figures are of the allocator's work, not of a distance. All
//! CPUs are on node 0.
#![allow(unsafe_code, reason = "raw frees")]

use std::hint::black_box;
use std::ptr::NonNull;
use std::time::{Duration, Instant};

use pageset_host::{GiveBack, NodeId, Order, PAGE_BYTES, PagePool, RunSpec};
use pageset_statistics::quantile;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use schemars::JsonSchema;
use serde::Serialize;

use crate::pattern::BATCH;
use crate::sample::{SHARE, allowed_cpus};
use crate::thread_time::{Counts, Snapshot};

/// The schema of [`NodesReport`].
pub const SCHEMA: &str = "pageset.bench-nodes/1";
/// The most nodes of a pool. A guess: more than any machine of today has.
pub const MAX_NODES: u8 = 64;
/// Pages of each node: 64 MiB, many times what caches hold.
const NODE_PAGES: usize = 16_384;
/// Tries for each sample, as in the rounds of patterns.
const TRIES: u32 = 8;

/// The result.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct NodesReport {
    /// [`SCHEMA`].
    pub schema: String,
    /// Duration of a sample, in nanoseconds. Half of it goes to allocations, which do not count.
    pub window_ns: u64,
    /// Configured samples per figure.
    pub rounds: u32,
    /// Whether the benchmark was interrupted.
    pub interrupted: bool,
    /// The figures, by the number of nodes, then by node.
    pub rows: Vec<NodeRow>,
}

/// Frees of pages of one node.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct NodeRow {
    /// Nodes of the pool.
    pub nodes: u8,
    /// The node of the pages; 0 is that of the CPU.
    pub node: u8,
    /// The kept samples of single frees: ns for each page.
    pub single_ns: Vec<f64>,
    /// The kept samples of one call for 512 pages: ns for each page.
    pub bulk_ns: Vec<f64>,
    /// Number of discarded samples, in which the thread did not have its CPU.
    pub discarded: u32,
    /// The reason why the pool could not be built, if it could not.
    pub failed: Option<String>,
}

impl NodeRow {
    /// The median of the single frees, if there are any.
    #[must_use]
    pub fn single(&self) -> Option<f64> {
        quantile(&self.single_ns, 0.5)
    }

    /// The median of the frees in bulk, if there are any.
    #[must_use]
    pub fn bulk(&self) -> Option<f64> {
        quantile(&self.bulk_ns, 0.5)
    }
}

/// Measures frees to each node of pools with these numbers of nodes, 1 to [`MAX_NODES`] each, on one pinned thread. Returns early with
/// the samples so far when `keep_on` returns false.
pub fn run(
    nodes: &[u8],
    rounds: u32,
    window: Duration,
    keep_on: impl Fn() -> bool,
    mut progress: impl FnMut(usize, usize),
) -> NodesReport {
    let before = sched_getaffinity(None);
    if let Some(&cpu) = allowed_cpus().first() {
        let mut one = CpuSet::new();
        one.set(cpu);
        // Without it the samples in which the thread moves are slower.
        let _ = sched_setaffinity(None, &one);
    }
    let mut rows: Vec<NodeRow> = nodes.iter().flat_map(|&nodes| (0..nodes).map(move |node| row(nodes, node))).collect();
    let all = rows.len() * rounds as usize;
    progress(0, all);
    for round in 0..rounds as usize {
        for nth in 0..rows.len() {
            if keep_on() {
                measure(&mut rows[nth], window);
            }
            progress(round * rows.len() + nth + 1, all);
        }
    }
    if let Ok(cpus) = before {
        let _ = sched_setaffinity(None, &cpus);
    }
    let window_ns = window.as_nanos() as u64;
    NodesReport { schema: SCHEMA.to_owned(), window_ns, rounds, interrupted: !keep_on(), rows }
}

fn row(nodes: u8, node: u8) -> NodeRow {
    NodeRow { nodes, node, single_ns: vec![], bulk_ns: vec![], discarded: 0, failed: None }
}

fn pool(nodes: u8) -> Result<PagePool, String> {
    let bytes = u64::from(nodes) * (NODE_PAGES * PAGE_BYTES) as u64;
    PagePool::builder(bytes).pretended_nodes(nodes).give_back(GiveBack::OFF).build().map_err(|error| error.to_string())
}

fn measure(row: &mut NodeRow, window: Duration) {
    if row.failed.is_some() {
        return;
    }
    let pool = match pool(row.nodes) {
        Ok(pool) => pool,
        Err(why) => return row.failed = Some(why),
    };
    for is_bulk in [false, true] {
        for _ in 0..TRIES {
            match sample(&pool, NodeId(row.node.into()), is_bulk, window) {
                Some(ns) if is_bulk => row.bulk_ns.push(ns),
                Some(ns) => row.single_ns.push(ns),
                None => {
                    row.discarded += 1;
                    continue;
                }
            }
            break;
        }
    }
}

/// The time of a free in ns; `None` if the thread did not have its CPU.
fn sample(pool: &PagePool, node: NodeId, is_bulk: bool, window: Duration) -> Option<f64> {
    let mut held: Vec<NonNull<u8>> = vec![];
    let (mut spent, mut pages) = (Duration::ZERO, 0_u32);
    let begin = Counts::now().snapshot();
    while begin.at().elapsed() < window || pages == 0 {
        held.clear();
        held.extend((0..BATCH).map(|_| {
            pool.alloc_with(&RunSpec::new(Order::ZERO).node(node))
                .expect("a node has more pages than a batch and all caches")
                .cast::<u8>()
        }));
        // The lines of the list are in the cache, as those of a caller's are.
        let start = Instant::now();
        if is_bulk {
            // SAFETY: nothing refers to the contents of the pages.
            unsafe { pool.free_bulk(Order::ZERO, black_box(&held)).expect("the pages were allocated") };
        } else {
            for &page in black_box(&held) {
                // SAFETY: as above.
                unsafe { pool.free(page, Order::ZERO).expect("the page was allocated") };
            }
        }
        spent += start.elapsed();
        pages += BATCH as u32;
    }
    let time = Snapshot::after().since(&begin);
    let share = 1.0 - time.kept_off.as_secs_f64() / time.wall.as_secs_f64();
    (share >= SHARE).then(|| spent.as_secs_f64() * 1e9 / f64::from(pages))
}
