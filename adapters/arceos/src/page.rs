//! Pages that free themselves.

use core::slice;

use axerrno::{AxError, AxResult};
use memory_addr::{PhysAddr, VirtAddr};

use crate::{PAGE_SIZE, UsageKind, global_allocator};

/// Neighbouring pages of 4 KiB. Its drop frees them.
#[derive(Debug)]
pub struct GlobalPage {
    start: VirtAddr,
    pages: usize,
}

impl GlobalPage {
    /// One page, with any content.
    ///
    /// # Errors
    /// [`AxError::NoMemory`].
    pub fn alloc() -> AxResult<Self> {
        Self::alloc_contiguous(1, PAGE_SIZE)
    }

    /// One page of zeros.
    ///
    /// # Errors
    /// [`AxError::NoMemory`].
    pub fn alloc_zero() -> AxResult<Self> {
        let mut page = Self::alloc()?;
        page.zero();
        Ok(page)
    }

    /// Neighbouring pages, the first at a multiple of `alignment` bytes.
    ///
    /// # Errors
    /// [`AxError::NoMemory`], also for no pages and an alignment that is no power of two.
    pub fn alloc_contiguous(num_pages: usize, alignment: usize) -> AxResult<Self> {
        let start = global_allocator().alloc_pages(num_pages, alignment, UsageKind::Global);
        let start = start.map_err(|_| AxError::NoMemory)?;
        Ok(GlobalPage { start: start.into(), pages: num_pages })
    }

    /// The address of the first byte.
    #[must_use]
    pub fn start_vaddr(&self) -> VirtAddr {
        self.start
    }

    /// The physical address of the first byte.
    pub fn start_paddr<F: FnOnce(VirtAddr) -> PhysAddr>(&self, virt_to_phys: F) -> PhysAddr {
        virt_to_phys(self.start)
    }

    /// The size in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.pages * PAGE_SIZE
    }

    /// The first byte.
    #[must_use]
    pub fn as_ptr(&self) -> *const u8 {
        self.start.as_ptr()
    }

    /// The first byte.
    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        self.start.as_mut_ptr()
    }

    /// Writes a byte to all bytes.
    pub fn fill(&mut self, byte: u8) {
        self.as_slice_mut().fill(byte);
    }

    /// Writes zeros.
    pub fn zero(&mut self) {
        self.fill(0);
    }

    /// The content.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: the pages are this value's own until its drop, and mapped for ever. Any byte is a `u8`.
        unsafe { slice::from_raw_parts(self.as_ptr(), self.size()) }
    }

    /// The content.
    pub fn as_slice_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `self` is borrowed alone.
        unsafe { slice::from_raw_parts_mut(self.as_mut_ptr(), self.size()) }
    }
}

impl Drop for GlobalPage {
    fn drop(&mut self) {
        global_allocator().dealloc_pages(self.start.into(), self.pages, UsageKind::Global);
    }
}
