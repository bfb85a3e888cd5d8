//! A region whose pages are touched in any order.

use pageset::AllocError;

use super::space::TABLE_PAGES;
use super::{Region, Space, System};

/// A region of a fixed size, any of whose pages may be next.
#[derive(Debug)]
pub struct Scattered<'s> {
    region: Region<'s>,
    /// Which pages are there.
    present: Vec<bool>,
    /// Which page-table pages are there.
    tables: Vec<bool>,
    /// Where each page lies, in the order of their faults.
    places: Vec<u32>,
}

impl<'s> Scattered<'s> {
    /// A region for so many pages, none of them there.
    #[must_use]
    pub fn new(space: &'s Space, pages: usize) -> Self {
        Scattered {
            region: Region::new(space),
            present: vec![false; pages],
            tables: vec![false; pages.div_ceil(TABLE_PAGES)],
            places: Vec::new(),
        }
    }

    /// Touches a page; tells whether that was a fault. A place outside of the region has no page.
    ///
    /// # Errors
    /// There is no memory.
    pub fn touch(&mut self, system: &System<'_>, place: usize) -> Result<bool, AllocError> {
        let Some(present) = self.present.get_mut(place) else { return Ok(false) };
        if *present {
            return Ok(false);
        }
        *present = true;
        let table = &mut self.tables[place / TABLE_PAGES];
        let new_table = !std::mem::replace(table, true);
        self.region.fault_in(system, new_table, None)?;
        self.places.push(place as u32);
        Ok(true)
    }

    /// Whether all pages are there.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.places.len() == self.present.len()
    }

    /// Gives all pages back, in the order of their places.
    ///
    /// # Errors
    /// There is no memory for the bundles.
    pub fn unmap(&mut self, system: &System<'_>) -> Result<(), AllocError> {
        let pages = self.region.pages_mut();
        let mut by_place: Vec<_> = self.places.drain(..).zip(pages.iter().copied()).collect();
        by_place.sort_unstable_by_key(|(place, _)| *place);
        pages.iter_mut().zip(by_place).for_each(|(page, (_, sorted))| *page = sorted);
        self.present.fill(false);
        self.tables.fill(false);
        self.region.unmap(system)
    }
}
