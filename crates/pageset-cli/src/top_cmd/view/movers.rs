//! What processes and call sites have in common: pages, and waits for zone locks.

/// Moves pages and waits for zone locks.
pub(in crate::top_cmd) trait Mover {
    fn pages_in(&self) -> u64;
    fn pages_out(&self) -> u64;
    /// `None` if waits are not measured.
    fn wait_ns(&self) -> Option<u64>;
    /// The order of equal ones.
    fn name(&self) -> (u32, &str, &str);
}

/// The sort key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::top_cmd) enum By {
    Pages,
    Waits,
}

/// Sorts by a key, the largest first; equal ones by the other key, then by name.
pub(in crate::top_cmd) fn sort<T: Mover>(all: &mut [&T], by: By) {
    all.sort_by(|a, b| {
        let key = |of: &T| {
            let (pages, waits) = (of.pages_in().saturating_add(of.pages_out()), of.wait_ns().unwrap_or(0));
            if by == By::Pages { (pages, waits) } else { (waits, pages) }
        };
        key(b).cmp(&key(a)).then_with(|| a.name().cmp(&b.name()))
    });
}

/// The same ones, the most pages first.
pub(super) fn sorted<T: Mover + Clone>(all: &[T]) -> Vec<T> {
    let mut order: Vec<&T> = all.iter().collect();
    sort(&mut order, By::Pages);
    order.into_iter().cloned().collect()
}
