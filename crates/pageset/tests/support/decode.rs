//! Decodes operations from bytes: one table for the property tests, the fuzzer and the explorer of interleavings.
//!
//! Every sequence of bytes is a scenario. Two bytes select the preset and the map; each following [`RECORD`] bytes are
//! one operation. Removing or zeroing a record leaves the others unchanged, and a shorter or smaller input is a simpler
//! scenario.
#![allow(dead_code, unreachable_pub, reason = "each program that includes it uses a part")]

use pageset::policy::PRESETS;
use pageset::{CompactMode, MigrateType, Order, ZoneKind};

use crate::ops::{Map, Op, Scenario, Wrong};

/// Bytes of one operation: its kind and seven more, as many as the largest operation needs.
pub const RECORD: usize = 8;

/// Bytes as choices; zeros after the last byte.
pub struct Choices<'b>(&'b [u8]);

impl Choices<'_> {
    fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    fn word(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }

    fn flag(&mut self) -> bool {
        self.byte() & 1 != 0
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[usize::from(self.byte()) % from.len()]
    }

    /// Mostly single pages, then the orders that pagesets cache, huge pages, and the others.
    fn order(&mut self) -> u8 {
        match self.pick(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 9, 9, 4, 5, 6, 7, 8, 10]) {
            8 => Order::MAX.get().max(Order::PAGEBLOCK.get() + 1) - 2,
            9 => Order::PAGEBLOCK.get(),
            10 => Order::MAX.get(),
            small => small,
        }
    }

    fn migratetype(&mut self) -> MigrateType {
        use MigrateType::{Movable, Reclaimable, Unmovable};
        self.pick(&[Movable, Movable, Movable, Movable, Unmovable, Unmovable, Reclaimable])
    }

    fn any_type(&mut self) -> MigrateType {
        self.pick(&MigrateType::ALL)
    }

    fn highest(&mut self) -> ZoneKind {
        use ZoneKind::{Dma, Dma32, Movable, Normal};
        self.pick(&[Movable, Movable, Movable, Normal, Dma32, Dma, Movable, Normal])
    }

    fn mode(&mut self) -> CompactMode {
        self.pick(&[CompactMode::SyncLight, CompactMode::Async, CompactMode::Sync])
    }

    /// No faults in half of the cases.
    fn faults(&mut self) -> u8 {
        let byte = self.byte();
        if byte < 128 { 0 } else { byte << 1 | byte & 1 }
    }

    /// 1 in half of the cases, else up to 79.
    fn times(&mut self) -> u8 {
        let byte = self.byte();
        if byte < 128 { 1 } else { 1 + byte % 79 }
    }

    /// Without the rarer rights in half of the cases.
    fn rights(&mut self) -> u8 {
        if self.flag() { self.byte() } else { self.byte() % 32 }
    }

    fn wrong(&mut self) -> Wrong {
        match self.pick(&WRONG) {
            Wrong::AskFor(_) => Wrong::AskFor(self.pick(&MigrateType::ALL[3..])),
            wrong => wrong,
        }
    }
}

const WRONG: [Wrong; 18] = [
    Wrong::NotOurs,
    Wrong::Hole,
    Wrong::Misaligned,
    Wrong::Twice,
    Wrong::AnotherOrder,
    Wrong::Tail,
    Wrong::BulkTwice,
    Wrong::SplitUp,
    Wrong::NoPart,
    Wrong::Node,
    Wrong::Fraction,
    Wrong::Bounds,
    Wrong::OnlineTwice,
    Wrong::OnlineOutside,
    Wrong::Cpu,
    Wrong::Enable,
    Wrong::Range,
    Wrong::AskFor(MigrateType::Isolate),
];

type Make = fn(&mut Choices<'_>) -> Op;

/// Every kind of operation with its weight: its share of the sum. The simplest kinds come first, since a failure
/// shrinks to them.
const KINDS: &[(u8, Make)] = &[
    (2, |_| Op::Tick),
    (1, |_| Op::Drain),
    (1, |_| Op::DrainAll),
    (1, |c| Op::DrainZone(c.byte())),
    (1, |c| Op::MergeSkipped(c.byte())),
    (4, |c| Op::RunOn(c.byte())),
    (12, |c| Op::Alloc {
        order: c.order(),
        migratetype: c.migratetype(),
        highest: c.highest(),
        rights: c.rights(),
        times: c.times(),
    }),
    (12, |c| {
        let (from, times) = (c.word(), c.times());
        Op::Free { from, times, undrained: c.byte() % 8 == 7 }
    }),
    (4, |c| Op::AllocWith { order: c.order(), migratetype: c.migratetype(), rights: c.rights(), gives: c.byte() }),
    (2, |c| Op::AllocBulk { order: c.order(), migratetype: c.migratetype(), pages: c.word() }),
    (2, |c| Op::FreeDirect { from: c.word(), times: c.times() }),
    (3, |c| Op::AllocAt { from: c.word(), order: c.order() }),
    (2, |c| Op::AllocExact { pages: c.word(), migratetype: c.migratetype(), highest: c.highest(), rights: c.rights() }),
    (1, |c| Op::FreeCold { from: c.word(), times: c.times() }),
    (1, |c| Op::FreeDeferred { from: c.word(), times: c.times() }),
    (2, |c| Op::FreePart { nth: c.word(), first: c.word(), pages: c.word() }),
    (3, |c| Op::FreeBulk { from: c.word(), blocks: c.word() }),
    (1, |c| Op::Exhaust { order: c.order(), migratetype: c.migratetype() }),
    (2, |c| Op::Split { nth: c.word(), to: c.byte() % Order::COUNT as u8 }),
    (4, |c| Op::Wrong(c.wrong(), c.word())),
    (1, |c| Op::HighFraction(if c.flag() { 8 + u32::from(c.word()) % 1000 } else { 0 })),
    (2, |c| Op::SetBounds {
        zone: c.byte(),
        batch: c.word().into(),
        high_min: c.word().into(),
        high_max: c.word().into(),
    }),
    (3, |c| Op::Compact { order: c.order(), migratetype: c.migratetype(), mode: c.mode(), faults: c.faults() }),
    (1, |c| Op::CompactZone {
        zone: c.byte(),
        order: c.byte() % (Order::COUNT as u8 + 1),
        mode: c.mode(),
        faults: c.faults(),
    }),
    (1, |c| Op::CompactNode {
        node: c.byte(),
        order: c.byte() % Order::COUNT as u8,
        proactive: c.flag(),
        faults: c.faults(),
    }),
    (2, |c| Op::AllocRange { from: c.word(), pages: c.word(), migratetype: c.migratetype(), faults: c.faults() }),
    (2, |c| Op::FreeRange { nth: c.word(), blocks: c.byte() }),
    (1, |c| Op::Offline { from: c.word(), pages: c.word(), faults: c.faults() }),
    (3, |c| Op::BlockType { pageblock: c.word(), migratetype: c.any_type() }),
    (1, |c| Op::Online(c.byte())),
    (2, |c| Op::CpuOffline(c.byte())),
    (2, |c| Op::CpuOnline(c.byte())),
    (1, |c| Op::DisablePagesets(c.byte())),
    // A greater weight than the disable, so that not all zones end up without pagesets.
    (2, |c| Op::EnablePagesets(c.byte())),
    (1, |c| Op::ReclaimActive { zone: c.byte(), on: c.flag() }),
    (1, |c| Op::BelowHigh { zone: c.byte(), on: c.flag() }),
    (1, |c| Op::NodeReclaim { node: c.byte(), highest: c.highest(), on: c.flag() }),
    (2, |c| Op::Marks { zone: c.byte(), min: c.byte() }),
    (1, |c| Op::DecayBoost { zone: c.byte(), pages: c.word() }),
];

impl Op {
    /// The number of kinds.
    pub const KINDS: usize = KINDS.len();

    /// The smallest first byte of a record of each kind.
    pub fn first_bytes() -> impl Iterator<Item = u8> {
        KINDS.iter().scan(0, |next, &(weight, _)| Some(std::mem::replace(next, *next + weight)))
    }

    /// Decodes a record. A short record is extended with zeros.
    pub fn decode(record: &[u8]) -> Op {
        let mut choices = Choices(record);
        let all: u32 = KINDS.iter().map(|&(weight, _)| u32::from(weight)).sum();
        let mut at = u32::from(choices.byte()) % all;
        let make = KINDS.iter().find_map(|&(weight, make)| match at.checked_sub(weight.into()) {
            Some(rest) => {
                at = rest;
                None
            }
            None => Some(make),
        });
        make.expect("less than all weights together")(&mut choices)
    }
}

impl Scenario {
    /// Decodes a scenario.
    pub fn decode(bytes: &[u8]) -> Scenario {
        let mut choices = Choices(bytes);
        let preset = choices.pick(PRESETS).name;
        let map = choices.pick(&Map::ALL);
        Scenario { preset, map, ops: choices.0.chunks(RECORD).map(Op::decode).collect() }
    }
}
