//! The current CPU: its number, and what each CPU has of its own.

use core::arch::asm;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use pageset::CpuId;
use x86_64::VirtAddr;
use x86_64::registers::model_specific::GsBase;

/// The most CPUs that the kernel starts.
pub const MAX_CPUS: usize = 32;

/// One value for each CPU.
pub struct PerCpu<T>(pub [T; MAX_CPUS]);

impl<T> PerCpu<T> {
    /// The value of the current CPU.
    pub fn here(&self) -> &T {
        self.of(number())
    }

    /// The value of one CPU.
    pub fn of(&self, cpu: CpuId) -> &T {
        &self.0[cpu.0 as usize]
    }
}

/// The numbers that [`number`] reads: `gs` points to the current CPU's.
static NUMBERS: PerCpu<AtomicU32> = PerCpu([const { AtomicU32::new(0) }; MAX_CPUS]);

/// Makes `cpu` the number of the current CPU. Call it before anything else on each CPU.
pub fn set_number(cpu: CpuId) {
    NUMBERS.of(cpu).store(cpu.0, Relaxed);
    GsBase::write(VirtAddr::from_ptr(NUMBERS.of(cpu)));
}

/// The number of the current CPU. Code never moves to another CPU, so the answer stays true.
#[inline(always)]
pub fn number() -> CpuId {
    let number: u32;
    // SAFETY: `set_number` has pointed gs to a number that stays where it is.
    unsafe { asm!("mov {:e}, gs:[0]", out(reg) number, options(nostack, preserves_flags, readonly)) };
    CpuId(number)
}

/// A number that one CPU counts and any CPU reads. NMIs and interrupts count too, so each addition is one instruction.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub const fn new() -> Counter {
        Counter(AtomicU64::new(0))
    }

    pub fn add(&self, number: u64) {
        // Relaxed: a statistic.
        self.0.fetch_add(number, Relaxed);
    }

    pub fn get(&self) -> u64 {
        // Relaxed: as above.
        self.0.load(Relaxed)
    }
}

/// What a CPU has done.
pub struct Counts {
    /// Random operations, and those of them that found no memory.
    pub operations: Counter,
    pub operations_refused: Counter,
    /// Timer interrupts, and those of them that found no memory.
    pub interrupts: Counter,
    pub interrupts_refused: Counter,
    /// NMIs, and those of them that got nothing: most often because they interrupted the holder of a lock.
    pub nmis: Counter,
    pub nmis_refused: Counter,
    /// NMIs that freed a block.
    pub nmis_freed: Counter,
    /// Page faults, and regions that were mapped, touched and unmapped.
    pub faults: Counter,
    pub regions: Counter,
    /// How often the CPU was started.
    pub starts: Counter,
}

impl Counts {
    const fn new() -> Counts {
        Counts {
            operations: Counter::new(),
            operations_refused: Counter::new(),
            interrupts: Counter::new(),
            interrupts_refused: Counter::new(),
            nmis: Counter::new(),
            nmis_refused: Counter::new(),
            nmis_freed: Counter::new(),
            faults: Counter::new(),
            regions: Counter::new(),
            starts: Counter::new(),
        }
    }
}

/// What each CPU has done.
pub static COUNTS: PerCpu<Counts> = PerCpu([const { Counts::new() }; MAX_CPUS]);
