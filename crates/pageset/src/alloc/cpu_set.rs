//! The set of online CPUs.

use core::sync::atomic::AtomicU32;

use crate::frame::CpuId;
use crate::sync::LockedWord;

/// The online CPUs: one bit per possible CPU. Written under the lock of changes.
#[derive(Debug)]
pub(crate) struct CpuSet<'a>(&'a [AtomicU32]);

impl<'a> CpuSet<'a> {
    /// Number of words for a set of `cpus` possible CPUs.
    pub(crate) const fn words(cpus: usize) -> usize {
        cpus.div_ceil(u32::BITS as usize)
    }

    /// The set of CPUs 0 to `cpus` - 1, stored in these words. The words must be zero.
    pub(crate) fn all(words: &'a [AtomicU32], cpus: usize) -> Self {
        let set = CpuSet(words);
        (0..cpus).for_each(|cpu| set.change(CpuId(cpu as u32), true));
        set
    }

    pub(crate) fn contains(&self, cpu: CpuId) -> bool {
        self.word(cpu).get() & Self::bit(cpu) != 0
    }

    pub(crate) fn change(&self, cpu: CpuId, online: bool) {
        let word = self.word(cpu);
        word.set(if online { word.get() | Self::bit(cpu) } else { word.get() & !Self::bit(cpu) });
    }

    fn word(&self, cpu: CpuId) -> &AtomicU32 {
        &self.0[(cpu.0 / u32::BITS) as usize]
    }

    const fn bit(cpu: CpuId) -> u32 {
        1 << (cpu.0 % u32::BITS)
    }
}
