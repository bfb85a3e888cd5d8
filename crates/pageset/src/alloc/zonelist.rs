//! Zonelists: in which order the zones of which nodes are tried.
//!
//! Specification: `linux-page-allocator.md` 1.1.

use core::sync::atomic::AtomicU32;

use crate::alloc::config::Config;
use crate::frame::{NodeId, ZoneKind};
use crate::machine::Machine;
use crate::pcp::CachedZone;
use crate::policy::Tuning;
use crate::sync::Held;

/// Writes the zonelist of every node: nodes by rising distance, the local one first, ties to the nodes after us;
/// within a node zones from the highest to the lowest. `lists` has a row of all zones for each node.
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

/// Writes for every CPU and kind of zone the first zone that a request for at most that kind tries, or [`NO_ZONE`]:
/// `firsts` has a row of all kinds for each CPU. `lists` is as [`build`] leaves it.
pub(crate) fn build_firsts(config: &Config<'_>, lists: &[AtomicU32], firsts: &[AtomicU32]) {
    let zones = config.zones.len();
    for (row, node) in firsts.chunks_exact(ZoneKind::COUNT).zip(config.cpus) {
        let list = &lists[node.0 as usize * zones..][..zones];
        for (word, highest) in row.iter().zip(ZoneKind::ALL) {
            let first = list.iter().map(Held::get).find(|&index| config.zones[index as usize].kind <= highest);
            word.set(first.unwrap_or(NO_ZONE));
        }
    }
}

/// What the fast path looks up by the kind alone: the first zone that all CPUs try for it, where that is the same; and the
/// largest zone. Nothing where the fast path does not know the rules.
pub(crate) fn common_first_zones<'a, M: Machine>(
    zones: &'a [CachedZone<'a, M>],
    firsts: &[AtomicU32],
    tuning: &Tuning,
) -> ([Option<&'a CachedZone<'a, M>>; ZoneKind::COUNT], Option<&'a CachedZone<'a, M>>) {
    let common = |kind: ZoneKind| {
        let mut of_cpus = firsts.chunks_exact(ZoneKind::COUNT).map(|row| row[kind.index()].get());
        let first = of_cpus.next()?;
        if of_cpus.all(|other| other == first) { zones.get(first as usize) } else { None }
    };
    if !tuning.has_fast_path() {
        return Default::default();
    }
    (ZoneKind::ALL.map(common), zones.iter().max_by_key(|zone| zone.frames().spanned()))
}

/// Stands for no zone.
const NO_ZONE: u32 = u32::MAX;

/// The nearest node that is farther than `last` in the order of [`rank`].
fn nearest(config: &Config<'_>, local: usize, last: Option<usize>) -> Option<usize> {
    let rank = |node: usize| rank(config, local, node);
    (0..config.nodes()).filter(|&node| last.is_none_or(|last| rank(node) > rank(last))).min_by_key(|&node| rank(node))
}

/// How late a node comes: by distance, then by how far it is after us in number.
fn rank(config: &Config<'_>, local: usize, node: usize) -> (bool, u8, usize) {
    let nodes = config.nodes();
    let distance = config.distances.get(local * nodes + node).copied().unwrap_or(0);
    (node != local, distance, (node + nodes - local) % nodes)
}
