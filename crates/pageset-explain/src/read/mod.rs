//! Readers of the kinds of text. Each takes the lines that it knows; other lines are counted.
//!
//! | module | what it reads |
//! | --- | --- |
//! | `heads` | whether a line can have one of many words |
//! | `envelope` | what stands around each line, as the whole text shows it |
//! | `prefix` | what logs, mails and terminals put before a line |
//! | `framing` | what stands around each line, found by trying |
//! | `line` | lines without all of these |
//! | `request` | the message about a request |
//! | `mem_info` | Mem-Info in logs |
//! | `histogram` | histograms of tracing tools |
//! | `tables` | tables of the whole machine |
//! | `rows` | buddyinfo, pagetypeinfo, extfrag_index, vmstat, sysctls |
//! | `profile` | profiles and stacks |
//! | `events` | events of the kernel's tracer |
//! | `notices` | messages that are not about zones |
//!
//! The reader of zoneinfo is that of recordings.

mod envelope;
pub(crate) mod events;
mod framing;
pub(crate) mod heads;
pub(crate) mod histogram;
pub(crate) mod line;
pub(crate) mod mem_info;
pub(crate) mod notices;
pub(crate) mod prefix;
pub(crate) mod profile;
pub(crate) mod request;
pub(crate) mod rows;
pub(crate) mod tables;

use framing::{Framing, Read};
use pageset_trace::procfs::{PartialReader, PartialZone};

#[derive(Debug, Default)]
pub(crate) struct Texts {
    pub(crate) reports: Vec<mem_info::Report>,
    pub(crate) zoneinfo: Vec<PartialZone>,
    pub(crate) rows: rows::Rows,
    pub(crate) profile: profile::Profile,
    pub(crate) events: events::Events,
    pub(crate) notices: notices::Notices,
    /// Lines that are not blank.
    pub(crate) lines: u64,
    pub(crate) unknown: u64,
    /// The first unknown line: the input's name, the line's number and its text.
    pub(crate) first_unknown: Option<(String, u64, String)>,
}

/// Reads the inputs, each with its name.
pub(crate) fn read(inputs: &[(&str, &str)]) -> Texts {
    let mut readers = Readers::default();
    for (name, text) in inputs {
        let text = line::clean(text);
        let framing = Framing::of(&text, |part, framing| {
            let mut tried = Readers::default();
            tried.input(name, part, framing);
            tried.read
        });
        readers.input(name, &text, &framing);
    }
    readers.texts.profile = readers.profile.finish();
    readers.texts
}

/// The readers, and what they have read.
#[derive(Default)]
struct Readers {
    texts: Texts,
    profile: profile::Reader,
    /// How much of it; headings say nothing.
    read: Read,
}

impl Readers {
    fn input(&mut self, name: &str, text: &str, framing: &Framing) {
        let Readers { texts, profile, read } = self;
        texts.notices.tables.input(name);
        let mut zoneinfo = PartialReader::default();
        let mut mem_info = mem_info::Reader::default();
        line::each(text, framing, |line| {
            let trimmed = line.text.trim();
            // Fences of Markdown and HTML are no lines of a text.
            let is_blank = trimmed.is_empty() || trimmed.starts_with("```") || trimmed == "--"
                // What is left of a record of JSON after the message.
                || trimmed.starts_with("\",\"");
            if is_blank {
                profile.line("");
                return;
            }
            texts.lines += 1;
            // What a CPU executes is the beginning of a stack; the rest of a log does not need it.
            let is_stack = profile::is_executed(trimmed) || trimmed.starts_with("PerfTop:");
            let taken = is_stack && profile.line(line.text)
                || texts.events.line(line.text)
                || texts.rows.line(line.text)
                || zoneinfo.line(line.at, line.text).unwrap_or(false)
                || mem_info.line(line.text)
                || texts.rows.counter(trimmed)
                || profile.line(line.text);
            if line.parts > 1 {
                profile.breaks();
            }
            let taken = texts.notices.line(trimmed) || taken;
            match taken {
                true => read.known += 1,
                false => read.unknown.extend(line.at..line.at + line.parts),
            }
            if !taken && !is_heading(trimmed) {
                texts.unknown += 1;
                let first = || (name.to_owned(), line.at, line.raw.trim().chars().take(80).collect());
                texts.first_unknown.get_or_insert_with(first);
            }
        });
        texts.zoneinfo.extend(zoneinfo.finish());
        texts.reports.extend(mem_info.finish());
    }
}

/// Headings of tables that say nothing by themselves.
fn is_heading(text: &str) -> bool {
    const HEADINGS: &str = "Samples:|Samples |PerfTop:|irqs/sec|Attaching |Children |Overhead |contended |class name";
    text.starts_with('#') && !text.contains("cat ")
        || HEADINGS.split('|').any(|heading| text.contains(heading))
        || text.bytes().all(|b| b"-=._~ ".contains(&b))
}
