//! The past of a machine's memory: what its CPUs allocated and freed before virtual time begins.
//!
//! Memory of a machine that has just started lies in blocks of the largest order, in the order of their addresses. On a machine
//! that has worked, free lists are mixed: the next free pages come from many regions that several CPUs freed. A history makes
//! such lists with the real allocator: CPUs take turns at random and fill and free regions, as page_fault1 does, without
//! virtual time. It is defined by its turnovers and by the seed of the run.

use std::fmt;

use pageset::{AllocError, MigrateType, Pfn};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::System;
use super::space::GATHER_PAGE;

/// The past of the memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, JsonSchema, Serialize, Deserialize)]
pub struct History {
    /// How many whole regions each CPU has filled and freed, after a shorter one. 0: the machine has just started.
    #[schemars(extend("todo" = "Use --history."))]
    pub turnovers: u32,
}

/// Pages of a region at most: 128 MiB, as in page_fault1.
const REGION_PAGES: u64 = 32_768;
/// The share of a node's memory that regions fill at most, as a divisor.
const SHARE_OF_NODE: u64 = 2;
/// Pages that a CPU allocates before another CPU has its turn: one batch of the LRU.
const TURN: u64 = 15;

impl History {
    /// Memory of a machine that has just started.
    pub const NONE: History = History { turnovers: 0 };

    /// Whether the machine has just started.
    pub const fn is_none(self) -> bool {
        self.turnovers == 0
    }
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.turnovers {
            0 => f.write_str("fresh memory"),
            1 => f.write_str("memory aged by 1 turnover"),
            turnovers => write!(f, "memory aged by {turnovers} turnovers"),
        }
    }
}

/// The region of a CPU.
#[derive(Default)]
struct Aging {
    pages: Vec<Pfn>,
    /// Size at which the region is freed.
    size: u64,
    freeing: bool,
    turnovers: u32,
}

impl System<'_> {
    /// Ages the memory. All pages are free again at the end, or in pagesets.
    pub(crate) fn age(&self, history: History) -> Result<(), AllocError> {
        if history.is_none() {
            return Ok(());
        }
        let engine = self.engine();
        let topology = engine.config().topology;
        let cpus = topology.cpus();
        let cpus_of_node = u64::from(cpus / topology.sockets);
        let region = REGION_PAGES.min(self.free_pages_of_node(0) / SHARE_OF_NODE / cpus_of_node).max(1);
        let mut aging: Vec<Aging> = (0..cpus).map(|_| Aging::default()).collect();
        // First regions are shorter, so that the CPUs are out of step.
        aging.iter_mut().for_each(|cpu| cpu.size = 1 + engine.random_below(region));
        // CPUs that still have regions to fill.
        let mut working: Vec<u32> = (0..cpus).collect();
        while !working.is_empty() {
            let place = engine.random_below(working.len() as u64) as usize;
            let cpu = working[place];
            let state = &mut aging[cpu as usize];
            self.as_cpu(cpu, || self.age_one_turn(state))?;
            if state.pages.is_empty() && !state.freeing {
                state.turnovers += 1;
                state.size = region;
                if state.turnovers > history.turnovers {
                    working.swap_remove(place);
                }
            }
        }
        Ok(())
    }

    /// One turn of a CPU: allocates a few pages, or frees a bundle.
    fn age_one_turn(&self, state: &mut Aging) -> Result<(), AllocError> {
        if state.freeing {
            // Pages are freed in the order of their faults.
            let bundle: Vec<Pfn> = state.pages.drain(..GATHER_PAGE.min(state.pages.len())).collect();
            self.free_pages(&bundle);
            state.freeing = !state.pages.is_empty();
            return Ok(());
        }
        for _ in 0..TURN.min(state.size - state.pages.len() as u64) {
            state.pages.push(self.alloc(MigrateType::Movable)?);
        }
        state.freeing = state.pages.len() as u64 >= state.size;
        Ok(())
    }
}
