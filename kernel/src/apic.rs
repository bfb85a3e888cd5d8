//! The local APIC of the current CPU: the timer, and interrupts to other CPUs.

/// The address of the registers; QEMU's machines never move it.
const BASE: u64 = 0xFEE0_0000;
const ID: u64 = 0x20;
const TASK_PRIORITY: u64 = 0x80;
const END_OF_INTERRUPT: u64 = 0xB0;
const SPURIOUS: u64 = 0xF0;
const COMMAND: u64 = 0x300;
const COMMAND_TARGET: u64 = 0x310;
const TIMER: u64 = 0x320;
const TIMER_COUNT: u64 = 0x380;
const TIMER_DIVISOR: u64 = 0x3E0;

/// The bit of [`SPURIOUS`] that turns the APIC on.
const ENABLE: u32 = 0x100;
/// The value of [`TIMER_DIVISOR`] for 1. The timer of QEMU then counts nanoseconds.
const DIVIDE_BY_ONE: u32 = 0b1011;
/// Commands: a reset; a start at page 8; an NMI.
const COMMAND_INIT: u32 = 0x4500;
const COMMAND_STARTUP: u32 = 0x4600;
const COMMAND_NMI: u32 = 0x4400;

/// The vector of timer interrupts.
pub const TIMER_VECTOR: u8 = 0x20;
/// The vector of interrupts that were withdrawn before the CPU took them.
pub const SPURIOUS_VECTOR: u8 = 0xFF;

fn write(register: u64, value: u32) {
    // SAFETY: the register is one of the above, mapped at its physical address; each CPU reaches its own APIC there.
    unsafe { ((BASE + register) as *mut u32).write_volatile(value) };
}

/// Turns the APIC on, with the timer off.
pub fn enable() {
    write(SPURIOUS, ENABLE | u32::from(SPURIOUS_VECTOR));
    write(TASK_PRIORITY, 0);
    write(TIMER_DIVISOR, DIVIDE_BY_ONE);
    write(TIMER, u32::from(TIMER_VECTOR));
}

/// The number of this CPU's APIC.
pub fn id() -> u32 {
    // SAFETY: as in `write`; reading the register has no effect.
    unsafe { ((BASE + ID) as *const u32).read_volatile() >> 24 }
}

/// One timer interrupt after so many nanoseconds; none for 0. Replaces an earlier one.
pub fn set_timer(nanoseconds: u32) {
    write(TIMER_COUNT, nanoseconds);
}

/// Tells the APIC that the interrupt is handled.
pub fn end_interrupt() {
    write(END_OF_INTERRUPT, 0);
}

/// Sends an NMI.
pub fn send_nmi(apic_id: u32) {
    send(apic_id, COMMAND_NMI);
}

/// Resets a CPU; it then waits for [`send_startup`].
pub fn send_init(apic_id: u32) {
    send(apic_id, COMMAND_INIT);
}

/// Starts a CPU in real mode at a page below 1 MiB.
pub fn send_startup(apic_id: u32, page: u8) {
    send(apic_id, COMMAND_STARTUP | u32::from(page));
}

fn send(apic_id: u32, command: u32) {
    write(COMMAND_TARGET, apic_id << 24);
    write(COMMAND, command);
}
