//! `/proc/zoneinfo`: the sizes and watermarks of every zone, and its pageset of every CPU.

use std::collections::HashSet;

use super::{COUNT_ALLOWED, ID_ALLOWED, ParseError, node_and_zone, number, quoted, room_for_zone};

/// The contents of `/proc/zoneinfo` at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Zoneinfo {
    /// The zones in the order of the text: by node, then from the lowest zone up.
    pub zones: Vec<ZoneSection>,
}

/// One zone of one node. All amounts are pages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ZoneSection {
    /// The node's number.
    pub node: u32,
    /// `DMA`, `DMA32`, `Normal`, `HighMem`, `Movable` or `Device`.
    pub name: String,
    /// Pages on the buddy's free lists, without pages in pagesets.
    pub free: u64,
    /// The temporary boost of the watermarks, which `min`, `low` and `high` include; `None` on kernels that do not print it,
    /// such as 5.10.
    pub boost: Option<u64>,
    /// The effective min watermark.
    pub min: u64,
    /// The effective low watermark.
    pub low: u64,
    /// The effective high watermark.
    pub high: u64,
    /// The promotion watermark, if the kernel prints it.
    pub promo: Option<u64>,
    /// Pages from the zone's first page to its last, including holes.
    pub spanned: u64,
    /// Pages without holes.
    pub present: u64,
    /// Pages that the buddy manages. Every formula uses this number.
    pub managed: u64,
    /// Pages in pageblocks of type CMA; 0 if not printed.
    pub cma: u64,
    /// The zone's first page frame number; 0 for a zone without pages.
    pub start_pfn: u64,
    /// Pages reserved against requests that each higher zone could serve.
    pub protection: Vec<u64>,
    /// The pagesets of the CPUs, sorted by CPU number as printed. Empty for a zone without pages.
    pub pagesets: Vec<PagesetSection>,
    /// The other `name value` lines, in the order of the text. A node's first zone includes the counters of the node.
    pub counters: Vec<(String, u64)>,
}

/// One CPU's pageset of a zone. All amounts are pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PagesetSection {
    /// The CPU's number.
    pub cpu: u32,
    /// Pages on the pageset's lists.
    pub count: u64,
    /// The current limit.
    pub high: u64,
    /// The unit of refills and drains.
    pub batch: u64,
    /// The lower bound of `high`; printed from 6.13 on.
    pub high_min: Option<u64>,
    /// The upper bound of `high`; printed from 6.13 on.
    pub high_max: Option<u64>,
}

impl Zoneinfo {
    /// Parses the text of `/proc/zoneinfo`.
    ///
    /// # Errors
    ///
    /// If a required number is not a number, is too large, appears twice or is missing; a pageset is outside a zone; a
    /// zone appears twice; the text is truncated; or there is no zone.
    pub fn parse(text: &str) -> Result<Zoneinfo, ParseError> {
        let mut zones = Vec::new();
        let mut names = HashSet::new();
        let mut open: Option<Section> = None;
        let mut at = 0;
        for line in text.lines() {
            at += 1;
            if let Some((node, name, rest)) = node_and_zone(at, line)? {
                if !rest.trim().is_empty() {
                    let what = format!("{} follows the zone's name", quoted(rest.trim()));
                    return Err(ParseError::new(at, what, "nothing after `Node N, zone NAME`"));
                }
                close(open.take(), &mut zones)?;
                if !names.insert((node, name)) {
                    return Err(ParseError::new(
                        at,
                        format!("node {node}, zone {name} appears twice"),
                        "each zone once",
                    ));
                }
                room_for_zone(at, zones.len())?;
                open = Some(Section::new(at, node, name));
            } else if let Some(section) = &mut open {
                section.line(at, line)?;
            } else if !line.trim().is_empty() {
                let what = format!("{} is outside any zone", quoted(line.trim()));
                return Err(ParseError::new(at, what, "`Node N, zone NAME` first"));
            }
        }
        close(open, &mut zones)?;
        if zones.is_empty() {
            return Err(ParseError::new(at + 1, "no zone in the text", "the text of /proc/zoneinfo"));
        }
        // The kernel ends every line with a newline, so a last line without one is truncated.
        if !text.ends_with('\n') {
            return Err(ParseError::new(at, "the last line does not end", "the whole text of /proc/zoneinfo"));
        }
        Ok(Zoneinfo { zones })
    }

    /// The zone with this node and name, if any.
    pub fn zone(&self, node: u32, name: &str) -> Option<&ZoneSection> {
        self.zones.iter().find(|z| z.node == node && z.name == name)
    }

    /// The number of CPUs with a pageset in any zone.
    pub fn cpus(&self) -> u32 {
        self.zones.iter().map(|z| z.pagesets.len()).max().unwrap_or(0) as u32
    }
}

/// What a text has of one zone. Amounts that the text lacks are `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartialZone {
    /// The line of the heading.
    pub line: u64,
    /// The node's number and the zone's name, if the text has the heading.
    pub name: Option<(u32, String)>,
    /// See [`ZoneSection::free`].
    pub free: Option<u64>,
    /// See [`ZoneSection::boost`].
    pub boost: Option<u64>,
    /// See [`ZoneSection::min`].
    pub min: Option<u64>,
    /// See [`ZoneSection::low`].
    pub low: Option<u64>,
    /// See [`ZoneSection::high`].
    pub high: Option<u64>,
    /// See [`ZoneSection::present`].
    pub present: Option<u64>,
    /// See [`ZoneSection::managed`]; kernels before 3.9 do not print it.
    pub managed: Option<u64>,
    /// See [`ZoneSection::protection`].
    pub protection: Vec<u64>,
    /// The pagesets, as far as the text has them.
    pub pagesets: Vec<PartialPageset>,
    /// See [`ZoneSection::counters`].
    pub counters: Vec<(String, u64)>,
}

/// What a text has of one CPU's pageset. All amounts are pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartialPageset {
    /// The CPU's number.
    pub cpu: u32,
    /// See [`PagesetSection::count`].
    pub count: Option<u64>,
    /// See [`PagesetSection::high`].
    pub high: Option<u64>,
    /// See [`PagesetSection::batch`].
    pub batch: Option<u64>,
    /// See [`PagesetSection::high_min`].
    pub high_min: Option<u64>,
    /// See [`PagesetSection::high_max`].
    pub high_max: Option<u64>,
}

/// A reader of zoneinfo in parts: lines may be missing, and lines of other texts may stand between.
#[derive(Default)]
pub struct PartialReader {
    zones: Vec<PartialZone>,
    open: Option<Section>,
}

impl std::fmt::Debug for PartialReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PartialReader").field("zones", &self.zones).finish_non_exhaustive()
    }
}

impl PartialReader {
    /// Takes a line if it belongs to zoneinfo, and returns whether it does. Indentation is free.
    ///
    /// # Errors
    ///
    /// If the line belongs to zoneinfo but its value is wrong or appears twice. The reader ignores that line.
    pub fn line(&mut self, at: u64, line: &str) -> Result<bool, ParseError> {
        let text = line.trim();
        if let Some((node, name, rest)) = node_and_zone(at, text)? {
            if !rest.trim().is_empty() {
                return Ok(false);
            }
            self.close();
            room_for_zone(at, self.zones.len())?;
            self.open = Some(Section::partial(at, Some((node, name))));
            return Ok(true);
        }
        if !is_zone_line(text, self.open.as_ref().is_some_and(|open| open.start_pfn.is_none())) {
            return Ok(false);
        }
        room_for_zone(at, self.zones.len())?;
        self.open.get_or_insert_with(|| Section::partial(at, None)).line(at, text)?;
        Ok(true)
    }

    /// Ends the zone: the next lines belong to another text.
    pub fn close(&mut self) {
        self.zones.extend(self.open.take().map(Section::into_partial));
    }

    /// The zones in the order of the text.
    pub fn finish(mut self) -> Vec<PartialZone> {
        self.close();
        self.zones
    }
}

/// Whether a line below a heading has a form that zoneinfo has. Counters look like lines of vmstat, so they count only while a zone's
/// end is `missing`.
fn is_zone_line(text: &str, is_open: bool) -> bool {
    let words = || text.split_ascii_whitespace();
    let is_number = |word: Option<&str>| word.is_some_and(|word| word.bytes().all(|b| b.is_ascii_digit()));
    if let Some((name, value)) = text.split_once(':') {
        const NAMES: [&str; 14] = [
            "cpu",
            "count",
            "high",
            "batch",
            "high_min",
            "high_max",
            "protection",
            "start_pfn",
            "vm stats threshold",
            "node_unreclaimable",
            "all_unreclaimable",
            "inactive_ratio",
            "prev_priority",
            "temp_priority",
        ];
        return NAMES.contains(&name.trim_end())
            && value.trim_start().starts_with(|c: char| c.is_ascii_digit() || c == '(');
    }
    match (words().next(), words().nth(1), words().count()) {
        (Some("pages"), Some("free"), 3) => is_number(words().nth(2)),
        (Some("pagesets"), None, 1) => true,
        (Some("per-node"), Some("stats"), 2) => true,
        (Some(name), value, 2) if is_open && is_number(value) => {
            AMOUNTS.contains(&name) || name == "scanned" || name.contains('_')
        }
        // 2.6.32: `scanned  0 (aa: 0 ia: 0 af: 0 if: 0)`.
        (Some("scanned"), value, _) => is_open && is_number(value),
        _ => false,
    }
}

/// Checks that a section has the data that every kernel prints, and adds it to `zones`.
fn close(section: Option<Section>, zones: &mut Vec<ZoneSection>) -> Result<(), ParseError> {
    let Some(mut section) = section else { return Ok(()) };
    section.close_pageset()?;
    let mut zone = section.zone;
    let missing = |name: &str| {
        let what = format!("node {}, zone {} has no `{name}`", zone.node, zone.name);
        ParseError::new(section.head, what, "a whole zone, from `pages free` to `start_pfn`")
    };
    let amount = |name: &str| section.amounts[AMOUNTS.iter().position(|a| *a == name).expect("a name of AMOUNTS")];
    let needed = |name: &str| amount(name).ok_or_else(|| missing(name));
    let (free, min, low, high) = (needed("free")?, needed("min")?, needed("low")?, needed("high")?);
    let (spanned, present, managed) = (needed("spanned")?, needed("present")?, needed("managed")?);
    // A zone without pages ends after its watermarks and has neither pagesets nor a start.
    if present > 0 && !section.saw_pagesets {
        return Err(missing("pagesets"));
    }
    if present > 0 && section.start_pfn.is_none() {
        return Err(missing("start_pfn"));
    }
    (zone.free, zone.min, zone.low, zone.high) = (free, min, low, high);
    (zone.spanned, zone.present, zone.managed) = (spanned, present, managed);
    (zone.boost, zone.cma) = (amount("boost"), amount("cma").unwrap_or(0));
    (zone.promo, zone.start_pfn) = (amount("promo"), section.start_pfn.unwrap_or(0));
    zones.push(zone);
    Ok(())
}

/// The names of a zone's amounts. 5.10 lacks `boost`, `promo` and `cma`.
const AMOUNTS: [&str; 10] = ["free", "boost", "min", "low", "high", "promo", "spanned", "present", "managed", "cma"];

/// The zone that the parser reads.
struct Section {
    /// The line of the zone's heading.
    head: u64,
    zone: ZoneSection,
    /// The values of [`AMOUNTS`] so far.
    amounts: [Option<u64>; AMOUNTS.len()],
    start_pfn: Option<u64>,
    saw_pagesets: bool,
    saw_protection: bool,
    pageset: Option<OpenPageset>,
    /// The pagesets of a partial text; `None` for a whole one.
    parts: Option<Vec<OpenPageset>>,
    is_named: bool,
}

/// The pageset that the parser reads.
struct OpenPageset {
    /// The line of the pageset's `cpu:`.
    head: u64,
    set: PagesetSection,
    /// One bit each for count, high, batch, high_min, high_max.
    seen: u8,
}

impl Section {
    fn new(head: u64, node: u32, name: &str) -> Self {
        let zone = ZoneSection { node, name: name.to_owned(), ..ZoneSection::default() };
        let (saw_pagesets, saw_protection) = (false, false);
        Section {
            head,
            zone,
            amounts: [None; 10],
            start_pfn: None,
            saw_pagesets,
            saw_protection,
            pageset: None,
            parts: None,
            is_named: true,
        }
    }

    /// A section of a text that may lack lines.
    fn partial(head: u64, name: Option<(u32, &str)>) -> Self {
        let (node, zone) = name.unwrap_or_default();
        Section { parts: Some(Vec::new()), is_named: name.is_some(), ..Section::new(head, node, zone) }
    }

    fn into_partial(mut self) -> PartialZone {
        let parts = self.parts.take().unwrap_or_default().into_iter().chain(self.pageset.take());
        let pagesets = parts.map(|part| {
            let given = |bit: u8, value: u64| (part.seen & bit != 0).then_some(value);
            let PagesetSection { cpu, count, high, batch, high_min, high_max } = part.set;
            let (count, high, batch) = (given(1, count), given(2, high), given(4, batch));
            PartialPageset { cpu, count, high, batch, high_min, high_max }
        });
        let pagesets = pagesets.collect();
        let [free, boost, min, low, high, _promo, _spanned, present, managed, _cma] = self.amounts;
        let ZoneSection { node, name, protection, counters, .. } = self.zone;
        let name = self.is_named.then_some((node, name));
        PartialZone {
            line: self.head,
            name,
            free,
            boost,
            min,
            low,
            high,
            present,
            managed,
            protection,
            pagesets,
            counters,
        }
    }

    /// Parses one line below the heading.
    fn line(&mut self, at: u64, line: &str) -> Result<(), ParseError> {
        let line = line.trim();
        if let Some((name, value)) = line.split_once(':') {
            return self.colon_line(at, name.trim_end(), value.trim());
        }
        if line == "pagesets" {
            self.saw_pagesets = true;
            return Ok(());
        }
        let mut words = line.split_ascii_whitespace();
        let (Some(name), value) = (words.next(), words.next()) else { return Ok(()) };
        // `pages free N` is the only amount with a name of two words.
        let (name, value) =
            if (name, value) == ("pages", Some("free")) { ("free", words.next()) } else { (name, value) };
        if let Some(i) = AMOUNTS.iter().position(|a| *a == name) {
            return self.amount(at, i, value.unwrap_or(""), words.next());
        }
        // Other lines differ between kernels: counters are kept, the rest is skipped.
        if let (Some(Ok(value)), None) = (value.map(str::parse), words.next()) {
            self.zone.counters.push((name.to_owned(), value));
        }
        Ok(())
    }

    fn amount(&mut self, at: u64, index: usize, value: &str, more: Option<&str>) -> Result<(), ParseError> {
        let name = AMOUNTS[index];
        let value = number(at, name, value, COUNT_ALLOWED)?;
        if let Some(more) = more {
            return Err(ParseError::new(at, format!("{} follows the number of {name}", quoted(more)), "one number"));
        }
        if self.amounts[index].replace(value).is_some() {
            return Err(ParseError::new(at, format!("{name} appears twice in the zone"), "each amount once"));
        }
        Ok(())
    }

    fn colon_line(&mut self, at: u64, name: &str, value: &str) -> Result<(), ParseError> {
        match name {
            "cpu" => {
                self.close_pageset()?;
                if !self.saw_pagesets && self.parts.is_none() {
                    return Err(ParseError::new(at, "a pageset before `pagesets`", "`pagesets`, then `cpu: N`"));
                }
                let cpu = number(at, "cpu", value, ID_ALLOWED)?;
                let last = self.zone.pagesets.last().or(self.parts.iter().flatten().map(|part| &part.set).next_back());
                if let Some(last) = last.filter(|last| last.cpu >= cpu) {
                    let what = format!("cpu {cpu} follows cpu {}", last.cpu);
                    return Err(ParseError::new(at, what, "each CPU once, in rising order"));
                }
                let set = PagesetSection { cpu, ..PagesetSection::default() };
                self.pageset = Some(OpenPageset { head: at, set, seen: 0 });
            }
            "count" | "high" | "batch" | "high_min" | "high_max" => {
                let Some(open) = &mut self.pageset else {
                    return Err(ParseError::new(at, format!("{name} outside a pageset"), "`cpu: N` before it"));
                };
                let value = number(at, name, value, COUNT_ALLOWED)?;
                let (bit, slot) = match name {
                    "count" => (1, &mut open.set.count),
                    "high" => (2, &mut open.set.high),
                    "batch" => (4, &mut open.set.batch),
                    "high_min" => (8, open.set.high_min.get_or_insert(0)),
                    _ => (16, open.set.high_max.get_or_insert(0)),
                };
                if open.seen & bit != 0 {
                    let what = format!("{name} appears twice in the pageset of cpu {}", open.set.cpu);
                    return Err(ParseError::new(at, what, "each amount once"));
                }
                open.seen |= bit;
                *slot = value;
            }
            "start_pfn" => {
                self.close_pageset()?;
                if self.start_pfn.replace(number(at, "start_pfn", value, COUNT_ALLOWED)?).is_some() {
                    return Err(ParseError::new(at, "start_pfn appears twice in the zone", "each amount once"));
                }
            }
            "protection" => {
                let wrong =
                    |what: &str| ParseError::new(at, format!("protection {} {what}", quoted(value)), "`(N, N, …)`");
                if self.saw_protection {
                    return Err(ParseError::new(at, "protection appears twice in the zone", "each amount once"));
                }
                self.saw_protection = true;
                let inner = value.strip_prefix('(').and_then(|v| v.strip_suffix(')'));
                for word in inner.ok_or_else(|| wrong("is not a list in parentheses"))?.split(',') {
                    self.zone.protection.push(number(at, "protection", word.trim(), COUNT_ALLOWED)?);
                }
            }
            // `vm stats threshold:`, `node_unreclaimable:`, `all_unreclaimable:`, … of some kernels.
            _ => {
                if let Ok(value) = value.parse() {
                    self.zone.counters.push((name.to_owned(), value));
                }
            }
        }
        Ok(())
    }

    /// Checks that a pageset has the data that every kernel prints, and adds it to the zone.
    fn close_pageset(&mut self) -> Result<(), ParseError> {
        let Some(open) = self.pageset.take() else { return Ok(()) };
        if let Some(parts) = &mut self.parts {
            parts.push(open);
            return Ok(());
        }
        for (bit, name) in [(1, "count"), (2, "high"), (4, "batch")] {
            if open.seen & bit == 0 {
                let what = format!("the pageset of cpu {} has no `{name}`", open.set.cpu);
                return Err(ParseError::new(open.head, what, "count, high and batch of every pageset"));
            }
        }
        if (open.seen & 8 == 0) != (open.seen & 16 == 0) {
            let what = format!("the pageset of cpu {} has one of high_min and high_max", open.set.cpu);
            return Err(ParseError::new(open.head, what, "both (6.13 and later) or none"));
        }
        self.zone.pagesets.push(open.set);
        Ok(())
    }
}
