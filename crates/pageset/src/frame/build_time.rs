//! The page size, the pageblock order and the largest order: constants that the build chooses, since the fast path relies on
//! constants.
//!
//! Environment variables of the build set them, and Cargo builds the crate again when one changes. The crate's documentation
//! has the table. The orders default to those of Linux on x86-64 and arm64 with pages of that size.

/// The size of a page in KiB.
const PAGE_KIB: u8 = number(option_env!("PAGESET_PAGE_KIB"), 4);
/// The order of a pageblock.
pub(super) const PAGEBLOCK_ORDER: u8 = number(option_env!("PAGESET_PAGEBLOCK_ORDER"), defaults().0);
/// The largest order.
pub(super) const MAX_ORDER: u8 = number(option_env!("PAGESET_MAX_ORDER"), defaults().1);
/// The size of a page in bytes.
pub(super) const PAGE_BYTES: u64 = 1024 * PAGE_KIB as u64;

const _: () = {
    assert!(matches!(PAGE_KIB, 4 | 16 | 64), "PAGESET_PAGE_KIB is invalid; allowed: 4, 16, 64");
    // Orders 1 to 3 and pageblocks have lists of their own in a pageset.
    assert!(PAGEBLOCK_ORDER > super::Order::COSTLY.get(), "PAGESET_PAGEBLOCK_ORDER is invalid; allowed: 4 to 15");
    // A tag has four bits for the order.
    assert!(
        PAGEBLOCK_ORDER <= MAX_ORDER && MAX_ORDER <= 15,
        "PAGESET_MAX_ORDER is invalid; allowed: PAGESET_PAGEBLOCK_ORDER to 15"
    );
};

/// The orders of a pageblock and of the largest block for the page size.
const fn defaults() -> (u8, u8) {
    match PAGE_KIB {
        16 => (11, 11),
        64 => (13, 13),
        _ => (9, 10),
    }
}

/// The value of a variable. A text that is no number gives one that is too large.
const fn number(text: Option<&str>, default: u8) -> u8 {
    match text {
        None => default,
        Some(text) => match u8::from_str_radix(text, 10) {
            Ok(number) => number,
            Err(_) => u8::MAX,
        },
    }
}
