//! Huge pages for the large tables of a simulation.
//!
//! The simulated CPUs take turns, each with pages of its own: from one to the next the host walks its page tables anew, in a
//! virtual machine two of them. With pages of 2 MiB it hardly has to.

/// Asks the host to put a table on huge pages. It may not: nothing but time depends on it.
pub(crate) fn ask_for<T>(table: &[T]) {
    #[cfg(target_os = "linux")]
    advise(table);
    #[cfg(not(target_os = "linux"))]
    let _ = table;
}

#[cfg(target_os = "linux")]
fn advise<T>(table: &[T]) {
    use rustix::mm::{Advice, madvise};

    /// Bytes of a huge page on x86-64, and a multiple of every smaller page.
    const HUGE: usize = 2 << 20;

    let bytes = size_of_val(table);
    let front = table.as_ptr().addr().next_multiple_of(HUGE) - table.as_ptr().addr();
    let whole = bytes.saturating_sub(front) / HUGE * HUGE;
    if whole == 0 {
        return;
    }
    let start = table.as_ptr().cast::<u8>().wrapping_add(front).cast_mut();
    // SAFETY: advice must not change what anyone may read or write.
    // 1. The range lies inside of the table: it begins `front` bytes after its start and ends before its end.
    // 2. This advice changes no contents and no rights, only how large the pages are that memory comes in.
    let advised = unsafe { madvise(start.cast(), whole, Advice::LinuxHugepage) };
    // A host without huge pages does without.
    let _ = advised;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_of_any_size_keep_what_is_in_them() {
        for len in [0, 1, 1000, 3 << 20] {
            let table: Vec<u32> = (0..len).collect();
            ask_for(&table);
            ask_for(&table[table.len() / 2..]);
            assert!(table.iter().copied().eq(0..len), "{len}");
        }
    }
}
