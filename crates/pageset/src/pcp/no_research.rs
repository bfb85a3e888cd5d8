//! A pageset without the rules of the layer `research`.

/// Nothing.
#[derive(Debug)]
pub(crate) struct PcpResearch;

impl PcpResearch {
    #[inline]
    pub(crate) const fn new() -> Self {
        PcpResearch
    }

    #[inline(always)]
    pub(crate) fn waiting(&self) -> u32 {
        0
    }

    #[inline(always)]
    pub(crate) fn version(&self) -> [u64; 2] {
        [0; 2]
    }

    #[inline(always)]
    pub(crate) fn counters(&self) -> [u64; 2] {
        [0; 2]
    }
}
