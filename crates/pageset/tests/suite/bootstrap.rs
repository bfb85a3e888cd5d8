//! An allocator without a heap: static parts, metadata in given memory, CPUs that come later.

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU8, AtomicU32};

use crate::support::{Known, TestMachine, movable};
use pageset::pcp::Pageset;
use pageset::{
    Allocator, CachedZone, Config, CpuId, MapError, Metadata, NodeId, Order, PageRange, Pfn, Region, SpinLock,
    ZoneKind, ZoneMetadata, ZoneSpec,
};

fn range(start: u64, pages: u64) -> PageRange {
    PageRange::new(Pfn(start), pages)
}

fn zone(node: u32, kind: ZoneKind, span: PageRange, ranges: &[PageRange]) -> ZoneSpec<'_> {
    ZoneSpec { node: NodeId(node), kind, span, ranges }
}

/// All parts of an allocator have constant values, so a kernel can have them in its image.
#[test]
fn static_metadata() {
    static TAGS: [AtomicU8; 1 << 13] = [const { AtomicU8::new(0) }; 1 << 13];
    static WORDS: [AtomicU32; 1 << 16] = [const { AtomicU32::new(0) }; 1 << 16];
    static REGIONS: [Region<SpinLock>; 1] = [Region::new(SpinLock::new())];
    static PAGESETS: [Pageset<SpinLock>; 2] = [const { Pageset::new(SpinLock::new()) }; 2];
    let ranges = [range(0, 4096)];
    let zones = [zone(0, ZoneKind::Normal, ranges[0], &ranges)];
    let config = Config::new(&zones, &[NodeId(0); 2]);
    let (common, size) = (config.metadata_size().expect("valid"), config.zone_metadata_size(0).expect("valid"));
    let (words, rest) = WORDS.split_at(common.words);
    let metadata = ZoneMetadata {
        tags: &TAGS[..size.tags],
        words: &rest[..size.words],
        pagesets: &PAGESETS,
        regions: &REGIONS[..size.regions],
    };
    let mut zones = [CachedZone::new(metadata)];
    let world = Allocator::new(TestMachine::default(), &config, Metadata { words, zones: &mut zones }).expect("valid");
    let pfn = world.alloc(&movable(3)).expect("memory");
    world.free(pfn, Order::new(3).expect("an order")).expect("allocated");
    world.at(0).audit().expect("the audit passes");
}

/// All metadata in one piece of memory, wherever it begins: exactly as much as the configuration says is enough, and a byte
/// less is an error.
#[test]
fn metadata_in_bytes() {
    let bytes = {
        let ranges = [range(0, 4096), range(8192, 4096)];
        let zones =
            [zone(0, ZoneKind::Dma32, ranges[0], &ranges[..1]), zone(1, ZoneKind::Normal, ranges[1], &ranges[1..])];
        // The configuration is gone when the allocator is used.
        let config = Config::new(&zones, &[NodeId(0), NodeId(1), NodeId(1)]);
        let bytes = config.metadata_bytes::<TestMachine>().expect("the map is valid");
        let memory = |len| Box::leak(vec![MaybeUninit::uninit(); len].into_boxed_slice());
        let error = Allocator::from_bytes(TestMachine::default(), &config, memory(bytes - 1)).expect_err("one less");
        assert_eq!(error, MapError::Metadata { zone: None, part: "bytes", given: bytes - 1, expected: bytes });
        for start in 0..130 {
            let memory = &mut memory(bytes + start)[start..];
            let world = Allocator::from_bytes(TestMachine::default(), &config, memory).expect("enough");
            assert_eq!(world.at(1).stats().managed, 4096);
        }
        // A piece of memory for each zone.
        let size = |zone| config.zone_metadata_bytes::<TestMachine>(zone).expect("the map is valid");
        assert!(size(0) + size(1) < bytes + 256, "alignment adds little");
        let error = config.zone_metadata_bytes::<TestMachine>(2).expect_err("no such zone");
        assert_eq!(error.to_string(), "the map has no zone 2; allowed: below 2");
        for start in 0..130 {
            let memory = |zone, bytes| {
                assert_eq!(bytes, size(zone));
                &mut memory(bytes + start)[start..]
            };
            let world = Allocator::from_zone_bytes(TestMachine::default(), &config, memory).expect("enough");
            assert_eq!(world.at(1).stats().managed, 4096);
        }
        for short in 0..2 {
            let memory = |zone, bytes| memory(bytes - usize::from(zone == short));
            let error = Allocator::from_zone_bytes(TestMachine::default(), &config, memory).expect_err("one less");
            let (given, expected) = (size(short) - 1, size(short));
            assert_eq!(error, MapError::Metadata { zone: Some(short), part: "bytes", given, expected });
        }
        Allocator::from_bytes(TestMachine::default(), &config, memory(bytes)).expect("enough")
    };
    let pfn = bytes.alloc(&movable(0)).expect("memory");
    bytes.free(pfn, Order::ZERO).expect("allocated");
    for zone in 0..2 {
        bytes.at(zone).audit().expect("the audit passes");
    }
}

/// CPUs that start offline: their pagesets keep nothing until they come, and the others share all.
#[test]
fn cpus_that_are_not_online_from_the_start() {
    let ranges = [range(0, 1 << 16)];
    let zones = [zone(0, ZoneKind::Normal, ranges[0], &ranges)];
    let cpus = [NodeId(0); 4];
    let config = Config::new(&zones, &cpus);
    let error = Config { online_cpus: &[CpuId(1), CpuId(4)], ..config }.metadata_size().expect_err("no such CPU");
    assert_eq!(error, MapError::NoSuchCpu { cpu: CpuId(4), possible: 4 });
    assert_eq!(error.to_string(), "CPU 4 is to be online from the start; possible: CPUs 0 to 3");
    let build = |online_cpus: &[CpuId]| {
        let config = Config { online_cpus, ..config };
        let bytes = config.metadata_bytes::<TestMachine>().expect("the map is valid");
        let memory = Box::leak(vec![MaybeUninit::uninit(); bytes].into_boxed_slice());
        Allocator::from_bytes(TestMachine::default(), &config, memory).expect("enough")
    };
    let (all, one) = (build(&[]), build(&[CpuId(1)]));
    let online =
        |world: &Allocator<'_, TestMachine>| (0..4).map(|cpu| world.is_cpu_online(CpuId(cpu))).collect::<Vec<_>>();
    assert_eq!(online(&all), [true; 4]);
    assert_eq!(online(&one), [false, true, false, false]);
    assert_eq!(one.pageset(0, CpuId(0)).state().high_max, 0);
    assert!(one.pageset(0, CpuId(1)).state().high_max > all.pageset(0, CpuId(1)).state().high_max);
    for cpu in [0, 3, 2] {
        one.cpu_online(CpuId(cpu)).expect("it was offline");
    }
    for cpu in 0..4 {
        assert_eq!(one.pageset(0, CpuId(cpu)).state(), all.pageset(0, CpuId(cpu)).state());
    }
}
