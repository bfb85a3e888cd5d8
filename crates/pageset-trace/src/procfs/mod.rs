//! Parsers of the kernel's own texts: `/proc/zoneinfo`, `/proc/buddyinfo`, `/proc/pagetypeinfo`.
//!
//! Kernels from 4.x on differ in which lines they print and in what order. The parsers pass over lines that they do
//! not know and are strict about what a replay needs: an error names the line, what is wrong and what is allowed.

pub mod buddyinfo;
pub mod pagetypeinfo;
pub mod zoneinfo;

pub use buddyinfo::BuddyInfo;
pub use pagetypeinfo::PageTypeInfo;
pub use zoneinfo::{PagesetSection, ZoneSection, Zoneinfo};

/// Why a text could not be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}; allowed: {allowed}")]
pub struct ParseError {
    /// The line, counted from 1; one past the last where something is missing at the end.
    pub line: u64,
    /// What is wrong there.
    pub what: String,
    /// What would be right.
    pub allowed: String,
}

impl ParseError {
    pub(crate) fn new(line: u64, what: impl Into<String>, allowed: impl Into<String>) -> Self {
        ParseError { line, what: what.into(), allowed: allowed.into() }
    }
}

/// A word as it may stand in a message: in quotes, escaped, not longer than a line of a terminal.
pub(crate) fn quoted(word: &str) -> String {
    const MOST: usize = 40; // characters; a guess at what still reads well within a message
    let short: String = word.chars().take(MOST).collect();
    let more = if short.len() < word.len() { "…" } else { "" };
    format!("`{}{more}`", short.escape_debug())
}

/// The number `word`, which is the value of `name`.
fn number<T: std::str::FromStr>(line: u64, name: &str, word: &str, allowed: &str) -> Result<T, ParseError> {
    // `FromStr` of the integers takes a leading `+`, which the kernel never prints.
    let digits = !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit());
    match word.parse() {
        Ok(value) if digits => Ok(value),
        _ if digits => Err(ParseError::new(line, format!("{name} {} is too large", quoted(word)), allowed)),
        _ => Err(ParseError::new(line, format!("{name} {} is not a number", quoted(word)), allowed)),
    }
}

/// What a count may be.
const COUNT_ALLOWED: &str = "a decimal number from 0 to 2^64 - 1";
/// What a node or CPU number may be.
const ID_ALLOWED: &str = "a decimal number from 0 to 2^32 - 1";

/// The node and zone of a line `Node N, zone NAME REST`: the form that heads every section and row.
/// `REST` is what follows the name, without a comma that may follow it.
fn node_and_zone(line: u64, text: &str) -> Result<Option<(u32, &str, &str)>, ParseError> {
    let Some(rest) = text.strip_prefix("Node ") else { return Ok(None) };
    let form =
        || ParseError::new(line, format!("{} does not name a node and a zone", quoted(text)), "`Node N, zone NAME`");
    let (node, rest) = rest.split_once(',').ok_or_else(form)?;
    let node = number(line, "node", node.trim(), ID_ALLOWED)?;
    let rest = rest.trim_start().strip_prefix("zone").filter(|r| r.starts_with(' ')).ok_or_else(form)?.trim_start();
    let end = rest.find([' ', ',', '\t']).unwrap_or(rest.len());
    let (name, rest) = rest.split_at(end);
    if name.is_empty() {
        return Err(form());
    }
    Ok(Some((node, name, rest.strip_prefix(',').unwrap_or(rest))))
}

/// Zones in one text, at most: 1024 nodes, the kernel's own limit, of 6 zones each, rounded up. It bounds the work that
/// a hostile text can cause, since rows are looked up by walking the zones.
const MAX_ZONES: usize = 8192;

/// Checks that one more zone may follow `zones`.
fn room_for_zone(line: u64, zones: usize) -> Result<(), ParseError> {
    if zones < MAX_ZONES {
        return Ok(());
    }
    Err(ParseError::new(line, format!("more than {MAX_ZONES} zones"), format!("at most {MAX_ZONES}")))
}
