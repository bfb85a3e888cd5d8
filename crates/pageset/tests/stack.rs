//! The stack that the construction of an allocator needs.
#![cfg(target_os = "linux")]

use std::mem::{self, MaybeUninit};
use std::ptr;
use std::sync::Mutex;

use pageset::{Allocator, Config, CpuId, Machine, NodeId, PageRange, Pfn, SpinLock, ZoneKind, ZoneSpec};

#[derive(Debug)]
struct OneCpu;

impl Machine for OneCpu {
    type Lock = SpinLock;

    fn cpu(&self) -> CpuId {
        CpuId(0)
    }
}

/// The bytes of stack that `work` writes, on a thread whose stack is painted before.
fn stack_depth(work: fn()) -> usize {
    const PAINT: u64 = 0x57AC_57AC_57AC_57AC;
    #[repr(C, align(4096))]
    struct Page([u64; 512]);
    extern "C" fn main(work: *mut libc::c_void) -> *mut libc::c_void {
        let here = ptr::from_ref(&work).addr();
        // SAFETY: `stack_depth` passes a `fn()`.
        unsafe { mem::transmute::<*mut libc::c_void, fn()>(work)() };
        ptr::without_provenance_mut(here)
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
    here.addr() - stack.as_ptr() as usize - 8 * untouched
}

/// A kernel builds its allocator on the stack of a thread, of 16 KiB or less.
#[test]
fn an_allocator_is_built_on_4_kib_of_stack() {
    static BUILT: Mutex<Option<Allocator<'static, OneCpu>>> = Mutex::new(None);
    static MEMORY: Mutex<Option<&'static mut [MaybeUninit<u8>]>> = Mutex::new(None);
    fn build() {
        let ranges = [PageRange::new(Pfn(0), 1 << 16)];
        let zones = [ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span: ranges[0], ranges: &ranges }];
        let config = Config::new(&zones, const { &[NodeId(0); 64] });
        let memory = MEMORY.lock().expect("no panic").take().expect("memory");
        *BUILT.lock().expect("no panic") = Allocator::from_bytes(OneCpu, &config, memory).ok();
    }
    let bytes = 64 << 20;
    *MEMORY.lock().expect("no panic") = Some(Box::leak(vec![MaybeUninit::uninit(); bytes].into_boxed_slice()));
    let depth = stack_depth(build);
    println!("an allocator is built on {depth} bytes of stack");
    assert_eq!(
        BUILT.lock().expect("no panic").as_ref().expect("built").zone(0).expect("a zone").stats().managed,
        1 << 16
    );
    assert!(depth <= 4096, "the construction used {depth} bytes of stack");
}
