//! The calls that wait for nothing, as a type: what a handler that no lock keeps out may use.

use core::fmt;

use crate::alloc::error::{AllocError, FreeError, SplitError};
use crate::alloc::request::{AllocFrom, Block, Request, Wait};
use crate::alloc::{Allocator, Free, FreeTo};
use crate::frame::{Order, PageState, Pfn};
use crate::machine::Machine;

/// An allocator for callers that interrupt code which may hold any of its locks: non-maskable interrupts, signal handlers. All
/// calls wait for nothing, whatever they interrupted.
///
/// Code that gets only this value cannot make a call that waits.
pub struct NonBlocking<'x, 'a, M: Machine>(&'x Allocator<'a, M>);

impl<'a, M: Machine> Allocator<'a, M> {
    /// The calls that wait for nothing.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/allocator.rs"));
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let allocator = allocator();
    /// // In a non-maskable interrupt.
    /// let nmi = allocator.non_blocking();
    /// if let Ok(page) = nmi.alloc(&MOVABLE) {
    ///     nmi.free(page, Order::ZERO)?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub const fn non_blocking(&self) -> NonBlocking<'_, 'a, M> {
        NonBlocking(self)
    }
}

impl<M: Machine> NonBlocking<'_, '_, M> {
    /// As [`Allocator::alloc`] with [`Wait::Nothing`], whatever the request's `wait` says.
    ///
    /// # Errors
    /// As [`Allocator::alloc`]; also if the pageset has no block, and another CPU or the interrupted code has a lock.
    pub fn alloc(self, request: &Request) -> Result<Pfn, AllocError> {
        self.0.alloc(&Request { wait: Wait::Nothing, ..*request })
    }

    /// As [`Allocator::alloc_with`] for a number of pages ([`crate::Alloc::pages`]), with [`Wait::Nothing`].
    ///
    /// # Errors
    /// As [`Allocator::alloc_with`] and [`Self::alloc`].
    pub fn alloc_pages(self, request: &Request, pages: u64) -> Result<Pfn, AllocError> {
        self.0.alloc_block(&Request { wait: Wait::Nothing, ..*request }, pages, 1, AllocFrom::Pageset)
    }

    /// As [`Allocator::free_with`] to [`FreeTo::Deferred`].
    ///
    /// # Errors
    /// As [`Allocator::free`].
    pub fn free(self, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        self.0.free_with(Free::block(pfn, order).to(FreeTo::Deferred))
    }

    /// As [`Allocator::split`].
    ///
    /// # Errors
    /// As [`Allocator::split`].
    pub fn split(self, pfn: Pfn, order: Order, to: Order) -> Result<(), SplitError> {
        self.0.split(pfn, order, to)
    }

    /// As [`Allocator::block_of`].
    #[must_use]
    pub fn block_of(self, pfn: Pfn) -> Option<(Block, PageState)> {
        self.0.block_of(pfn)
    }
}

impl<M: Machine> Copy for NonBlocking<'_, '_, M> {}

impl<M: Machine> Clone for NonBlocking<'_, '_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Machine> fmt::Debug for NonBlocking<'_, '_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NonBlocking").finish_non_exhaustive()
    }
}
