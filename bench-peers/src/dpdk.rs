//! DPDK's mempool: objects of one size, no orders, a cache of 512 objects per thread.

use std::ffi::{c_int, c_uint, c_void};
use std::hint::black_box;
use std::ptr::{self, NonNull};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use pageset_bench::{Entry, Pages, Pattern, Refusal};

#[repr(C)]
struct Pool {
    _opaque: [u8; 0],
}

unsafe extern "C" {
    safe fn peer_dpdk_start() -> c_int;
    safe fn peer_dpdk_pool(objects: c_uint, number: c_uint) -> *mut Pool;
    fn peer_dpdk_end(pool: *mut Pool);
    safe fn peer_dpdk_enter() -> c_int;
    fn peer_dpdk_leave(pool: *mut Pool);
    fn peer_dpdk_get(pool: *mut Pool, objects: *mut *mut c_void, count: c_uint) -> c_int;
    fn peer_dpdk_put(pool: *mut Pool, objects: *const *mut c_void, count: c_uint);
}

struct Mempool(NonNull<Pool>);

// SAFETY: DPDK's pools are thread-safe.
unsafe impl Send for Mempool {}
// SAFETY: as above.
unsafe impl Sync for Mempool {}

impl Drop for Mempool {
    fn drop(&mut self) {
        // SAFETY: this value owns the pool, and no user of the pool is left.
        unsafe { peer_dpdk_end(self.0.as_ptr()) };
    }
}

/// A registered thread with its own cache, and its buffer for bulk calls.
struct Member {
    pool: *mut Pool,
    objects: Vec<*mut c_void>,
}

impl Drop for Member {
    fn drop(&mut self) {
        // SAFETY: the pool outlives its members, and this thread is registered.
        unsafe { peer_dpdk_leave(self.pool) };
    }
}

/// Largest number of objects per call.
const MAX_OBJECTS: usize = 512;

impl Pages for Mempool {
    type Local = Member;

    fn local(&self, _thread: usize) -> Member {
        assert_eq!(peer_dpdk_enter(), 0, "cannot register another thread with DPDK");
        Member { pool: self.0.as_ptr(), objects: vec![ptr::null_mut(); MAX_OBJECTS] }
    }

    #[inline(always)]
    fn get(&self, _: &mut Member) -> u64 {
        let mut object = ptr::null_mut();
        // SAFETY: the pool is alive, and `object` has room for one pointer.
        let failed = unsafe { peer_dpdk_get(self.0.as_ptr(), &raw mut object, 1) };
        assert_eq!(failed, 0, "out of objects");
        object.expose_provenance() as u64
    }

    #[inline(always)]
    fn put(&self, _: &mut Member, page: u64) {
        let object = ptr::with_exposed_provenance_mut(page as usize);
        // SAFETY: `get` returned it, and it is freed once.
        unsafe { peer_dpdk_put(self.0.as_ptr(), &raw const object, 1) };
    }

    #[inline(always)]
    fn take_and_give(&self, member: &mut Member, pages: &mut [u64]) {
        let objects = &mut member.objects[..pages.len()];
        // SAFETY: the pool is alive, and `objects` has room for this many pointers.
        let failed = unsafe { peer_dpdk_get(member.pool, objects.as_mut_ptr(), objects.len() as c_uint) };
        assert_eq!(failed, 0, "out of objects");
        let objects = black_box(objects);
        // SAFETY: the pool returned them, and they are freed once.
        unsafe { peer_dpdk_put(member.pool, objects.as_ptr(), objects.len() as c_uint) };
    }
}

/// Starts DPDK once. Returns 0 or its error number.
fn start() -> i32 {
    static STARTED: OnceLock<i32> = OnceLock::new();
    *STARTED.get_or_init(|| peer_dpdk_start())
}

pub(crate) fn entries() -> Vec<Entry> {
    // Pool names must be unique.
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    vec![Entry {
        name: "dpdk mempool",
        make: |pattern, threads| {
            if pattern.order() > 0 || matches!(pattern, Pattern::Half | Pattern::Old(_)) {
                return Err(Refusal::NotOffered);
            }
            let failed = |what: &str, error: i32| {
                Refusal::Failed(format!("{what}: {}", std::io::Error::from_raw_os_error(error)))
            };
            match start() {
                0 => {}
                error => return Err(failed("DPDK did not start", error)),
            }
            let pool = peer_dpdk_pool(pattern.pages(threads) as c_uint, NUMBER.fetch_add(1, Ordering::Relaxed));
            let pool = NonNull::new(pool).ok_or_else(|| Refusal::Failed("no mempool of that size".to_owned()))?;
            Ok(Box::new(Mempool(pool)))
        },
    }]
}
