//! An allocator built from a configuration and its metadata.

use core::sync::atomic::AtomicU32;

use crate::alloc::config::{Config, FreeCheck, MapError, Metadata, ZoneLayout};
use crate::alloc::{Allocator, CpuSet, Rules, fast, zonelist};
use crate::buddy::Clusters;
use crate::frame::{Frames, Links, ZoneKind};
use crate::machine::{LockPath, Machine};
use crate::pcp::CachedZone;
use crate::sync::atomic::AtomicBool;
use crate::zone::{CHECKED, NO_FAST_PATH};

/// Cuts `len` elements off the front of a slice, or all if there are fewer.
fn cut<'a, T>(rest: &mut &'a [T], len: usize) -> &'a [T] {
    let (front, back) = rest.split_at(len.min(rest.len()));
    *rest = back;
    front
}

impl<'a, M: Machine> Allocator<'a, M> {
    /// Builds an allocator and brings the map's ranges online. Writes only the tags of the ranges' largest aligned
    /// blocks.
    ///
    /// # Errors
    /// A fault of the map, the rules or the size of the metadata. Nothing has been written then.
    pub fn new(machine: M, config: &Config<'a>, metadata: Metadata<'a, M>) -> Result<Self, MapError> {
        let size = config.metadata_size()?;
        check_len("tags", metadata.tags.len(), size.tags)?;
        check_len("words", metadata.words.len(), size.words)?;
        check_len("pagesets", metadata.pagesets.len(), size.pagesets)?;
        check_len("zones", metadata.zones.len(), size.zones)?;

        let (mut tags, mut words, mut pagesets) = (metadata.tags, metadata.words, metadata.pagesets);
        let zonelists = cut(&mut words, config.nodes() * config.zones.len());
        zonelist::build(config, zonelists);
        let first_zones = cut(&mut words, config.cpus.len() * ZoneKind::COUNT);
        zonelist::build_firsts(config, zonelists, first_zones);
        let online = CpuSet::all(cut(&mut words, CpuSet::words(config.cpus.len())), config.cpus.len());
        for (index, (zone, spec)) in metadata.zones.iter_mut().zip(config.zones).enumerate() {
            let ZoneLayout { base, tags: pages, types, links, capacity, array, clusters, batch } =
                config.layout(spec)?;
            zone.shared.index = index;
            zone.shared.node = spec.node;
            zone.shared.kind = spec.kind;
            zone.shared.highatomic = config.tuning.highatomic;
            zone.shared.flags.set(CHECKED, config.free_check != FreeCheck::Basic);
            zone.shared.flags.set(NO_FAST_PATH, !config.tuning.has_fast_path());
            zone.shared.boost_factor = config.watermarks.boost_factor;
            zone.shared.buddy.zone = index;
            zone.shared.buddy.frames = Frames {
                base,
                first: (spec.span.start.0 - base.0) as u32,
                end: (spec.span.end().0 - base.0) as u32,
                tags: cut(&mut tags, pages),
                types: cut(&mut tags, types),
                links: Links(cut(&mut words, links)),
            };
            zone.shared.buddy.clusters = Clusters::new(cut(&mut words, clusters), pages, batch);
            zone.arrays = cut(&mut words, array * config.cpus.len());
            zone.pagesets = cut(&mut pagesets, config.cpus.len());
            for (cpu, pageset) in zone.pagesets.iter().enumerate() {
                pageset.place((cpu * array) as u32, capacity);
            }
        }
        let rules = Rules {
            cpus: config.cpus,
            online,
            watermarks: config.watermarks,
            cache_slice_pages: config.cache_slice_pages,
            fraction: AtomicU32::new(config.high_fraction),
        };
        let zones: &'a [CachedZone<'a, M>] = metadata.zones;
        let common_first_zones = zonelist::common_first_zones(zones, first_zones, &config.tuning);
        let Some(preferred_zone) = zones.iter().max_by_key(|zone| zone.frames().spanned()) else {
            return Err(MapError::Zones { zones: 0 });
        };
        let allocator = Allocator {
            machine,
            zones,
            zonelists,
            first_zones,
            common_first_zones,
            preferred_zone,
            has_fast_path: config.tuning.has_fast_path(),
            lists: fast::list_table(config.tuning.lists),
            checks_bulk: config.free_check == FreeCheck::All,
            tuning: config.tuning,
            rules,
            changes: M::Lock::default(),
            draining: AtomicBool::new(false),
            onlining: AtomicBool::new(false),
        };
        for (zone, spec) in allocator.zones.iter().zip(config.zones) {
            for range in spec.ranges {
                let guard = zone.shared.lock(allocator.env(), LockPath::Map);
                guard.online((range.start.0 - guard.frames.base.0) as u32, range.pages);
            }
        }
        allocator.recompute();
        Ok(allocator)
    }
}

fn check_len(part: &'static str, given: usize, expected: usize) -> Result<(), MapError> {
    if given == expected { Ok(()) } else { Err(MapError::Metadata { part, given, expected }) }
}
