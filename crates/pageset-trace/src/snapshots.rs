//! The texts of `/proc` in a recording, and their parsed contents.

use std::collections::{BTreeSet, HashSet};
use std::io;

use crate::error::{Place, TraceError};
use crate::facts::{Facts, Loss};
use crate::limits::{self, TAG_ALLOWED};
use crate::procfs::{BuddyInfo, PageTypeInfo, ParseError, Zoneinfo, quoted};

/// The largest size of all snapshot texts of a recording together, in bytes. 30 minutes of a 2-CPU machine at ten
/// snapshots a second have 140 MB. The texts are kept in memory.
pub const MAX_SNAPSHOT_BYTES: u64 = 256 << 20;

/// The section of the text form with the [`Facts`] as JSON, so that an export of the project's own form loses nothing.
pub(crate) const FACTS_TAG: &str = "facts";

/// The prefix of a heading in the text form's snapshots; the tag follows.
const HEADING: &str = "=== ";

/// The snapshots of a recording, each kind in the order of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshots {
    /// `/proc/zoneinfo` by tag: `init0`, …, `mid0`, …, `fini0`, ….
    pub zoneinfo: Vec<(String, Zoneinfo)>,
    /// `/proc/pagetypeinfo` by tag: `pagetypeinfo.0` before recording, `pagetypeinfo.1` after.
    pub pagetypeinfo: Vec<(String, PageTypeInfo)>,
    /// `/proc/buddyinfo` by tag: `buddyinfo.0` before recording, `buddyinfo.1` after.
    pub buddyinfo: Vec<(String, BuddyInfo)>,
    /// All texts by tag, including those above and `vmstat.0`, `vmstat.1`, `stats`.
    pub texts: Vec<(String, String)>,
}

impl Snapshots {
    /// The text with this tag.
    pub fn text(&self, tag: &str) -> Option<&str> {
        self.texts.iter().find(|(t, _)| t == tag).map(|(_, text)| text.as_str())
    }

    /// The zoneinfo with this tag.
    pub fn zoneinfo_of(&self, tag: &str) -> Option<&Zoneinfo> {
        self.zoneinfo.iter().find(|(t, _)| t == tag).map(|(_, info)| info)
    }

    /// Writes the text form's snapshots: sections headed `=== TAG`, the first one with the facts as JSON. A text
    /// without a final newline gets one.
    ///
    /// # Errors
    ///
    /// If the output fails; [`io::ErrorKind::InvalidInput`] for a text with a line that looks like a heading.
    pub fn write_text(&self, facts: &Facts, mut out: impl io::Write) -> io::Result<()> {
        writeln!(out, "{HEADING}{FACTS_TAG}\n{}", serde_json::to_string(facts)?)?;
        for (tag, text) in &self.texts {
            if text.lines().any(|line| line.starts_with(HEADING)) {
                let what = format!("the snapshot {tag} has a line like a heading");
                return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
            }
            let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
            write!(out, "{HEADING}{tag}\n{text}{end}")?;
        }
        Ok(())
    }

    /// The zoneinfo at which a replay starts: the last before the command ran (`init`), or else the first.
    pub fn start(&self) -> Option<&(String, Zoneinfo)> {
        self.zoneinfo.iter().rfind(|(tag, _)| tag.starts_with("init")).or(self.zoneinfo.first())
    }

    /// The zoneinfo at which a replay ends: the first after the command ran (`fini`), or else the last.
    pub fn end(&self) -> Option<&(String, Zoneinfo)> {
        self.zoneinfo.iter().find(|(tag, _)| tag.starts_with("fini")).or(self.zoneinfo.last())
    }

    /// Adds what kernels from 6.7 to 6.12 do not print to the snapshots after the start: both bounds of `high`, in pages, for a program that
    /// set them in the running kernel. Bounds that are printed stay, and so do the texts.
    pub(crate) fn set_bounds(&mut self, high_min: u64, high_max: u64) {
        let start = self.start().map(|(tag, _)| tag.clone());
        let later = self.zoneinfo.iter_mut().rev().take_while(|(tag, _)| Some(tag) != start.as_ref());
        for pageset in later.flat_map(|(_, info)| &mut info.zones).flat_map(|zone| &mut zone.pagesets) {
            if pageset.high_max.is_none() {
                (pageset.high_min, pageset.high_max) = (Some(high_min), Some(high_max));
            }
        }
    }

    /// Parses the text form's snapshots: sections headed `=== tag`. The second result has the [`Facts`], if a section
    /// contains them.
    pub(crate) fn parse(text: &str) -> Result<(Snapshots, Option<Facts>), TraceError> {
        let (mut collector, mut facts) = (Collector::default(), None);
        if text.is_empty() {
            return Err(TraceError::damaged(Place::Line(1), "the file is empty").allowed("sections headed `=== TAG`"));
        }
        let mut rest = text;
        let mut line = 1;
        while !rest.is_empty() {
            let (head, body) = rest.split_once('\n').unwrap_or((rest, ""));
            let Some(tag) = head.strip_prefix(HEADING) else {
                let what = format!("{} is not the heading of a snapshot", quoted(head));
                return Err(TraceError::damaged(Place::Line(line), what).allowed("`=== TAG`"));
            };
            // A heading is at the start of a line, after a newline.
            let end = if body.starts_with(HEADING) { 0 } else { body.find("\n=== ").map_or(body.len(), |at| at + 1) };
            let (section, after) = body.split_at(end);
            if tag == FACTS_TAG {
                let read = serde_json::from_str(section).map_err(|e| {
                    let place = Place::Snapshot { tag: tag.to_owned(), line: e.line() as u64 };
                    TraceError::damaged(place, e.to_string()).allowed("the facts of a recording as JSON")
                })?;
                facts = Some(read);
            } else {
                collector.add(tag, section.to_owned())?;
            }
            line += 1 + section.bytes().filter(|&b| b == b'\n').count() as u64;
            rest = after;
        }
        Ok((collector.snapshots, facts))
    }

    /// The facts that the snapshots show.
    pub(crate) fn facts(&self) -> Result<Facts, TraceError> {
        let mut facts = Facts::default();
        if let Some((_, zoneinfo)) = self.zoneinfo.first() {
            facts.cpus = zoneinfo.cpus();
            let nodes = zoneinfo.zones.iter().filter(|z| z.present > 0).map(|z| z.node);
            facts.nodes = nodes.collect::<BTreeSet<_>>().len() as u32;
        }
        if let Some((_, pagetypeinfo)) = self.pagetypeinfo.first() {
            facts.pageblock_order = pagetypeinfo.pageblock_order;
        }
        if let Some(stats) = self.text("stats") {
            facts.loss = losses(stats)?;
        }
        Ok(facts)
    }
}

/// Collects [`Snapshots`] and parses each text by its tag.
#[derive(Debug, Default)]
pub(crate) struct Collector {
    pub(crate) snapshots: Snapshots,
    tags: HashSet<String>,
    bytes: u64,
}

impl Collector {
    pub(crate) fn add(&mut self, tag: &str, text: String) -> Result<(), TraceError> {
        let place = |line| Place::Snapshot { tag: tag.to_owned(), line };
        if limits::tag(tag.as_bytes()).is_none() {
            let place = Place::Snapshot { tag: quoted(tag), line: 1 };
            return Err(TraceError::damaged(place, "the tag is not allowed").allowed(TAG_ALLOWED));
        }
        if !self.tags.insert(tag.to_owned()) {
            return Err(TraceError::damaged(place(1), "the tag appears twice").allowed("each tag once"));
        }
        self.bytes += text.len() as u64;
        if self.bytes > MAX_SNAPSHOT_BYTES {
            let allowed = format!("{MAX_SNAPSHOT_BYTES} bytes of snapshots in all");
            return Err(TraceError::damaged(place(1), "too many snapshots").allowed(allowed));
        }
        let damaged = |e: ParseError| TraceError::damaged(place(e.line), e.what).allowed(e.allowed);
        let all = &mut self.snapshots;
        match SnapshotKind::of(tag) {
            SnapshotKind::Zoneinfo => all.zoneinfo.push((tag.to_owned(), Zoneinfo::parse(&text).map_err(damaged)?)),
            SnapshotKind::PageTypeInfo => {
                all.pagetypeinfo.push((tag.to_owned(), PageTypeInfo::parse(&text).map_err(damaged)?));
            }
            SnapshotKind::BuddyInfo => all.buddyinfo.push((tag.to_owned(), BuddyInfo::parse(&text).map_err(damaged)?)),
            SnapshotKind::Other => {}
        }
        all.texts.push((tag.to_owned(), text));
        Ok(())
    }
}

/// The kind of a snapshot, by its tag.
enum SnapshotKind {
    Zoneinfo,
    PageTypeInfo,
    BuddyInfo,
    Other,
}

impl SnapshotKind {
    fn of(tag: &str) -> Self {
        let numbered = |stem: &str| {
            tag.strip_prefix(stem).is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()))
        };
        if ["init", "mid", "fini"].into_iter().any(numbered) {
            SnapshotKind::Zoneinfo
        } else if numbered("pagetypeinfo.") {
            SnapshotKind::PageTypeInfo
        } else if numbered("buddyinfo.") {
            SnapshotKind::BuddyInfo
        } else {
            SnapshotKind::Other
        }
    }
}

/// Parses the ring buffers' statistics: the texts of `per_cpu/cpuN/stats`, each starting with `entries:`.
pub(crate) fn losses(text: &str) -> Result<Vec<Loss>, TraceError> {
    let mut all: Vec<Loss> = Vec::new();
    for (line, text) in (1..).zip(text.lines()) {
        let wrong = |what: String| {
            TraceError::damaged(Place::Snapshot { tag: "stats".to_owned(), line }, what)
                .allowed("the ring buffers' statistics, each from `entries: N` on")
        };
        let Some((name, value)) = text.split_once(':') else { continue };
        if name == "entries" {
            all.push(Loss { cpu: all.len() as u32, ..Loss::default() });
            continue;
        }
        if !["overrun", "commit overrun", "dropped events"].contains(&name) {
            continue;
        }
        let value = value.trim();
        let value = value.parse().map_err(|_| wrong(format!("{name} {} is not a number", quoted(value))))?;
        let loss = all.last_mut().ok_or_else(|| wrong(format!("{name} before any `entries`")))?;
        *match name {
            "overrun" => &mut loss.overrun,
            "commit overrun" => &mut loss.commit_overrun,
            _ => &mut loss.dropped,
        } = value;
    }
    Ok(all)
}
