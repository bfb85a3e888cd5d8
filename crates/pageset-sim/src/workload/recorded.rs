//! The processes of a recording on any number of CPUs.
//!
//! Each process allocates and frees as recorded. Between two calls it computes for the recorded time, up to a limit.
//! Block numbers connect an allocation to its free by another process.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use pageset::{AllocError, Block, MigrateType, Order, Pfn};

use super::Job;
use crate::os::System;
use crate::time::Time;

/// Longest time between two calls that counts as work: 1 ms. In a longer time the process slept.
const LONGEST_WORK: Time = Time::from_ps(1_000_000_000);

/// One call of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    /// Time since the previous call of the process.
    pub after: Time,
    /// The number of the block.
    pub block: u32,
    /// The call for this block.
    pub call: Call,
}

/// A call to the allocator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Call {
    /// Allocates the block.
    Alloc {
        /// The order.
        order: Order,
        /// The migratetype: unmovable, movable or reclaimable.
        migratetype: MigrateType,
    },
    /// Frees the block.
    Free,
}

/// The calls of all processes of a recording.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Recording {
    /// The calls of each process, in order.
    pub processes: Vec<Vec<Step>>,
    /// Blocks that were in use before the recording and are freed in it.
    pub in_use: Vec<(u32, Order)>,
    /// Number of blocks. Block numbers start at 0.
    pub blocks: u32,
}

/// Builds a recording from calls in the order of their times.
#[derive(Debug, Default)]
pub struct RecordingBuilder {
    recording: Recording,
    /// The index of each process and the time of its last call.
    processes: HashMap<u32, (usize, u64)>,
    /// Allocated blocks by their first page.
    in_use: HashMap<Pfn, u32>,
}

impl RecordingBuilder {
    /// Adds an allocation by a process.
    pub fn alloc(&mut self, time_ns: u64, pid: u32, pfn: Pfn, order: Order, migratetype: MigrateType) {
        let block = self.new_block();
        self.in_use.insert(pfn, block);
        self.step(time_ns, pid, block, Call::Alloc { order, migratetype });
    }

    /// Adds a free by a process. A block with unknown allocation counts as in use from the beginning.
    pub fn free(&mut self, time_ns: u64, pid: u32, pfn: Pfn, order: Order) {
        let block = self.in_use.remove(&pfn).unwrap_or_else(|| {
            let block = self.new_block();
            self.recording.in_use.push((block, order));
            block
        });
        self.step(time_ns, pid, block, Call::Free);
    }

    /// Returns the recording.
    pub fn build(self) -> Recording {
        self.recording
    }

    fn new_block(&mut self) -> u32 {
        self.recording.blocks += 1;
        self.recording.blocks - 1
    }

    fn step(&mut self, time_ns: u64, pid: u32, block: u32, call: Call) {
        let processes = &mut self.recording.processes;
        let (place, last_ns) = self.processes.entry(pid).or_insert_with(|| {
            processes.push(Vec::new());
            (processes.len() - 1, time_ns)
        });
        let after = Time::from_ns(time_ns.saturating_sub(*last_ns) as f64);
        *last_ns = time_ns;
        processes[*place].push(Step { after, block, call });
    }
}

/// The state of a block in a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Not allocated yet, or freed.
    None,
    /// Allocated.
    Taken(Block),
    /// Freed before its allocation: in this run the freeing process was ahead of the allocating one.
    Owed,
}

/// Task `t` runs process `t`, then process `t + tasks`, and so on. If there are more tasks than processes, the other
/// tasks run copies.
pub(super) fn set_up<'s>(
    system: &'s System<'_>,
    tasks: u32,
    recording: &Arc<Recording>,
) -> Result<Job<'s>, AllocError> {
    let processes = recording.processes.len().max(1);
    let copies = (tasks as usize).div_ceil(processes);
    let mut blocks = vec![vec![State::None; recording.blocks as usize]; copies];
    for states in &mut blocks {
        for &(block, order) in &recording.in_use {
            let pfn = system.alloc_block(order, MigrateType::Movable)?;
            states[block as usize] = State::Taken(Block { pfn, order });
        }
    }
    let blocks = RefCell::new(blocks);
    let recording = recording.clone();
    Ok(Box::new(move |task| {
        let own = (task as usize..processes.max(task as usize + 1)).step_by(tasks as usize);
        for number in own {
            let copy = number / processes;
            for step in recording.processes.get(number % processes).into_iter().flatten() {
                take_step(system, step, |state| {
                    std::mem::replace(&mut blocks.borrow_mut()[copy][step.block as usize], state)
                })?;
            }
        }
        Ok(())
    }))
}

/// Performs one call. `swap` sets the state of the block and returns the old state.
fn take_step(system: &System<'_>, step: &Step, swap: impl Fn(State) -> State) -> Result<(), AllocError> {
    system.engine().work(step.after.min(LONGEST_WORK));
    system.yield_now();
    match step.call {
        Call::Alloc { order, migratetype } => {
            let block = Block { pfn: system.alloc_block(order, migratetype)?, order };
            if swap(State::Taken(block)) == State::Owed {
                swap(State::None);
                system.free_block(block);
            }
        }
        Call::Free => match swap(State::None) {
            State::Taken(block) => system.free_block(block),
            State::None | State::Owed => {
                swap(State::Owed);
            }
        },
    }
    system.count();
    Ok(())
}
