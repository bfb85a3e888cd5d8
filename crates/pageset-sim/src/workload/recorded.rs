//! A recording's processes, spread over as many CPUs as asked.
//!
//! Each process allocates and frees as it did; between two of its calls it computes for as long as lay between them, up to
//! a bound. A block that another process frees is one that both know by number.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use pageset::{AllocError, Block, MigrateType, Order, Pfn};

use super::Job;
use crate::os::System;
use crate::time::Time;

/// Longest time between two calls that counts as work: beyond it the process slept. A millisecond.
const LONGEST_WORK: Time = Time::from_ps(1_000_000_000);

/// One call of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    /// Since the process's call before.
    pub after: Time,
    /// Which block.
    pub block: u32,
    /// What happens to it.
    pub call: Call,
}

/// What a process asks of the allocator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Call {
    /// Takes a block.
    Alloc {
        /// Its size.
        order: Order,
        /// Its type: one of the three ordinary ones.
        migratetype: MigrateType,
    },
    /// Gives it back.
    Free,
}

/// What a recording's processes did.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Recording {
    /// The calls of each process, in order.
    pub processes: Vec<Vec<Step>>,
    /// Blocks that were in use when it began and are freed in it.
    pub in_use: Vec<(u32, Order)>,
    /// How many blocks there are; they are numbered from 0.
    pub blocks: u32,
}

/// Makes a recording of calls in the order of their times.
#[derive(Debug, Default)]
pub struct RecordingBuilder {
    recording: Recording,
    /// A process's place and the time of its last call.
    processes: HashMap<u32, (usize, u64)>,
    /// The blocks in use, by their first pages.
    in_use: HashMap<Pfn, u32>,
}

impl RecordingBuilder {
    /// A process allocates a block.
    pub fn alloc(&mut self, time_ns: u64, pid: u32, pfn: Pfn, order: Order, migratetype: MigrateType) {
        let block = self.new_block();
        self.in_use.insert(pfn, block);
        self.step(time_ns, pid, block, Call::Alloc { order, migratetype });
    }

    /// A process frees a block. One whose allocation is not known is in use from the beginning.
    pub fn free(&mut self, time_ns: u64, pid: u32, pfn: Pfn, order: Order) {
        let block = self.in_use.remove(&pfn).unwrap_or_else(|| {
            let block = self.new_block();
            self.recording.in_use.push((block, order));
            block
        });
        self.step(time_ns, pid, block, Call::Free);
    }

    /// The recording.
    #[must_use]
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

/// A block's life in a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Not taken yet, or given back.
    None,
    /// In use.
    Taken(Block),
    /// Given back before it was taken: in this run its receiver was ahead of its sender.
    Owed,
}

/// Task `t` runs process `t`, the next round `t + tasks`, and so on; where there are more tasks than processes, the rest run
/// copies.
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

/// One call; `swap` puts a block's new state in the place of its old one.
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
