//! Memory that comes and goes while the allocator runs.
//!
//! Specification: `linux-page-allocator.md` 8.3.

use crate::admin::owner::Owner;
use crate::admin::range::RangeError;
use crate::alloc::Allocator;
use crate::alloc::config::MapError;
use crate::frame::PageRange;
use crate::machine::{LockPath, Machine};

/// Keeps the pagesets of a zone disabled until dropped, also if the owner's code panics.
struct NoPagesets<'w, 'a, M: Machine>(&'w Allocator<'a, M>, usize);

impl<'w, 'a, M: Machine> NoPagesets<'w, 'a, M> {
    fn new(allocator: &'w Allocator<'a, M>, zone: usize) -> Self {
        allocator.disable_pagesets(zone);
        NoPagesets(allocator, zone)
    }
}

impl<M: Machine> Drop for NoPagesets<'_, '_, M> {
    fn drop(&mut self) {
        // This cannot fail: `new` disabled the pagesets.
        self.0.enable_pagesets(self.1).ok();
    }
}

impl<M: Machine> Allocator<'_, M> {
    /// Brings the pages of a range online, and computes watermarks and bounds again. Holds the zone lock.
    ///
    /// # Errors
    /// A range that is empty, outside every zone's span, or partly online already. Nothing has changed then.
    pub fn online(&self, range: PageRange) -> Result<(), MapError> {
        if range.pages == 0 {
            return Err(MapError::Empty { start: range.start });
        }
        let Some((zone, page)) = self.locate(range.start) else {
            return Err(MapError::OutsideSpan { start: range.start });
        };
        if range.pages > u64::from(zone.frames().end - page) {
            return Err(MapError::OutsideSpan { start: range.start });
        }
        {
            let guard = zone.shared.lock(self.env(), LockPath::Map);
            if let Some(known) = zone.shared.buddy.first_known(page, range.pages) {
                return Err(MapError::Overlap { start: range.start, other: zone.frames().pfn(known) });
            }
            guard.online(page, range.pages);
        }
        self.recompute();
        Ok(())
    }

    /// Takes a range offline. The range is emptied as by [`Self::alloc_range`]; its pages are then neither present nor
    /// managed, until [`Self::online`]. Computes watermarks and bounds again. The zone's pagesets are disabled during
    /// the call. Specification 8.1 "zone PCP disable".
    ///
    /// # Errors
    /// As [`Self::alloc_range`].
    pub fn offline(&self, range: PageRange, owner: &impl Owner) -> Result<(), RangeError> {
        let (zone, span) = self.span_of(range)?;
        let disabled = NoPagesets::new(self, zone.shared.index);
        let result = self.empty_range(zone, span, owner, |zone| zone.retire(span));
        drop(disabled);
        if result.is_ok() {
            self.recompute();
        }
        result
    }
}
