//! Which memory becomes which zone: on each node, what lies below 4 GiB is one, and the rest another.

use arrayvec::ArrayVec;
use pageset::{NodeId, PageRange, Pfn, ZoneKind, ZoneSpec};

use crate::MAX_PIECES;

/// The largest number of zones. A guess: 8 nodes, or the pieces of 4 whose memory interleaves.
pub(crate) const MAX_ZONES: usize = 16;
/// The first frame that a device with addresses of 32 bits does not reach.
const BELOW_4G: u64 = (4 << 30) / ostd::mm::PAGE_SIZE as u64;

/// The nodes of a machine. OSTD's interface names none, so a kernel that knows them states them.
#[derive(Clone, Copy, Debug)]
pub struct Topology {
    /// The node of each stretch of memory. Each page that OSTD adds lies in one; they do not overlap. Where two nodes meet, the boundary is
    /// a multiple of 2 MiB. Empty for a machine of one node.
    pub memory: &'static [(NodeId, PageRange)],
    /// The node of each CPU, by number; [`NodeId`] 0 for CPUs beyond.
    pub cpus: &'static [NodeId],
}

impl Topology {
    /// All memory and all CPUs are one node.
    pub const ONE_NODE: Self = Topology { memory: &[], cpus: &[] };

    /// The zones for pieces of memory: each spans the pieces of one stretch that lie on one side of 4 GiB.
    ///
    /// # Panics
    /// A piece lies outside all stretches, or there are more than 16 zones.
    pub(crate) fn zones(&self, pieces: &ArrayVec<PageRange, MAX_PIECES>) -> ArrayVec<ZoneSpec<'static>, MAX_ZONES> {
        let everything = [(NodeId(0), PageRange::new(Pfn(0), u64::MAX))];
        let memory: &[(NodeId, PageRange)] = if self.memory.is_empty() { &everything } else { self.memory };
        let mut zones = ArrayVec::new();
        for (node, stretch) in memory {
            for (kind, side) in [
                (ZoneKind::Dma32, PageRange::new(Pfn(0), BELOW_4G)),
                (ZoneKind::Normal, PageRange::new(Pfn(BELOW_4G), u64::MAX)),
            ] {
                let parts =
                    || pieces.iter().filter_map(|piece| common(piece, stretch)).filter_map(|part| common(&part, &side));
                let ends = parts().map(|part| part.start.0).min().zip(parts().map(|part| part.end().0).max());
                let Some((start, end)) = ends else { continue };
                let span = PageRange::new(Pfn(start), end - start);
                let zone = ZoneSpec { node: *node, kind, span, ranges: &[] };
                assert!(zones.try_push(zone).is_ok(), "the memory makes more than {MAX_ZONES} zones");
            }
        }
        let covered: u64 = zones
            .iter()
            .flat_map(|zone| pieces.iter().filter_map(|piece| common(piece, &zone.span)))
            .map(|part| part.pages)
            .sum();
        let pages: u64 = pieces.iter().map(|piece| piece.pages).sum();
        assert!(covered == pages, "the topology covers {covered} of {pages} pages");
        zones
    }
}

/// The pages of both ranges, or `None` if there are none.
pub(crate) fn common(a: &PageRange, b: &PageRange) -> Option<PageRange> {
    let (start, end) = (a.start.0.max(b.start.0), a.end().0.min(b.end().0));
    (start < end).then(|| PageRange::new(Pfn(start), end - start))
}
