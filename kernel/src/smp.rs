//! CPUs that come and go. A CPU starts in real mode at the trampoline, each time that it comes.

use core::ptr;
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use pageset::{CpuId, MigrateType, Order, Pfn, Request};
use spin::Once;

use crate::acpi::Topology;
use crate::apic;
use crate::cpu::{self, COUNTS, MAX_CPUS, PerCpu};
use crate::frames::frames;
use crate::stack::UNUSED;
use crate::{interrupts, paging};

/// The page below 1 MiB where a CPU starts. `boot.s` knows the address, 0x8000.
const TRAMPOLINE_PAGE: u8 = 8;
/// The size of a CPU's stack: 64 KiB.
const STACK: Order = Order::new(4).unwrap();
/// How often [`start`] looks whether the CPU has come before it gives up. A guess: a minute or more.
const START_TRIES: u64 = 1 << 32;

/// Where a CPU is in its life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum State {
    /// Halted, or never started.
    Stopped,
    /// Between [`start`] and its first operation.
    Starting,
    Working,
    /// Asked to stop; it works until the end of its operation.
    Stopping,
    /// All its operations are done, and it is halted.
    Finished,
}

static STATES: PerCpu<AtomicU8> = PerCpu([const { AtomicU8::new(State::Stopped as u8) }; MAX_CPUS]);
/// The CPUs that are about to send an NMI to each CPU.
static NMI_SENDERS: PerCpu<AtomicU32> = PerCpu([const { AtomicU32::new(0) }; MAX_CPUS]);
/// The stack of each CPU that was ever started, as a page number; 0 for none.
static STACKS: PerCpu<AtomicU64> = PerCpu([const { AtomicU64::new(0) }; MAX_CPUS]);
static APIC_IDS: Once<PerCpu<u32>> = Once::new();
static CPUS: AtomicU32 = AtomicU32::new(1);

unsafe extern "C" {
    static trampoline_start: u8;
    static trampoline_end: u8;
    static started_cpu_stack: AtomicU32;
    static started_cpu_number: AtomicU32;
}

/// Prepares the start of other CPUs.
///
/// # Safety
/// Nobody uses the trampoline's page.
pub unsafe fn set_up(topology: &Topology) {
    let length = &raw const trampoline_end as usize - &raw const trampoline_start as usize;
    let page = Pfn(TRAMPOLINE_PAGE.into()).address() as *mut u8;
    // SAFETY: the trampoline is shorter than a page, and the caller vouches for the page.
    unsafe { ptr::copy_nonoverlapping(&raw const trampoline_start, page, length) };
    let mut ids = [0; MAX_CPUS];
    ids.iter_mut().zip(&topology.cpus).for_each(|(id, cpu)| *id = cpu.apic_id);
    APIC_IDS.call_once(|| PerCpu(ids));
    CPUS.store(topology.cpus.len() as u32, Ordering::Relaxed);
    STATES.here().store(State::Working as u8, Ordering::Relaxed);
}

/// The number of CPUs, started or not.
pub fn count() -> u32 {
    // Relaxed: written before there is a second CPU.
    CPUS.load(Ordering::Relaxed)
}

/// All CPUs except the first.
pub fn others() -> impl Iterator<Item = CpuId> {
    (1..count()).map(CpuId)
}

/// The state of a CPU at a recent moment.
pub fn state(cpu: CpuId) -> State {
    // Sequentially consistent: `send_nmi` and `start` each write one word and read the other's.
    match STATES.of(cpu).load(Ordering::SeqCst) {
        0 => State::Stopped,
        1 => State::Starting,
        2 => State::Working,
        3 => State::Stopping,
        _ => State::Finished,
    }
}

/// Starts a stopped CPU and waits until it works. Only the first CPU calls this.
///
/// # Panics
/// There is no memory for its stack, or it does not come.
pub fn start(cpu: CpuId) {
    // The CPU is halted. An NMI that comes after the reset would find it without an interrupt table.
    wait_until(|| NMI_SENDERS.of(cpu).load(Ordering::SeqCst) == 0, cpu);
    if STACKS.of(cpu).load(Ordering::Relaxed) == 0 {
        let stack = frames().alloc(&Request::new(STACK, MigrateType::Unmovable)).expect("memory for a stack");
        // SAFETY: the stack is new, and no CPU uses it yet.
        words(stack).for_each(|word| unsafe { word.write_volatile(UNUSED) });
        STACKS.of(cpu).store(stack.0, Ordering::Relaxed);
    }
    let stack_end = Pfn(STACKS.of(cpu).load(Ordering::Relaxed)).offset(STACK.pages());
    STATES.of(cpu).store(State::Starting as u8, Ordering::SeqCst);
    let stack_end = u32::try_from(stack_end.address()).expect("a stack below 4 GiB");
    // SAFETY: two words of boot.s, with the alignment of atomics; only a starting CPU reads them, and there is one at a time.
    unsafe {
        started_cpu_stack.store(stack_end, Ordering::SeqCst);
        started_cpu_number.store(cpu.0, Ordering::SeqCst);
    }
    apic::send_init(apic_id(cpu));
    apic::send_startup(apic_id(cpu), TRAMPOLINE_PAGE);
    wait_until(|| state(cpu) != State::Starting, cpu);
    COUNTS.of(cpu).starts.add(1);
}

/// Asks a CPU to stop, and waits until it has stopped or finished.
pub fn stop(cpu: CpuId) {
    let (from, to) = (State::Working as u8, State::Stopping as u8);
    // A CPU that has finished stays so.
    let _ = STATES.of(cpu).compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst);
    wait_until(|| matches!(state(cpu), State::Stopped | State::Finished), cpu);
}

/// Whether the current CPU was asked to stop.
pub fn is_asked_to_stop() -> bool {
    state(cpu::number()) == State::Stopping
}

/// The life of a started CPU: `work` returns its last state, [`State::Stopped`] or [`State::Finished`].
pub fn live(cpu: CpuId, work: impl FnOnce() -> State) -> ! {
    cpu::set_number(cpu);
    interrupts::set_up_cpu();
    paging::enter();
    STATES.here().store(State::Working as u8, Ordering::SeqCst);
    interrupts::start();
    let state = work();
    interrupts::stop();
    paging::leave();
    STATES.here().store(state as u8, Ordering::SeqCst);
    loop {
        x86_64::instructions::hlt();
    }
}

/// Sends an NMI to a CPU if it works.
pub fn send_nmi(cpu: CpuId) {
    // Sequentially consistent: pairs with `start`, which first sees the CPU stopped and then reads this.
    NMI_SENDERS.of(cpu).fetch_add(1, Ordering::SeqCst);
    if state(cpu) == State::Working {
        apic::send_nmi(apic_id(cpu));
    }
    NMI_SENDERS.of(cpu).fetch_sub(1, Ordering::SeqCst);
}

/// Frees the stacks of all other CPUs, which have finished. Returns how many bytes of a stack were used at most.
pub fn free_stacks() -> usize {
    let stacks = STACKS.0.iter().map(|stack| Pfn(stack.swap(0, Ordering::Relaxed))).filter(|stack| stack.0 > 0);
    let used = stacks.map(|stack| {
        // SAFETY: the CPU has finished. A stack grows down, so unused words are first.
        let unused = words(stack).take_while(|word| unsafe { word.read_volatile() } == UNUSED).count();
        frames().free(stack, STACK).unwrap_or_else(|error| panic!("{error}"));
        words(stack).len().saturating_sub(unused) * 8
    });
    used.max().unwrap_or(0)
}

fn words(stack: Pfn) -> impl ExactSizeIterator<Item = *mut u64> {
    let start = stack.address() as *mut u64;
    (0..STACK.pages() as usize * 512).map(move |word| start.wrapping_add(word))
}

fn apic_id(cpu: CpuId) -> u32 {
    *APIC_IDS.get().expect("`set_up` has run").of(cpu)
}

fn wait_until(condition: impl Fn() -> bool, cpu: CpuId) {
    let met = (0..START_TRIES).any(|_| {
        core::hint::spin_loop();
        condition()
    });
    assert!(met, "{cpu} does not answer: it is {:?}", state(cpu));
}
