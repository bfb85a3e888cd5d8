//! How much stack a call uses: the words below it are painted, and those that change are counted.

use core::arch::asm;

/// What unused words of a stack contain.
pub const UNUSED: u64 = 0x57AC_57AC_57AC_57AC;
/// Bytes below the caller that are not painted: the frames of this module. They count as used.
const OWN: usize = 512;

unsafe extern "C" {
    /// The lowest word of the first CPU's stack.
    static mut boot_stack_start: u64;
}

/// Runs `work` on the first CPU's stack and returns the bytes of it that `work` used. The caller has interrupts off.
#[inline(never)]
pub fn used(work: impl FnOnce()) -> usize {
    let top: usize;
    // SAFETY: reads a register.
    unsafe { asm!("mov {}, rsp", out(reg) top, options(nomem, nostack, preserves_flags)) };
    let start = &raw mut boot_stack_start;
    let words = (top - OWN - start as usize) / size_of::<u64>();
    // SAFETY: the words lie in the stack, below all frames.
    (0..words).for_each(|word| unsafe { start.add(word).write_volatile(UNUSED) });
    work();
    // SAFETY: as above.
    let unused = (0..words).take_while(|&word| unsafe { start.add(word).read_volatile() } == UNUSED).count();
    top - start as usize - unused * size_of::<u64>()
}
