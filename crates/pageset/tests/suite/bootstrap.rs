//! An allocator without a heap: static parts, metadata in given memory, CPUs that come later.

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU8, AtomicU32};
use std::sync::{Mutex, OnceLock};

use crate::support::{TestMachine, movable};
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
    world.audit(0).expect("the audit passes");
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
            assert_eq!(world.zone_stats(1).managed, 4096);
        }
        Allocator::from_bytes(TestMachine::default(), &config, memory(bytes)).expect("enough")
    };
    let pfn = bytes.alloc(&movable(0)).expect("memory");
    bytes.free(pfn, Order::ZERO).expect("allocated");
    for zone in 0..2 {
        bytes.audit(zone).expect("the audit passes");
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
    assert_eq!(one.pageset_state(0, CpuId(0)).high_max, 0);
    assert!(one.pageset_state(0, CpuId(1)).high_max > all.pageset_state(0, CpuId(1)).high_max);
    for cpu in [0, 3, 2] {
        one.cpu_online(CpuId(cpu)).expect("it was offline");
    }
    for cpu in 0..4 {
        assert_eq!(one.pageset_state(0, CpuId(cpu)), all.pageset_state(0, CpuId(cpu)));
    }
}

/// The bytes of stack that `work` writes, on a thread whose stack is painted before.
#[cfg(target_os = "linux")]
fn stack_depth(work: fn()) -> usize {
    use std::{mem, ptr};

    const PAINT: u64 = 0x57AC_57AC_57AC_57AC;
    #[repr(C, align(4096))]
    struct Page([u64; 512]);
    extern "C" fn main(work: *mut libc::c_void) -> *mut libc::c_void {
        let here = ptr::from_ref(&work).cast_mut();
        // SAFETY: `stack_depth` passes a `fn()`.
        unsafe { mem::transmute::<*mut libc::c_void, fn()>(work)() };
        here.cast()
    }
    let stack: Vec<Page> = (0..64).map(|_| Page([PAINT; 512])).collect();
    let (mut thread, mut here) = (0, ptr::null_mut());
    // SAFETY: the stack belongs to the thread until it has ended. The attributes live as long as they are used.
    unsafe {
        let mut attributes = mem::zeroed();
        assert_eq!(libc::pthread_attr_init(&mut attributes), 0);
        let start = stack.as_ptr().cast_mut().cast();
        assert_eq!(libc::pthread_attr_setstack(&mut attributes, start, size_of_val(&stack[..])), 0);
        assert_eq!(libc::pthread_create(&mut thread, &attributes, main, work as *mut _), 0);
        assert_eq!(libc::pthread_join(thread, &mut here), 0);
    }
    let untouched = stack.iter().flat_map(|page| page.0).take_while(|&word| word == PAINT).count();
    here as usize - stack.as_ptr() as usize - 8 * untouched
}

/// A kernel builds its allocator on the stack of a thread, of 16 KiB or less.
#[cfg(target_os = "linux")]
#[test]
fn an_allocator_is_built_on_4_kib_of_stack() {
    static BUILT: OnceLock<Allocator<'static, TestMachine>> = OnceLock::new();
    static MEMORY: Mutex<Option<&'static mut [MaybeUninit<u8>]>> = Mutex::new(None);
    fn build() {
        let ranges = [range(0, 1 << 16)];
        let zones = [zone(0, ZoneKind::Normal, ranges[0], &ranges)];
        let config = Config::new(&zones, const { &[NodeId(0); 64] });
        let memory = MEMORY.lock().expect("no panic").take().expect("memory");
        let world = Allocator::from_bytes(TestMachine::default(), &config, memory).expect("enough");
        BUILT.set(world).expect("built once");
    }
    let bytes = 64 << 20;
    *MEMORY.lock().expect("no panic") = Some(Box::leak(vec![MaybeUninit::uninit(); bytes].into_boxed_slice()));
    let depth = stack_depth(build);
    println!("an allocator is built on {depth} bytes of stack");
    assert_eq!(BUILT.get().expect("built").zone_stats(0).managed, 1 << 16);
    assert!(depth <= 4096, "the construction used {depth} bytes of stack");
}
