//! Zonelists: the order in which a request tries the zones.
//!
//! Specification: `linux-page-allocator.md` 1.1.

use core::iter;
use core::sync::atomic::AtomicU32;

use crate::alloc::config::Config;
use crate::alloc::request::Request;
use crate::frame::{NodeId, ZoneKind};
use crate::machine::Machine;
use crate::pcp::CachedZone;
use crate::policy::Tuning;
use crate::sync::LockedWord;

/// The zones that may serve a request, best first.
#[derive(Debug)]
pub(crate) struct Zonelist<'z, 'a, M: Machine> {
    pub(crate) request: &'z Request,
    pub(super) row: &'a [AtomicU32],
    pub(super) all: &'a [CachedZone<'a, M>],
    pub(super) node: NodeId,
}

impl<'a, M: Machine> Zonelist<'_, 'a, M> {
    /// The zones that may serve the request, best first.
    pub(crate) fn zones(&self) -> impl Iterator<Item = &'a CachedZone<'a, M>> {
        let mut left = self.row;
        iter::from_fn(move || self.next_of(&mut left))
    }

    /// The first of the zones in `left` that may serve the request. Those after it are left.
    #[cfg_attr(not(feature = "rules"), inline(never))]
    #[cfg_attr(feature = "rules", inline)]
    fn next_of(&self, left: &mut &'a [AtomicU32]) -> Option<&'a CachedZone<'a, M>> {
        while let [index, rest @ ..] = *left {
            *left = rest;
            let zone = self.all.get(index.get() as usize)?;
            if zone.shared.kind <= self.request.highest
                && !(self.request.this_node_only && zone.shared.node != self.node)
                && self.request.zone.is_none_or(|only| zone.shared.index == only)
            {
                return Some(zone);
            }
        }
        None
    }
}

/// Writes the zonelist of every node. Nodes come by rising distance, the local node first; among equal distances the
/// nodes after the local one come first. Within a node zones come from the highest to the lowest. `lists` has a row of
/// all zones for each node.
pub(crate) fn build(config: &Config<'_>, lists: &[AtomicU32]) {
    let zones = config.zones.len();
    for (local, row) in lists.chunks_exact(zones).enumerate() {
        let mut filled = 0;
        let mut last = None;
        while let Some(node) = nearest(config, local, last) {
            for kind in ZoneKind::ALL.into_iter().rev() {
                for (index, zone) in config.zones.iter().enumerate() {
                    if zone.node == NodeId(node as u32) && zone.kind == kind {
                        row[filled].set(index as u32);
                        filled += 1;
                    }
                }
            }
            last = Some(node);
        }
    }
}

/// Writes, for every CPU and zone kind, the first zone that a request up to that kind tries, or [`NO_ZONE`]. `firsts`
/// has a row of all kinds for each CPU. `lists` is the result of [`build`].
pub(crate) fn build_firsts(config: &Config<'_>, lists: &[AtomicU32], firsts: &[AtomicU32]) {
    let zones = config.zones.len();
    for (row, node) in firsts.chunks_exact(ZoneKind::COUNT).zip(config.cpus) {
        let list = &lists[node.0 as usize * zones..][..zones];
        for (word, highest) in row.iter().zip(ZoneKind::ALL) {
            let first = list.iter().map(LockedWord::get).find(|&index| config.zones[index as usize].kind <= highest);
            word.set(first.unwrap_or(NO_ZONE));
        }
    }
}

/// The fast path's tables: for each kind the first zone, if it is the same for all CPUs; and the largest zone. Empty if
/// the rules have no fast path.
pub(crate) fn common_first_zones<'a, M: Machine>(
    zones: &'a [CachedZone<'a, M>],
    firsts: &[AtomicU32],
    tuning: &Tuning,
) -> [Option<&'a CachedZone<'a, M>>; ZoneKind::COUNT] {
    let common = |kind: ZoneKind| {
        let mut of_cpus = firsts.chunks_exact(ZoneKind::COUNT).map(|row| row[kind.index()].get());
        let first = of_cpus.next()?;
        if of_cpus.all(|other| other == first) { zones.get(first as usize) } else { None }
    };
    if !tuning.has_fast_path() {
        return Default::default();
    }
    ZoneKind::ALL.map(common)
}

/// Stands for no zone.
const NO_ZONE: u32 = u32::MAX;

/// The node that follows `last` in the order of [`rank`].
fn nearest(config: &Config<'_>, local: usize, last: Option<usize>) -> Option<usize> {
    let rank = |node: usize| rank(config, local, node);
    (0..config.nodes()).filter(|&node| last.is_none_or(|last| rank(node) > rank(last))).min_by_key(|&node| rank(node))
}

/// A node's rank in the zonelist of `local`: by distance, then by its number counted from `local` on.
fn rank(config: &Config<'_>, local: usize, node: usize) -> (bool, u8, usize) {
    let nodes = config.nodes();
    let distance = config.distances.get(local * nodes + node).copied().unwrap_or(0);
    (node != local, distance, (node + nodes - local) % nodes)
}
