//! A region whose pages are touched in any order.

use pageset::AllocError;

use super::space::TABLE_PAGES;
use super::{Region, Space, System};

/// A region of fixed size whose pages fault in any order.
#[derive(Debug)]
pub struct Scattered<'s> {
    region: Region<'s>,
    present: Vec<bool>,
    tables: Vec<bool>,
    /// The index of each present page, in the order of the faults.
    indices: Vec<u32>,
}

impl<'s> Scattered<'s> {
    /// A region of `pages` pages, none of them present.
    pub fn new(space: &'s Space, pages: usize) -> Self {
        Scattered {
            region: Region::new(space),
            present: vec![false; pages],
            tables: vec![false; pages.div_ceil(TABLE_PAGES)],
            indices: Vec::new(),
        }
    }

    /// Touches a page. Returns whether that caused a fault; false for an index outside of the region.
    pub fn touch(&mut self, system: &System<'_>, index: usize) -> Result<bool, AllocError> {
        let Some(present) = self.present.get_mut(index) else { return Ok(false) };
        if *present {
            return Ok(false);
        }
        *present = true;
        let table = &mut self.tables[index / TABLE_PAGES];
        let new_table = !std::mem::replace(table, true);
        self.region.fault_in(system, new_table, None)?;
        self.indices.push(index as u32);
        Ok(true)
    }

    /// Unmaps and frees all pages, in the order of their indices.
    pub fn unmap(&mut self, system: &System<'_>) -> Result<(), AllocError> {
        let pages = self.region.pages_mut();
        let mut by_index: Vec<_> = self.indices.drain(..).zip(pages.iter().copied()).collect();
        by_index.sort_unstable_by_key(|(index, _)| *index);
        pages.iter_mut().zip(by_index).for_each(|(page, (_, sorted))| *page = sorted);
        self.present.fill(false);
        self.tables.fill(false);
        self.region.unmap(system)
    }
}
