//! Tests of the adapter: what OSTD may ask for, next to the counters and the audit of the allocator.

extern crate alloc;

use alloc::vec::Vec;
use core::alloc::Layout;

use ostd::mm::frame::GlobalFrameAllocator;
use ostd::mm::{FrameAllocOptions, HasPaddr, PAGE_SIZE, Paddr};
use ostd::prelude::ktest;
use pageset_ostd::{NodeId, ZoneKind};

use super::{FRAMES, TOPOLOGY};

/// Pages in use, after an audit of all metadata.
fn in_use() -> u64 {
    FRAMES
        .with(|allocator| allocator.zones().map(|zone| zone.audit().expect("consistent metadata").in_use).sum())
        .expect("it is built")
}

/// Returns all pages of pagesets to the free lists.
fn drain() {
    FRAMES.with(|allocator| allocator.drain_all());
}

fn layout(pages: usize, align_pages: usize) -> Layout {
    Layout::from_size_align(pages * PAGE_SIZE, align_pages * PAGE_SIZE).expect("a layout")
}

fn alloc(pages: usize, align_pages: usize) -> Paddr {
    FRAMES.alloc(layout(pages, align_pages)).expect("memory")
}

#[ktest]
fn runs_of_any_size_and_alignment_come_back_in_pieces() {
    let before = in_use();
    for (pages, align) in [(1, 1), (3, 1), (3, 8), (7, 16), (100, 1), (1, 1024), (1500, 1), (2048, 2048), (3000, 4096)]
    {
        let start = alloc(pages, align);
        assert_eq!(start % (align * PAGE_SIZE), 0);
        assert_eq!(in_use(), before + pages as u64);
        // Every other page, then the rest: in other sizes than it was allocated.
        (0..pages).step_by(2).for_each(|page| FRAMES.dealloc(start + page * PAGE_SIZE, PAGE_SIZE));
        (1..pages).step_by(2).for_each(|page| FRAMES.dealloc(start + page * PAGE_SIZE, PAGE_SIZE));
        assert_eq!(in_use(), before);
    }
}

#[ktest]
fn free_memory_is_counted() {
    let before = FRAMES.free_bytes();
    let managed =
        FRAMES.with(|allocator| allocator.zones().map(|zone| zone.stats().managed).sum::<u64>()).expect("it is built");
    assert_eq!(before, (managed - in_use()) * PAGE_SIZE as u64);
    let start = alloc(3, 1);
    assert_eq!(FRAMES.free_bytes(), before - 3 * PAGE_SIZE as u64);
    FRAMES.dealloc(start, 3 * PAGE_SIZE);
    assert_eq!(FRAMES.free_bytes(), before);
}

#[ktest]
fn neighbours_come_back_in_one_call() {
    let before = in_use();
    let start = alloc(16, 16);
    FRAMES.dealloc(start + 3 * PAGE_SIZE, 2 * PAGE_SIZE);
    FRAMES.dealloc(start, 3 * PAGE_SIZE);
    FRAMES.dealloc(start + 5 * PAGE_SIZE, 11 * PAGE_SIZE);
    assert_eq!(in_use(), before);
}

/// The steps of Asterinas' test `buddy_set_insert_alloc`, on this allocator: blocks of 1, 1, 2, 4 and 8 pages, freed in
/// another order, are one block again.
#[ktest]
fn freed_blocks_merge() {
    drain();
    let region = alloc(16, 16);
    let parts = [(0, 1), (1, 1), (2, 2), (4, 4), (8, 8)];
    for part in [2, 0, 4, 1, 3] {
        let (start, pages) = parts[part];
        FRAMES.dealloc(region + start * PAGE_SIZE, pages * PAGE_SIZE);
    }
    drain();
    // The last freed block of its size is the first that is allocated; the region may also have merged with its neighbours.
    let again: Vec<Paddr> = (0..1024).map_while(|_| FRAMES.alloc(layout(16, 16))).collect();
    assert!(again.contains(&region));
    again.iter().for_each(|&start| FRAMES.dealloc(start, 16 * PAGE_SIZE));
}

#[ktest]
fn segments_split_into_frames() {
    let before = in_use();
    let segment = FrameAllocOptions::new().alloc_segment(37).expect("memory");
    assert_eq!(in_use(), before + 37);
    let mut frames: Vec<_> = segment.into_iter().collect();
    while frames.len() > 1 {
        frames.swap_remove(frames.len() / 2);
    }
    assert!(frames[0].paddr() > 0);
    drop(frames);
    // The vector's own memory may have added to a slab.
    assert!(in_use() <= before + 1);
}

#[ktest]
fn no_memory_is_none() {
    assert_eq!(FRAMES.alloc(layout(1 << 30, 1)), None);
    let before = in_use();
    let mut taken = Vec::with_capacity(1 << 12);
    while let Some(start) = FRAMES.alloc(layout(1024, 1024)) {
        taken.push(start);
    }
    assert!(!taken.is_empty());
    taken.iter().for_each(|&start| FRAMES.dealloc(start, 1024 * PAGE_SIZE));
    // The vector itself has 8 pages.
    assert!(in_use() <= before + 8);
}

#[ktest]
#[should_panic]
fn a_second_free_is_refused() {
    let start = alloc(1, 1);
    FRAMES.dealloc(start, PAGE_SIZE);
    FRAMES.dealloc(start, PAGE_SIZE);
}

#[ktest]
#[should_panic]
fn memory_outside_the_span_is_refused() {
    FRAMES.add_free_memory(1 << 45, PAGE_SIZE);
}

#[ktest]
fn zones_are_those_of_the_topology() {
    let zones: Vec<_> = FRAMES
        .with(|allocator| allocator.zones().map(|zone| (zone.stats().node, zone.stats().kind, zone.span())).collect())
        .expect("it is built");
    let [(node_a, kind_a, low), (node_b, kind_b, high), (node_c, kind_c, second)] = zones[..] else {
        panic!("{zones:?}")
    };
    assert_eq!([node_a, node_b, node_c], [NodeId(0), NodeId(0), NodeId(1)]);
    assert_eq!([kind_a, kind_b, kind_c], [ZoneKind::Dma32, ZoneKind::Normal, ZoneKind::Normal]);
    // The hole before 4 GiB is in no zone.
    assert!(low.end().address() < high.start.address() && high.start.address() == 4 << 30);
    assert_eq!(high.end(), second.start);
}

#[ktest]
fn frames_come_from_where_the_request_says() {
    let before = in_use();
    let low = FRAMES.alloc_below_4g(layout(8, 8)).expect("memory below 4 GiB");
    assert!(low + 8 * PAGE_SIZE <= 4 << 30);
    FRAMES.dealloc(low, 8 * PAGE_SIZE);
    for node in [NodeId(0), NodeId(1)] {
        let start = FRAMES.alloc_on(node, layout(3, 1)).expect("memory of the node");
        let second = TOPOLOGY.memory[1].1.start.address();
        assert_eq!(start >= second, node == NodeId(1));
        FRAMES.dealloc(start, 3 * PAGE_SIZE);
    }
    assert_eq!(FRAMES.alloc_on(NodeId(0), layout(1 << 20, 1)), None);
    assert_eq!(in_use(), before);
}
