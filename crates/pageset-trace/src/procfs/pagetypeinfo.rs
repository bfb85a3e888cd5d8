//! `/proc/pagetypeinfo`: free blocks by migratetype, and the number of pageblocks of each type.

use super::{COUNT_ALLOWED, ParseError, node_and_zone, number, quoted, room_for_zone};

/// The contents of `/proc/pagetypeinfo` at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageTypeInfo {
    /// A pageblock's order.
    pub pageblock_order: u8,
    /// A pageblock's pages: `1 << pageblock_order`.
    pub pages_per_block: u64,
    /// The names of the migratetypes in the order of the kernel's numbers.
    pub types: Vec<String>,
    /// The zones with pages, in the order of the text.
    pub zones: Vec<PageTypeZone>,
}

/// A zone's free blocks and pageblocks by type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageTypeZone {
    /// The node's number.
    pub node: u32,
    /// The zone's name as in zoneinfo.
    pub zone: String,
    /// Free blocks: `free[type][order]`, the type as an index into [`PageTypeInfo::types`].
    pub free: Vec<Vec<FreeBlocks>>,
    /// Pageblocks of each type.
    pub pageblocks: Vec<u64>,
}

/// A count of free blocks. The kernel stops counting long lists and prints `>100000`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FreeBlocks {
    /// The blocks that were counted.
    pub count: u64,
    /// Whether `count` is only a lower bound.
    pub or_more: bool,
}

impl PageTypeInfo {
    /// Parses the text of `/proc/pagetypeinfo`.
    ///
    /// # Errors
    ///
    /// If a header is missing, headers of two nodes disagree, a count is not a number or too large, rows do not fit the
    /// headers, a zone is in only one of the tables, or the text is truncated.
    pub fn parse(text: &str) -> Result<PageTypeInfo, ParseError> {
        let mut reader = Reader::default();
        let mut at = 0;
        for line in text.lines() {
            at += 1;
            reader.line(at, line)?;
        }
        let mut info = reader.info;
        let short = |what: String| ParseError::new(at + 1, what, "the whole text of /proc/pagetypeinfo");
        if info.types.is_empty() || info.zones.is_empty() || !text.ends_with('\n') {
            return Err(short("the text ends too early".to_owned()));
        }
        if info.pages_per_block == 0 {
            return Err(short("no `Pages per block`".to_owned()));
        }
        for zone in &mut info.zones {
            if zone.free.len() != info.types.len() {
                let (free, types) = (zone.free.len(), info.types.len());
                return Err(short(format!("node {}, zone {} has {free} of {types} types", zone.node, zone.zone)));
            }
            if zone.pageblocks.is_empty() {
                return Err(short(format!("node {}, zone {} has no number of blocks", zone.node, zone.zone)));
            }
        }
        Ok(info)
    }

    /// A migratetype's number by its name (`Unmovable`, `HighAtomic`, `CMA`, …).
    pub fn type_number(&self, name: &str) -> Option<usize> {
        self.types.iter().position(|t| t == name)
    }
}

#[derive(Default)]
struct Reader {
    info: PageTypeInfo,
    /// Orders in the header of the free counts; 0 before it.
    orders: usize,
    table: Table,
}

/// The table that rows belong to.
#[derive(Default)]
enum Table {
    #[default]
    Free,
    Pageblocks,
    /// A table that some kernels add (`Number of mixed blocks`).
    Unknown,
}

impl Reader {
    fn line(&mut self, at: u64, line: &str) -> Result<(), ParseError> {
        if let Some(value) = line.strip_prefix("Page block order:") {
            self.info.pageblock_order = number(at, "pageblock order", value.trim(), "an order from 0 to 63")?;
            if self.info.pageblock_order > 63 {
                return Err(ParseError::new(at, "the pageblock order is too large", "an order from 0 to 63"));
            }
        } else if let Some(value) = line.strip_prefix("Pages per block:") {
            self.info.pages_per_block = number(at, "pages per block", value.trim(), COUNT_ALLOWED)?;
            if self.info.pages_per_block != 1 << self.info.pageblock_order {
                let what = format!("{} pages do not fit pageblock order {}", value.trim(), self.info.pageblock_order);
                return Err(ParseError::new(at, what, "two to the power of the order above"));
            }
        } else if let Some(orders) = line.strip_prefix("Free pages count per migrate type at order") {
            for (expected, word) in orders.split_ascii_whitespace().enumerate() {
                let order: usize = number(at, "order", word, "the orders from 0 up")?;
                if order != expected {
                    return Err(ParseError::new(at, format!("order {order} out of place"), "the orders from 0 up"));
                }
            }
            self.orders = orders.split_ascii_whitespace().count();
            // The kernel prints both tables for each node with memory.
            self.table = Table::Free;
        } else if let Some(types) = line.strip_prefix("Number of blocks type") {
            self.table = Table::Pageblocks;
            let types: Vec<&str> = types.split_ascii_whitespace().collect();
            if types != self.info.types {
                let what = format!("the types {} are not those of the free counts", quoted(&types.join(" ")));
                return Err(ParseError::new(at, what, self.info.types.join(" ")));
            }
        } else if let Some((node, zone, rest)) = node_and_zone(at, line)? {
            match self.table {
                Table::Free => self.free_row(at, node, zone, rest)?,
                Table::Pageblocks => self.block_row(at, node, zone, rest)?,
                Table::Unknown => {}
            }
        } else if line.starts_with("Number of") {
            self.table = Table::Unknown;
        }
        Ok(())
    }

    /// Parses `, type NAME COUNT…` of the first table.
    fn free_row(&mut self, at: u64, node: u32, zone: &str, rest: &str) -> Result<(), ParseError> {
        let form = FREE_ROW;
        let (name, counts) = free_counts(at, rest)?;
        if self.orders == 0 || counts.len() != self.orders {
            return Err(ParseError::new(at, format!("{} counts for {} orders", counts.len(), self.orders), form));
        }
        let zones = &mut self.info.zones;
        if zones.last().is_none_or(|z| (z.node, z.zone.as_str()) != (node, zone)) {
            if zones.iter().any(|z| z.node == node && z.zone == zone) {
                return Err(ParseError::new(at, format!("node {node}, zone {zone} appears twice"), "each zone once"));
            }
            room_for_zone(at, zones.len())?;
            zones.push(PageTypeZone { node, zone: zone.to_owned(), ..PageTypeZone::default() });
        }
        let first = zones.len() == 1;
        let zone = zones.last_mut().expect("at least one zone");
        let number = zone.free.len();
        if first && !self.info.types.iter().any(|t| t == name) {
            self.info.types.push(name.to_owned());
        } else if self.info.types.get(number).is_none_or(|t| t != name) {
            let what = format!("type {} out of place", quoted(name));
            return Err(ParseError::new(at, what, "each type once, in the same order for every zone"));
        }
        zone.free.push(counts);
        Ok(())
    }

    /// Parses ` COUNT…` of the second table.
    fn block_row(&mut self, at: u64, node: u32, zone: &str, rest: &str) -> Result<(), ParseError> {
        let counts = rest.split_ascii_whitespace().map(|word| number(at, "pageblocks", word, COUNT_ALLOWED));
        let counts = counts.collect::<Result<Vec<u64>, _>>()?;
        if counts.len() != self.info.types.len() {
            let what = format!("{} counts in the row", counts.len());
            return Err(ParseError::new(at, what, format!("{}, one for each type", self.info.types.len())));
        }
        match self.info.zones.iter_mut().find(|z| z.node == node && z.zone == zone) {
            Some(zone) if zone.pageblocks.is_empty() => {
                zone.pageblocks = counts;
                Ok(())
            }
            Some(_) => Err(ParseError::new(at, format!("node {node}, zone {zone} appears twice"), "each zone once")),
            None => {
                let what = format!("node {node}, zone {zone} has no free counts");
                Err(ParseError::new(at, what, "the zones of the first table"))
            }
        }
    }
}

/// The form of a row of the first table.
const FREE_ROW: &str = "`Node N, zone NAME, type NAME` and a count for each order of the header";

/// Parses `type NAME COUNT…`.
fn free_counts(at: u64, rest: &str) -> Result<(&str, Vec<FreeBlocks>), ParseError> {
    let mut words = rest.split_ascii_whitespace();
    let (Some("type"), Some(name)) = (words.next(), words.next()) else {
        return Err(ParseError::new(at, format!("{} names no type", quoted(rest.trim())), FREE_ROW));
    };
    let count = |word: &str| {
        let (digits, or_more) = word.strip_prefix('>').map_or((word, false), |digits| (digits, true));
        Ok(FreeBlocks { count: number(at, "free blocks", digits, "a number or `>NUMBER`")?, or_more })
    };
    Ok((name, words.map(count).collect::<Result<_, ParseError>>()?))
}

/// A row of the first table alone, without its header: the node, the zone, the type and its free blocks by order.
pub fn row(line: &str) -> Option<(u32, &str, &str, Vec<FreeBlocks>)> {
    let (node, zone, rest) = node_and_zone(1, line.trim()).ok()??;
    let (name, counts) = free_counts(1, rest).ok()?;
    Some((node, zone, name, counts))
}
