//! A small machine for tests: one zone, and a CPU that the test selects.
#![allow(dead_code, unreachable_pub, reason = "each program that includes it uses a part")]

use std::cell::Cell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use pageset::alloc::owned::OwnedMetadata;
use pageset::machine::Access;
use pageset::policy::{Bounds, PRESETS, Preset};
use pageset::{
    Allocator, Config, CpuId, Machine, MigrateType, NodeId, Order, PageRange, PagesetView, Pfn, RawLock, Request,
    SpinLock, Tuning, ZoneKind, ZoneSpec, ZoneView,
};

/// The presets from the one named `first` on, up to but without the one named `end`; all later ones if `end` is empty.
pub fn presets(first: &str, end: &str) -> &'static [Preset] {
    let at = |name: &str| PRESETS.iter().position(|preset| preset.name == name);
    let end = if end.is_empty() { Some(PRESETS.len()) } else { at(end) };
    &PRESETS[at(first).expect("a preset")..end.expect("a preset")]
}

/// Zones and pagesets of which a test knows that they exist.
pub trait Known<'a, M: Machine> {
    fn at(&self, zone: usize) -> ZoneView<'_, 'a, M>;

    fn pageset(&self, zone: usize, cpu: CpuId) -> PagesetView<'_, 'a, M> {
        self.at(zone).pageset(cpu).expect("the test has a CPU of this number")
    }
}

impl<'a, M: Machine> Known<'a, M> for Allocator<'a, M> {
    fn at(&self, zone: usize) -> ZoneView<'_, 'a, M> {
        self.zone(zone).expect("the test has a zone of this number")
    }
}

/// A machine whose CPU the test selects.
#[derive(Debug, Default)]
pub struct TestMachine {
    cpu: AtomicU32,
    /// The wake-ups of reclaim: zone, order, highest zone.
    woken: Mutex<Vec<(usize, Order, ZoneKind)>>,
}

impl TestMachine {
    pub fn run_on(&self, cpu: u32) {
        self.cpu.store(cpu, Relaxed);
    }

    /// The wake-ups of reclaim since the last call.
    pub fn woken(&self) -> Vec<(usize, Order, ZoneKind)> {
        std::mem::take(&mut self.woken.lock().expect("no thread panics"))
    }
}

thread_local! {
    /// Whether this thread's test machines give no CPU hint, so that every call takes the general path.
    pub static NO_HINT: Cell<bool> = const { Cell::new(false) };
}

impl Machine for TestMachine {
    type Lock = SpinLock;

    fn cpu_hint(&self) -> u32 {
        if NO_HINT.get() { u32::MAX } else { self.cpu().0 }
    }

    fn cpu(&self) -> CpuId {
        CpuId(self.cpu.load(Relaxed))
    }

    fn wake_reclaim(&self, zone: usize, order: Order, highest: ZoneKind) {
        self.woken.lock().expect("no thread panics").push((zone, order, highest));
    }
}

/// What the machine of one test does. [`Behaving`] is the machine, so that the allocator is compiled once for all of these tests.
pub trait Behaviour: Sync {
    fn cpu(&self) -> CpuId {
        CpuId(0)
    }

    fn cpu_hint(&self) -> u32 {
        self.cpu().0
    }

    fn try_lock_pageset(&self, lock: &SpinLock, _cpu: CpuId) -> bool {
        lock.try_lock()
    }

    fn lock_pageset(&self, lock: &SpinLock, _cpu: CpuId) {
        lock.lock();
    }

    fn probe(&self, _access: Access) {}

    fn relax(&self) {
        std::hint::spin_loop();
    }
}

/// A machine with the behaviour that a test states.
pub struct Behaving<'b>(pub &'b dyn Behaviour);

impl Machine for Behaving<'_> {
    type Lock = SpinLock;

    fn cpu(&self) -> CpuId {
        self.0.cpu()
    }

    fn cpu_hint(&self) -> u32 {
        self.0.cpu_hint()
    }

    fn try_lock_pageset(&self, lock: &SpinLock, cpu: CpuId) -> bool {
        self.0.try_lock_pageset(lock, cpu)
    }

    fn lock_pageset(&self, lock: &SpinLock, cpu: CpuId) {
        self.0.lock_pageset(lock, cpu);
    }

    fn probe(&self, access: Access) {
        self.0.probe(access);
    }

    fn relax(&self) {
        self.0.relax();
    }
}

pub type World<'a> = Allocator<'a, TestMachine>;

/// Runs a test on one NORMAL zone of `pages` pages from 4 GiB on, with `cpus` CPUs.
pub fn one_zone<R>(tuning: Tuning, pages: u64, cpus: usize, test: impl FnOnce(&World<'_>) -> R) -> R {
    in_world(test, |run| {
        let range = PageRange::new(Pfn(1 << 20), pages);
        let spec = ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span: range, ranges: &[range] };
        build_for(&Config { tuning, ..Config::new(&[spec], &vec![NodeId(0); cpus]) }, run);
    })
}

/// Runs a test on any configuration.
pub fn build<R>(config: &Config<'_>, test: impl FnOnce(&World<'_>) -> R) -> R {
    in_world(test, |run| build_for(config, run))
}

/// Makes a test a function that does not depend on its type, so that what builds the world is compiled once.
fn in_world<R>(test: impl FnOnce(&World<'_>) -> R, make: impl FnOnce(&mut dyn FnMut(&World<'_>))) -> R {
    let (mut test, mut result) = (Some(test), None);
    make(&mut |world| result = test.take().map(|test| test(world)));
    result.expect("it ran")
}

fn build_for(config: &Config<'_>, run: &mut dyn FnMut(&World<'_>)) {
    let metadata = OwnedMetadata::new(config).expect("the configuration is valid");
    let mut zones = metadata.zones();
    let world =
        Allocator::new(TestMachine::default(), config, metadata.lend(&mut zones)).expect("the configuration is valid");
    run(&world);
}

/// A zone of 4 GiB with bounds set by hand, as in the worked examples.
pub fn example<R>(tuning: Tuning, high_min: u32, high_max: u32, test: impl FnOnce(&World<'_>) -> R) -> R {
    one_zone(tuning, 1 << 20, 2, |world| {
        let batch = world.pageset(0, CpuId(0)).state().batch;
        let high_max = if tuning.auto_high { high_max } else { high_min };
        world.at(0).set_bounds(Bounds { batch, high_min, high_max }).expect("the pagesets have room");
        test(world)
    })
}

pub fn movable(order: u8) -> Request {
    Request::new(Order::new(order).expect("an order"), MigrateType::Movable)
}
