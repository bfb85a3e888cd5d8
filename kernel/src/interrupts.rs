//! Interrupts, NMIs and faults. All three allocate.
//!
//! A timer interrupt frees the block that the last one got, and allocates another. The code that it interrupts may be anywhere
//! except between `lock` and `unlock`. An NMI interrupts that too, so it only tries, and defers what it frees.

use core::arch::naked_asm;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use pageset::{MigrateType, Order, Request, Urgency, Wait};
use spin::Once;
use x86_64::VirtAddr;
use x86_64::instructions::{interrupts, port::PortWriteOnly};
use x86_64::registers::control::Cr2;
use x86_64::registers::rflags::RFlags;
use x86_64::structures::idt::InterruptDescriptorTable;

use crate::apic;
use crate::cpu::{COUNTS, MAX_CPUS, PerCpu};
use crate::frames::frames;
use crate::owned_block::OwnedBlock;
use crate::paging;
use crate::random::Random;

/// The time between two timer interrupts: at least, and the random part. Unit: ns. A guess: short enough to interrupt thousands of
/// operations in a second, long enough for progress on an emulated CPU.
const TIMER_MIN_NS: u32 = 20_000;
const TIMER_RANDOM_NS: u32 = 80_000;
/// The largest order that a timer interrupt asks for.
const INTERRUPT_MAX_ORDER: u8 = 3;
/// One timer interrupt in this many ticks the allocator.
const TICK_EVERY: u32 = 8;
/// Blocks that the NMIs of a CPU may hold until normal code frees them.
const NMI_BLOCKS: usize = 16;

static TABLE: Once<InterruptDescriptorTable> = Once::new();
/// The block that the last timer interrupt of each CPU got, as a word; 0 for none.
static INTERRUPT_BLOCKS: PerCpu<AtomicU64> = PerCpu([const { AtomicU64::new(0) }; MAX_CPUS]);
static NMIS_BLOCKS: PerCpu<[AtomicU64; NMI_BLOCKS]> =
    PerCpu([const { [const { AtomicU64::new(0) }; NMI_BLOCKS] }; MAX_CPUS]);
/// Whether the NMIs of each CPU allocate. One may come late, when its CPU has finished and everything is being freed.
static NMIS_ALLOCATE: PerCpu<AtomicBool> = PerCpu([const { AtomicBool::new(false) }; MAX_CPUS]);
/// The random numbers of the timer interrupts.
pub static RANDOM: PerCpu<Random> = PerCpu([const { Random::unseeded() }; MAX_CPUS]);

/// Sets up the current CPU for interrupts, and its local APIC. They stay off.
pub fn set_up_cpu() {
    let table = TABLE.call_once(|| {
        let mut table = InterruptDescriptorTable::new();
        let address = |entry: extern "sysv64" fn()| VirtAddr::new(entry as usize as u64);
        // SAFETY: each entry fits its vector: the CPU pushes an error code or not, as the entry expects.
        unsafe {
            table.non_maskable_interrupt.set_handler_addr(address(nmi_entry));
            table.page_fault.set_handler_addr(address(page_fault_entry));
            table.invalid_opcode.set_handler_addr(address(invalid_opcode_entry));
            table.general_protection_fault.set_handler_addr(address(general_protection_entry));
            table.double_fault.set_handler_addr(address(double_fault_entry));
            table[apic::TIMER_VECTOR].set_handler_addr(address(timer_entry));
            table[apic::SPURIOUS_VECTOR].set_handler_addr(address(spurious_entry));
        }
        // The old interrupt controllers stay silent.
        for port in [0x21, 0xA1] {
            // SAFETY: these ports belong to the controllers, which nobody uses.
            unsafe { PortWriteOnly::<u8>::new(port).write(0xFF) };
        }
        table
    });
    table.load();
    apic::enable();
}

/// Lets timer interrupts and NMIs of the current CPU allocate.
pub fn start() {
    NMIS_ALLOCATE.here().store(true, Relaxed);
    apic::set_timer(TIMER_MIN_NS);
    interrupts::enable();
}

/// Turns interrupts of the current CPU off. NMIs still come, but no longer allocate.
pub fn stop() {
    interrupts::disable();
    apic::set_timer(0);
    NMIS_ALLOCATE.here().store(false, Relaxed);
}

/// Frees what the NMIs of the current CPU got.
pub fn free_nmi_blocks() {
    for slot in NMIS_BLOCKS.here() {
        // One exchange: an NMI may fill the slot again at once.
        if slot.load(Relaxed) != 0 {
            free_word(slot.swap(0, Relaxed));
        }
    }
}

/// Frees what the interrupts and NMIs of all CPUs got. [`stop`] has run on each CPU.
pub fn free_all_blocks() {
    INTERRUPT_BLOCKS.0.iter().chain(NMIS_BLOCKS.0.iter().flatten()).for_each(|slot| free_word(slot.swap(0, Relaxed)));
}

fn free_word(word: u64) {
    if let Some(block) = OwnedBlock::from_word(word) {
        block.free();
    }
}

/// What an entry and the CPU saved of the interrupted code.
#[repr(C)]
struct Frame {
    registers: [u64; 10],
    /// 0 where the CPU pushes no error code.
    error_code: u64,
    instruction_pointer: u64,
    code_segment: u64,
    flags: RFlags,
    stack_pointer: u64,
    stack_segment: u64,
}

/// Defines the entry of a vector. It saves the registers that a function may change, and calls the handler with a [`Frame`]. The
/// stack is then aligned to 16 bytes: the CPU aligned it before it pushed 6 words with the error code, and the entry pushes 10.
macro_rules! entry {
    ($entry:ident, $handler:ident, $push_error_code:literal) => {
        #[unsafe(naked)]
        extern "sysv64" fn $entry() {
            naked_asm!(
                $push_error_code,
                "push rax; push rcx; push rdx; push rsi; push rdi",
                "push r8; push r9; push r10; push r11; push rbp",
                "cld",
                "mov rdi, rsp",
                "call {handler}",
                "pop rbp; pop r11; pop r10; pop r9; pop r8",
                "pop rdi; pop rsi; pop rdx; pop rcx; pop rax",
                "add rsp, 8",
                "iretq",
                handler = sym $handler,
            )
        }
    };
}

entry!(timer_entry, timer, "push 0");
entry!(spurious_entry, spurious, "push 0");
entry!(nmi_entry, nmi, "push 0");
entry!(page_fault_entry, page_fault, "");
entry!(invalid_opcode_entry, invalid_opcode, "push 0");
entry!(general_protection_entry, general_protection, "");
entry!(double_fault_entry, double_fault, "");

extern "sysv64" fn timer(_frame: &Frame) {
    let (counts, slot, random) = (COUNTS.here(), INTERRUPT_BLOCKS.here(), RANDOM.here());
    counts.interrupts.add(1);
    free_word(slot.swap(0, Relaxed));
    let order = Order::new(random.geometric(INTERRUPT_MAX_ORDER)).unwrap_or(Order::ZERO);
    let urgency = if random.below(2) == 0 { Urgency::High } else { Urgency::Ordinary };
    let request = Request { wait: Wait::Lock, urgency, ..Request::new(order, MigrateType::Unmovable) };
    match OwnedBlock::allocate(&request) {
        Some(block) => slot.store(block.into_word(), Relaxed),
        None => counts.interrupts_refused.add(1),
    }
    if random.below(TICK_EVERY) == 0 {
        // The interrupted code may have the pageset. The tick then leaves it for the next one.
        frames().tick();
    }
    apic::set_timer(TIMER_MIN_NS + random.below(TIMER_RANDOM_NS));
    apic::end_interrupt();
}

extern "sysv64" fn spurious(_frame: &Frame) {}

extern "sysv64" fn nmi(_frame: &Frame) {
    let counts = COUNTS.here();
    // Relaxed: the CPU's own words.
    if !NMIS_ALLOCATE.here().load(Relaxed) {
        return;
    }
    counts.nmis.add(1);
    // Every fourth NMI frees a block of an earlier one. Normal code may free it at the same time: the exchange decides.
    if counts.nmis.get().is_multiple_of(4) {
        if let Some(block) = NMIS_BLOCKS.here().iter().find_map(|slot| OwnedBlock::from_word(slot.swap(0, Relaxed))) {
            block.free_deferred();
            counts.nmis_freed.add(1);
        }
        return;
    }
    let Some(slot) = NMIS_BLOCKS.here().iter().find(|slot| slot.load(Relaxed) == 0) else { return };
    let request = Request { wait: Wait::Lock, ..Request::new(Order::ZERO, MigrateType::Unmovable) };
    // The feature plants a bug: an NMI that waits for a lock. It may have interrupted the holder.
    let waits = cfg!(feature = "planted-waiting-nmi");
    let allocate = if waits { OwnedBlock::allocate } else { OwnedBlock::allocate_at_once };
    match allocate(&request) {
        Some(block) => slot.store(block.into_word(), Relaxed),
        None => counts.nmis_refused.add(1),
    }
}

extern "sysv64" fn page_fault(frame: &Frame) {
    // Before interrupts are on: an interrupt could fault too, and change it.
    let at = Cr2::read().expect("a canonical address");
    assert!(frame.error_code & 1 == 0, "page fault at {at:p}, which is mapped; {}", Place(frame));
    if frame.flags.contains(RFlags::INTERRUPT_FLAG) {
        interrupts::enable();
    }
    paging::fault(at);
    interrupts::disable();
}

extern "sysv64" fn invalid_opcode(frame: &Frame) {
    panic!("invalid opcode; {}", Place(frame));
}

extern "sysv64" fn general_protection(frame: &Frame) {
    panic!("general protection fault; {}", Place(frame));
}

extern "sysv64" fn double_fault(frame: &Frame) {
    panic!("double fault; {}", Place(frame));
}

/// Prints where a fault happened.
struct Place<'f>(&'f Frame);

impl core::fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Frame { instruction_pointer, stack_pointer, error_code, .. } = self.0;
        write!(f, "instruction {instruction_pointer:#x}, stack {stack_pointer:#x}, error code {error_code:#x}")
    }
}
