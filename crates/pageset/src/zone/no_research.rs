//! A zone without the rules of the layer `research`.

use core::marker::PhantomData;
use core::sync::atomic::AtomicU32;

use crate::policy::Tuning;

/// Nothing.
#[derive(Debug)]
pub(crate) struct Research<'a>(PhantomData<&'a ()>);

/// No words.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResearchWords;

impl ResearchWords {
    pub(crate) fn new(_tuning: &Tuning, _sizes: [u64; 3], _cpus: usize, _batch: u32) -> Self {
        ResearchWords
    }

    pub(crate) fn len(self) -> u64 {
        0
    }
}

impl<'a> Research<'a> {
    #[inline]
    pub(crate) const fn new() -> Self {
        Research(PhantomData)
    }

    pub(crate) fn place(&mut self, _words: &'a [AtomicU32], _size: ResearchWords) {}

    pub(crate) fn is_at_rest(&self) -> bool {
        true
    }

    pub(crate) fn set_batch(&self, _pages: u32) {}

    pub(crate) fn counters(&self) -> [u64; 6] {
        [0; 6]
    }
}
