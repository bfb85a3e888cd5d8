//! Memory that comes while the allocator runs.
//!
//! Specification: `linux-page-allocator.md` 8.3.

use crate::allocator::Allocator;
use crate::config::{MapError, PageRange};
use crate::machine::{LockPath, Machine};

impl<M: Machine> Allocator<'_, M> {
    /// Brings more pages online. Watermarks and bounds are computed again.
    ///
    /// # Errors
    /// A range that is empty, in no zone's span, or online already; nothing has changed then.
    pub fn online(&self, range: PageRange) -> Result<(), MapError> {
        if range.pages == 0 {
            return Err(MapError::Empty { start: range.start });
        }
        let Some((zone, page)) = self.locate(range.start) else {
            return Err(MapError::OutsideSpan { start: range.start });
        };
        if range.pages > u64::from(zone.frames.end - page) {
            return Err(MapError::OutsideSpan { start: range.start });
        }
        {
            let _guard = zone.lock(&self.machine, LockPath::Map);
            if let Some(known) = zone.first_known(page, range.pages) {
                return Err(MapError::Overlap { start: range.start, other: zone.frames.pfn(known) });
            }
            zone.online(&self.machine, &self.tuning, page, range.pages);
        }
        self.recompute();
        Ok(())
    }
}
