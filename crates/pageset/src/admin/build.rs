//! An allocator built from a configuration and its metadata.

use core::sync::atomic::AtomicU32;

use crate::alloc::config::{Config, FreeCheck, MapError, Metadata, ZoneLayout, ZoneMetadata};
use crate::alloc::sections::Sections;
use crate::alloc::{Allocator, CpuSet, Rules, fast, zonelist};
use crate::frame::{CpuId, Frames, Links, ZoneKind};
use crate::machine::{LockPath, Machine};
use crate::pcp::CachedZone;
use crate::sync::LockedWord;
use crate::sync::atomic::AtomicBool;
use crate::zone::{CHECKED, LOOK_UP_ZONE, NO_FAST_PATH};

/// Cuts `len` elements off the front of a slice, or all if there are fewer.
fn cut<'a, T>(rest: &mut &'a [T], len: usize) -> &'a [T] {
    debug_assert!(len <= rest.len(), "{len} of {} elements", rest.len());
    let (front, back) = rest.split_at(len.min(rest.len()));
    *rest = back;
    front
}

impl<'a, M: Machine> Allocator<'a, M> {
    /// Builds an allocator and brings the map's ranges online. Writes only the tags of the ranges' largest aligned
    /// blocks. The configuration need not outlive this call.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/allocator.rs"));
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let zones = [ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span: ZONE, ranges: &[ZONE] }];
    /// let config = Config::new(&zones, &[NodeId(0)]);
    /// let memory = pageset::alloc::owned::OwnedMetadata::new(&config)?;
    /// let mut zones = memory.zones();
    /// let allocator = Allocator::new(Kernel, &config, memory.lend(&mut zones))?;
    /// assert_eq!(allocator.zones().len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// A fault of the map, the rules or the size of the metadata. Nothing has been written then.
    // Not inlined: its frame would be on the stack below its caller's other calls.
    #[inline(never)]
    pub fn new(machine: M, config: &Config<'_>, metadata: Metadata<'a, M>) -> Result<Self, MapError> {
        let size = config.metadata_size()?;
        let tuning = config.rules();
        check_len(None, "words", metadata.words.len(), size.words)?;
        check_len(None, "zones", metadata.zones.len(), size.zones)?;
        for (number, zone) in metadata.zones.iter().enumerate() {
            let (given, size) = (zone.metadata(), config.zone_metadata_size(number)?);
            check_len(Some(number), "tags", given.tags.len(), size.tags)?;
            check_len(Some(number), "words", given.words.len(), size.words)?;
            check_len(Some(number), "pagesets", given.pagesets.len(), size.pagesets)?;
            check_len(Some(number), "regions", given.regions.len(), size.regions)?;
        }

        let mut words = metadata.words;
        let zonelists = cut(&mut words, config.nodes() * config.zones.len());
        zonelist::build(config, zonelists);
        let first_zones = cut(&mut words, config.cpus.len() * ZoneKind::COUNT);
        zonelist::build_firsts(config, zonelists, first_zones);
        let nodes = cut(&mut words, config.cpus.len());
        nodes.iter().zip(config.cpus).for_each(|(word, node)| word.set(node.0));
        let online = CpuSet::empty(cut(&mut words, CpuSet::words(config.cpus.len())));
        if config.online_cpus.is_empty() {
            (0..config.cpus.len()).for_each(|cpu| online.change(CpuId(cpu as u32), true));
        } else {
            config.online_cpus.iter().for_each(|&cpu| online.change(cpu, true));
        }
        let sections = Sections::build(config.spans(), cut(&mut words, Sections::words(config.spans())));
        for (index, (zone, spec)) in metadata.zones.iter_mut().zip(config.zones).enumerate() {
            let ZoneLayout { base, tags: pages, types, links, capacity, array, stores } = config.layout(spec)?;
            let ZoneMetadata { mut tags, mut words, pagesets, regions } = zone.metadata();
            zone.shared.index = index;
            zone.shared.node = spec.node;
            zone.shared.kind = spec.kind;
            zone.shared.highatomic = tuning.highatomic;
            zone.shared.flags.set(CHECKED, config.free_check != FreeCheck::Basic);
            zone.shared.flags.set(NO_FAST_PATH, !tuning.has_fast_path());
            zone.shared.flags.set(LOOK_UP_ZONE, config.zones.len() > 1 || spec.kind > ZoneKind::Normal);
            zone.shared.boost_factor = config.watermarks.boost_factor;
            zone.shared.frames = Frames {
                base,
                first: (spec.span.start.0 - base.0) as u32,
                end: (spec.span.end().0 - base.0) as u32,
                tags: cut(&mut tags, pages),
                types: cut(&mut tags, types),
                links: Links(cut(&mut words, links)),
            };
            if config.pageset_capacity > 0 {
                zone.shares.limit(capacity);
            }
            zone.arrays = cut(&mut words, array * config.cpus.len());
            stores.place(&mut zone.shared, words);
            let sharers = config.sharers(spec.node) as usize;
            let mut rank = 0;
            for (cpu, pageset) in pagesets.iter().enumerate() {
                pageset.place(
                    CpuId(cpu as u32),
                    (cpu * array) as u32,
                    array as u32,
                    capacity,
                    rank % sharers * regions.len() / sharers,
                );
                rank += usize::from(config.cpus[cpu] == spec.node || sharers == pagesets.len());
            }
        }
        let rules = Rules {
            nodes,
            online,
            watermarks: config.watermarks,
            cache_slice_pages: config.cache_slice_pages,
            fraction: AtomicU32::new(config.high_fraction),
        };
        let zones: &'a [CachedZone<'a, M>] = metadata.zones;
        let front_zone = zones.first().ok_or(MapError::Zones { zones: 0 })?;
        let common_first_zones = zonelist::common_first_zones(zones, first_zones, &tuning);
        let allocator = Allocator {
            machine,
            zones,
            zonelists,
            first_zones,
            front_zone,
            common_first_zones,
            only_zone: if let [only] = zones { Some(only) } else { None },
            sections,
            has_fast_path: tuning.has_fast_path(),
            lists: fast::list_table(tuning.lists),
            checks_bulk: config.free_check == FreeCheck::All,
            tuning,
            rules,
            changes: M::Lock::default(),
            draining: AtomicBool::new(false),
            onlining: AtomicBool::new(false),
        };
        for (zone, spec) in allocator.zones.iter().zip(config.zones) {
            for range in spec.ranges {
                let first = (range.start.0 - zone.frames().base.0) as u32;
                let pages = first..first + range.pages as u32;
                for (guard, pages) in zone.shared.lock_each(allocator.env(), LockPath::Map, pages, u32::MAX) {
                    guard.online(pages.start, pages.len() as u64);
                }
            }
        }
        allocator.recompute();
        Ok(allocator)
    }
}

fn check_len(zone: Option<usize>, part: &'static str, given: usize, expected: usize) -> Result<(), MapError> {
    if given == expected { Ok(()) } else { Err(MapError::Metadata { zone, part, given, expected }) }
}
