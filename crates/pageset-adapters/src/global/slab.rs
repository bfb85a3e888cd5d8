//! Slabs: blocks of pages with objects of one size class.
//!
//! A slab begins with a header, and its objects lie at its end. A freed object holds the link of the list of free objects.
//! Each CPU has a list of slabs for each class, behind a lock of its own: threads on other CPUs take that lock only to free.
//! An object finds its slab through its address, since blocks are aligned to their size.
//!
//! # Crates that were considered
//!
//! | crate | why not |
//! | --- | --- |
//! | `slabmalloc` 0.11 | `deallocate` takes `&mut self`, so each free needs one lock for all classes; powers of two only; objects above 256 bytes come from pages of 2 MiB |
//! | `rlsf` | returns no pages |
//! | `snmalloc-rs` | brings its own pages |

use core::cell::UnsafeCell;
use core::ptr::NonNull;
use std::boxed::Box;

use pageset::RawLock;
use pageset_host::lock::HostLock;
use pageset_host::topology::possible_cpus;
use pageset_host::{CpuNumber, Order, PAGE_BYTES};

use super::classes::{COUNT, Class};

/// The order of a slab: 3, the largest small order that the pool caches for each CPU. A slab of 32 KiB holds 15 of the largest
/// objects.
const SLAB_ORDER: Order = match Order::new(3) {
    Some(order) => order,
    None => Order::ZERO,
};
/// Bytes of a slab.
const SLAB_BYTES: usize = PAGE_BYTES << SLAB_ORDER.get();
/// The largest number of CPUs with lists of their own. CPUs above it share them. A guess that bounds the lists to 96 KiB.
const MAX_SHARDS: u32 = 256;

/// A freed object: the next one of its slab.
type Free = Option<NonNull<Link>>;

struct Link(Free);

/// The header of a slab.
struct Slab {
    /// The index of the lists that the slab belongs to. Never changes, so a free reads it before it has a lock.
    shard: u32,
    /// Accessed with the lock of the slab's list held.
    room: UnsafeCell<Room>,
}

/// The state of a slab.
#[derive(Default)]
struct Room {
    /// The neighbours in the list of slabs with room. A full slab is in no list.
    next: Option<NonNull<Slab>>,
    previous: Option<NonNull<Slab>>,
    free: Free,
    /// Objects that were allocated at least once, from the end of the slab on. The pages of the others are not touched.
    carved: u32,
    in_use: u32,
}

impl Room {
    /// Whether all objects of a class are in use.
    fn is_full(&self, class: Class) -> bool {
        self.free.is_none() && self.carved == capacity(class)
    }
}

/// The slabs of one CPU and one class that have room.
#[derive(Default)]
struct List {
    lock: HostLock,
    first: UnsafeCell<Option<NonNull<Slab>>>,
}

// SAFETY: the slabs of the list are only accessed with its lock held.
unsafe impl Sync for List {}
// SAFETY: slabs belong to no thread.
unsafe impl Send for List {}

/// The lists of one CPU, apart from those of others.
#[derive(Default)]
#[repr(align(128))]
struct Shard([List; COUNT]);

/// All slabs.
pub(super) struct Slabs {
    cpu: CpuNumber,
    shards: Box<[Shard]>,
}

impl Slabs {
    pub(super) fn new() -> Slabs {
        let shards = (0..possible_cpus().clamp(1, MAX_SHARDS)).map(|_| Shard::default()).collect();
        Slabs { cpu: CpuNumber::find(), shards }
    }

    /// Allocates an object. `new_block` allocates a block of pages; no lock is held then.
    #[inline]
    pub(super) fn alloc(
        &self,
        class: Class,
        new_block: impl FnOnce(Order) -> Option<NonNull<u8>>,
    ) -> Option<NonNull<u8>> {
        let shard = self.cpu.get() as usize % self.shards.len();
        let list = &self.shards[shard].0[class.index()];
        if let Some(object) = list.locked(|first| take(first, class)) {
            return Some(object);
        }
        let slab = new_block(SLAB_ORDER)?.cast::<Slab>();
        let header = Slab { shard: shard as u32, room: UnsafeCell::default() };
        // SAFETY: the block is new, so nothing else refers to it, and it is aligned and large enough.
        unsafe { slab.write(header) };
        list.locked(|first| {
            // SAFETY: the lock is held, and the slab is in no list.
            unsafe { push(first, slab) };
            take(first, class)
        })
    }

    /// Frees an object. `free_block` frees the block of a slab without objects; no lock is held then.
    ///
    /// # Safety
    /// The caller owns the object, which [`Self::alloc`] allocated for this class.
    #[inline]
    pub(super) unsafe fn free(&self, class: Class, object: NonNull<u8>, free_block: impl FnOnce(NonNull<u8>, Order)) {
        let offset = object.addr().get() % SLAB_BYTES;
        // SAFETY: an object lies inside a slab, which is aligned to its size.
        let slab = unsafe { object.byte_sub(offset) }.cast::<Slab>();
        // SAFETY: the slab has an object in use, so it is alive.
        let shard = unsafe { slab.as_ref() }.shard;
        let list = &self.shards[shard as usize].0[class.index()];
        // SAFETY: the lock is held, and the caller owns the object of this slab.
        if list.locked(|first| unsafe { give(first, slab, object.cast(), class) }) {
            free_block(slab.cast(), SLAB_ORDER);
        }
    }
}

impl List {
    /// Runs `work`, which does not unwind, with the lock held.
    #[inline]
    fn locked<R>(&self, work: impl FnOnce(&mut Option<NonNull<Slab>>) -> R) -> R {
        self.lock.lock();
        // SAFETY: the lock is held, so this is the only reference.
        let result = work(unsafe { &mut *self.first.get() });
        self.lock.unlock();
        result
    }
}

/// The number of objects in a slab.
const fn capacity(class: Class) -> u32 {
    ((SLAB_BYTES - size_of::<Slab>()) / class.bytes()) as u32
}

/// The state of a slab.
///
/// # Safety
/// The slab is alive, the lock of its list is held until the reference ends, and there is no other reference to the state.
#[inline]
unsafe fn room<'l>(slab: NonNull<Slab>) -> &'l mut Room {
    // SAFETY: the caller's promise.
    unsafe { &mut *slab.as_ref().room.get() }
}

/// Takes an object of the first slab with room. The lock is held.
#[inline]
fn take(first: &mut Option<NonNull<Slab>>, class: Class) -> Option<NonNull<u8>> {
    let slab = (*first)?;
    // SAFETY: slabs in the list are alive, the lock is held, and `unlink` below comes after the last use.
    let state = unsafe { room(slab) };
    let object = match state.free {
        Some(link) => {
            // SAFETY: a freed object holds a link, and nothing else refers to it.
            state.free = unsafe { link.read() }.0;
            link.cast()
        }
        None => {
            state.carved += 1;
            // SAFETY: a slab in the list has room, so this offset is behind the header and inside the slab.
            unsafe { slab.cast::<u8>().byte_add(SLAB_BYTES - state.carved as usize * class.bytes()) }
        }
    };
    state.in_use += 1;
    if state.is_full(class) {
        // SAFETY: the lock is held, and the slab is in the list.
        unsafe { unlink(first, slab) };
    }
    Some(object)
}

/// Puts an object back. Returns true if the slab is empty and was taken out of the list: it is the caller's then.
///
/// # Safety
/// The lock of the slab's list is held, and the object is one in use of this slab.
#[inline]
unsafe fn give(first: &mut Option<NonNull<Slab>>, slab: NonNull<Slab>, object: NonNull<Link>, class: Class) -> bool {
    // SAFETY: a slab with an object in use is alive, and the lock is held.
    let state = unsafe { room(slab) };
    let was_full = state.is_full(class);
    // SAFETY: the caller owns the object, which has room for a link: the smallest class has 16 bytes.
    unsafe { object.write(Link(state.free)) };
    state.free = Some(object);
    state.in_use -= 1;
    let is_empty = state.in_use == 0;
    if was_full {
        // SAFETY: the lock is held, and a full slab is in no list.
        unsafe { push(first, slab) };
    }
    // The last slab stays, so that one object that comes and goes does not move pages.
    // SAFETY: as above.
    let is_last = *first == Some(slab) && unsafe { room(slab) }.next.is_none();
    if is_empty && !is_last {
        // SAFETY: the lock is held, and a slab with room is in the list.
        unsafe { unlink(first, slab) };
    }
    is_empty && !is_last
}

/// # Safety
/// The lock of the list is held, and the slab is alive and in no list.
unsafe fn push(first: &mut Option<NonNull<Slab>>, slab: NonNull<Slab>) {
    let next = first.replace(slab);
    // SAFETY: the caller's promise; slabs in the list are alive, and the two differ.
    unsafe {
        let state = room(slab);
        (state.next, state.previous) = (next, None);
        if let Some(next) = next {
            room(next).previous = Some(slab);
        }
    }
}

/// # Safety
/// The lock of the list is held, and the slab is in the list.
unsafe fn unlink(first: &mut Option<NonNull<Slab>>, slab: NonNull<Slab>) {
    // SAFETY: slabs in the list are alive, the lock is held, and a slab is not its own neighbour.
    unsafe {
        let (next, previous) = (room(slab).next, room(slab).previous);
        match previous {
            Some(previous) => room(previous).next = next,
            None => *first = next,
        }
        if let Some(next) = next {
            room(next).previous = previous;
        }
    }
}
