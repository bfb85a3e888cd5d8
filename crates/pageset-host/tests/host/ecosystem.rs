//! Traits of `allocator-api2` and `bytes`, each behind its feature.

#[cfg(feature = "allocator-api2")]
mod api2 {
    use allocator_api2::boxed::Box;
    use allocator_api2::vec::Vec;
    use pageset_host::PagePool;

    #[test]
    fn a_vector_grows_up_to_4_mib() {
        let pool = PagePool::builder(32 << 20).build().expect("a pool");
        let mut numbers: Vec<u64, &PagePool> = Vec::new_in(&pool);
        assert_eq!(pool.stats().alloc_bytes, 0, "an empty vector allocates nothing");
        for i in 0..(4 << 20) / 8 {
            numbers.push(i);
        }
        assert!(numbers.iter().copied().eq(0..(4 << 20) / 8));
        assert_eq!(pool.stats().in_use_bytes, 4 << 20);
        assert!(numbers.try_reserve(1).is_err(), "a run has at most 4 MiB");
        numbers.truncate(100);
        numbers.shrink_to_fit();
        assert_eq!(pool.stats().in_use_bytes, 4096);
        assert!(numbers.iter().copied().eq(0..100));
        drop(numbers);
        assert_eq!(pool.stats().in_use_bytes, 0);
    }

    #[test]
    fn the_alignment_can_exceed_the_size() {
        #[repr(align(65536))]
        struct Aligned(u8);
        let pool = PagePool::builder(8 << 20).build().expect("a pool");
        let boxed = Box::new_in(Aligned(7), &pool);
        assert_eq!((&raw const *boxed as usize % 65536, boxed.0), (0, 7));
        assert_eq!(pool.stats().in_use_bytes, 65536);
        drop(boxed);
        assert_eq!(pool.stats().in_use_bytes, 0);
    }
}

#[cfg(feature = "bytes")]
#[test]
fn the_last_bytes_frees_the_run() {
    use std::sync::Arc;

    use bytes::Bytes;
    use pageset_host::{Order, PagePool, Pages};

    let pool = Arc::new(PagePool::builder(8 << 20).build().expect("a pool"));
    let mut pages = Pages::new(Arc::clone(&pool), Order::ZERO).expect("memory");
    pages[..4].copy_from_slice(b"abcd");
    let start = pages.as_ptr();
    let all = Bytes::from(pages);
    let part = all.slice(1..3);
    assert_eq!((all.as_ptr(), &part[..]), (start, &b"bc"[..]));
    drop(all);
    assert_eq!(pool.stats().in_use_bytes, 4096);
    drop(part);
    assert_eq!(pool.stats().in_use_bytes, 0);
}
