//! `/proc/buddyinfo`: the number of free blocks of each order in each zone.

use super::{COUNT_ALLOWED, ParseError, node_and_zone, number, quoted, room_for_zone};

/// The contents of `/proc/buddyinfo` at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BuddyInfo {
    /// The zones with pages, in the order of the text.
    pub zones: Vec<BuddyZone>,
}

/// A zone's free blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BuddyZone {
    /// The node's number.
    pub node: u32,
    /// The zone's name as in zoneinfo.
    pub zone: String,
    /// Free blocks of order 0, 1, ….
    pub free_blocks: Vec<u64>,
}

impl BuddyInfo {
    /// Parses the text of `/proc/buddyinfo`.
    ///
    /// # Errors
    ///
    /// If a line has another form, a count is not a number or too large, rows have unequal lengths, a zone appears
    /// twice, the last line has no newline, or there is no zone.
    pub fn parse(text: &str) -> Result<BuddyInfo, ParseError> {
        let mut zones: Vec<BuddyZone> = Vec::new();
        let mut at = 0;
        for line in text.lines() {
            at += 1;
            if line.trim().is_empty() {
                continue;
            }
            let row = "`Node N, zone NAME` and a count for each order";
            let (node, zone, counts) = node_and_zone(at, line)?
                .ok_or_else(|| ParseError::new(at, format!("{} is not a row of buddyinfo", quoted(line)), row))?;
            let counts = counts.split_ascii_whitespace();
            let free_blocks =
                counts.map(|word| number(at, "free blocks", word, COUNT_ALLOWED)).collect::<Result<Vec<u64>, _>>()?;
            let orders = zones.first().map_or(free_blocks.len(), |z| z.free_blocks.len());
            if free_blocks.is_empty() || free_blocks.len() != orders {
                let what = format!("{} counts in the row", free_blocks.len());
                return Err(ParseError::new(at, what, format!("{orders} (and at least one), as in the first row")));
            }
            if zones.iter().any(|z| z.node == node && z.zone == zone) {
                return Err(ParseError::new(at, format!("node {node}, zone {zone} appears twice"), "each zone once"));
            }
            room_for_zone(at, zones.len())?;
            zones.push(BuddyZone { node, zone: zone.to_owned(), free_blocks });
        }
        if zones.is_empty() || !text.ends_with('\n') {
            return Err(ParseError::new(at + 1, "the text ends too early", "the whole text of /proc/buddyinfo"));
        }
        Ok(BuddyInfo { zones })
    }
}

/// Why a zone with these free blocks of order 0, 1, … has none of `order`: near 0 for lack of memory, near 1 because free memory is
/// in small blocks. `None` if there is such a block. The kernel's `extfrag_index`, without numbers below 0.
pub fn fragmentation_index(free_blocks: &[u64], order: usize) -> Option<f64> {
    if free_blocks.iter().skip(order).any(|blocks| *blocks > 0) {
        return None;
    }
    let blocks = free_blocks.iter().fold(0, |sum: u64, blocks| sum.saturating_add(*blocks));
    if blocks == 0 {
        return Some(0.0);
    }
    let sizes = free_blocks.iter().enumerate().map(|(order, blocks)| *blocks as f64 * 2_f64.powi(order as i32));
    let index = 1.0 - (1.0 + sizes.sum::<f64>() / 2_f64.powi(order as i32)) / blocks as f64;
    Some(index.max(0.0))
}
