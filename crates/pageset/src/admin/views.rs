//! Zones, nodes and pagesets of an allocator, each as a value with calls of its own.
//!
//! The allocator gives these values out, so none of them names a zone that does not exist.

use core::fmt;

use crate::alloc::Allocator;
use crate::frame::{CpuId, NodeId, PageRange, Pfn, ZoneKind};
use crate::machine::Machine;
use crate::pcp::{CachedZone, Pageset};
use crate::sync::LockedWord;

/// A zone: its settings, its counters, and what is done to all of it.
pub struct ZoneView<'x, 'a, M: Machine> {
    pub(crate) allocator: &'x Allocator<'a, M>,
    pub(crate) zone: &'a CachedZone<'a, M>,
}

/// The zones of a node.
pub struct NodeView<'x, 'a, M: Machine> {
    pub(crate) allocator: &'x Allocator<'a, M>,
    pub(crate) node: NodeId,
}

/// The pageset of one CPU for one zone.
pub struct PagesetView<'x, 'a, M: Machine> {
    pub(crate) allocator: &'x Allocator<'a, M>,
    pub(crate) zone: &'a CachedZone<'a, M>,
    pub(crate) pageset: &'a Pageset<M::Lock>,
    cpu: CpuId,
}

impl<'a, M: Machine> Allocator<'a, M> {
    pub(super) fn view<'x>(&'x self, zone: &'a CachedZone<'a, M>) -> ZoneView<'x, 'a, M> {
        ZoneView { allocator: self, zone }
    }

    /// All zones, in the order of the map.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/allocator.rs"));
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let allocator = allocator();
    /// let free: u64 = allocator.zones().map(|zone| zone.stats().nr_free_pages).sum();
    /// assert_eq!(free, ZONE.pages);
    /// # Ok(())
    /// # }
    /// ```
    pub fn zones<'x>(&'x self) -> impl ExactSizeIterator<Item = ZoneView<'x, 'a, M>> + Clone {
        self.zones.iter().map(|zone| self.view(zone))
    }

    /// The zone of a number; `None` if there are fewer. Zones are numbered as in the map.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/allocator.rs"));
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let allocator = allocator();
    /// let zone = allocator.zone(0).ok_or("no such zone")?;
    /// assert_eq!((zone.span(), zone.stats().managed), (ZONE, ZONE.pages));
    /// assert!(allocator.zone(1).is_none());
    /// let books = zone.audit()?;
    /// assert_eq!(books.in_use, 0);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn zone(&self, number: usize) -> Option<ZoneView<'_, 'a, M>> {
        self.zones.get(number).map(|zone| self.view(zone))
    }

    /// The zone whose span a page lies in.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/allocator.rs"));
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let allocator = allocator();
    /// assert_eq!(allocator.zone_of(ZONE.start).map(|zone| zone.number()), Some(0));
    /// assert!(allocator.zone_of(Pfn(0)).is_none());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn zone_of(&self, pfn: Pfn) -> Option<ZoneView<'_, 'a, M>> {
        self.locate(pfn).map(|(zone, _)| self.view(zone))
    }

    /// The zones in the order in which requests from the caller's CPU try them: the own node's zones first. Specification 1.7.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/allocator.rs"));
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let allocator = allocator();
    /// let nearest = allocator.zones_from_here().next().map(|zone| zone.number());
    /// assert_eq!(nearest, Some(0));
    /// # Ok(())
    /// # }
    /// ```
    pub fn zones_from_here<'x>(&'x self) -> impl Iterator<Item = ZoneView<'x, 'a, M>> {
        let node = self.rules.node_of(self.machine.cpu());
        let row = self.zonelists.chunks_exact(self.zones.len()).nth(node.0 as usize);
        row.unwrap_or_default().iter().filter_map(|zone| self.zone(zone.get() as usize))
    }

    /// The zones of a node. A node that is not in the map has none.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/allocator.rs"));
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let allocator = allocator();
    /// let node = allocator.node(NodeId(0));
    /// assert!(node.is_balanced(Order::ZERO, ZoneKind::Movable));
    /// assert_eq!(node.fragmentation_score(), 0);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub const fn node(&self, node: NodeId) -> NodeView<'_, 'a, M> {
        NodeView { allocator: self, node }
    }
}

impl<'x, 'a, M: Machine> ZoneView<'x, 'a, M> {
    /// The zone's number, as in the map.
    #[must_use]
    pub fn number(self) -> usize {
        self.zone.shared.index
    }

    /// The frames that the zone may ever hold, as in the map.
    #[must_use]
    pub fn span(self) -> PageRange {
        let frames = self.zone.frames();
        PageRange::new(frames.pfn(frames.first), frames.spanned())
    }

    /// The number of regions of the zone: see [`crate::RegionRule`].
    #[must_use]
    pub fn region_count(self) -> usize {
        self.zone.shared.regions.len()
    }

    /// The pageset of a CPU; `None` if the CPU is not possible.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/allocator.rs"));
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let allocator = allocator();
    /// let zone = allocator.zone(0).ok_or("no such zone")?;
    /// let pageset = zone.pageset(CpuId(1)).ok_or("no such CPU")?;
    /// assert_eq!((pageset.stats().count, pageset.state().count), (0, 0));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn pageset(self, cpu: CpuId) -> Option<PagesetView<'x, 'a, M>> {
        let pageset = self.zone.pagesets.get(cpu.0 as usize)?;
        Some(PagesetView { allocator: self.allocator, zone: self.zone, pageset, cpu })
    }

    /// The pagesets of all possible CPUs.
    pub fn pagesets(self) -> impl Iterator<Item = PagesetView<'x, 'a, M>> {
        (0..).map(CpuId).map_while(move |cpu| self.pageset(cpu))
    }
}

impl<'a, M: Machine> NodeView<'_, 'a, M> {
    /// The node's zones up to `highest` that have managed pages.
    pub(crate) fn zones(self, highest: ZoneKind) -> impl Iterator<Item = &'a CachedZone<'a, M>> {
        let here = move |zone: &&CachedZone<'a, M>| {
            zone.shared.node == self.node && zone.shared.kind <= highest && zone.shared.managed.get() > 0
        };
        self.allocator.zones.iter().filter(here)
    }
}

impl<M: Machine> PagesetView<'_, '_, M> {
    /// The pageset's CPU.
    #[must_use]
    pub const fn cpu(self) -> CpuId {
        self.cpu
    }
}

macro_rules! views {
    ($($view:ident { $($field:ident: $value:expr),* })*) => {$(
        impl<M: Machine> Copy for $view<'_, '_, M> {}

        impl<M: Machine> Clone for $view<'_, '_, M> {
            fn clone(&self) -> Self {
                *self
            }
        }

        impl<M: Machine> fmt::Debug for $view<'_, '_, M> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($view))$(.field(stringify!($field), &$value(self)))*.finish_non_exhaustive()
            }
        }
    )*};
}

views! {
    ZoneView { number: |view: &Self| view.number() }
    NodeView { node: |view: &Self| view.node }
    PagesetView { zone: |view: &Self| view.zone.shared.index, cpu: |view: &Self| view.cpu }
}
