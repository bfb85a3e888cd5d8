//! Parsers of `/proc/zoneinfo`, `/proc/buddyinfo` and `/proc/pagetypeinfo`.
//!
//! Kernels from 4.x on print different lines in different orders. The parsers skip unknown lines and are strict about
//! the data that a replay needs. An error names the line, the fault and the allowed values.

pub mod buddyinfo;
pub mod pagetypeinfo;
pub mod zoneinfo;

pub use buddyinfo::BuddyInfo;
pub use pagetypeinfo::PageTypeInfo;
pub use zoneinfo::{PagesetSection, PartialPageset, PartialReader, PartialZone, ZoneSection, Zoneinfo};

/// An error in a text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}; allowed: {allowed}")]
pub struct ParseError {
    /// The line, counted from 1; one past the last line if something is missing at the end.
    pub line: u64,
    /// The fault.
    pub what: String,
    /// The allowed values.
    pub allowed: String,
}

impl ParseError {
    pub(crate) fn new(line: u64, what: impl Into<String>, allowed: impl Into<String>) -> Self {
        ParseError { line, what: what.into(), allowed: allowed.into() }
    }
}

/// Quotes a word for a message: escaped, and shortened to fit a terminal line.
pub(crate) fn quoted(word: &str) -> String {
    const CHARS_MAX: usize = 40; // a guess: readable within a message
    let short: String = word.chars().take(CHARS_MAX).collect();
    let more = if short.len() < word.len() { "…" } else { "" };
    format!("`{}{more}`", short.escape_debug())
}

/// Parses the number `word`, the value of `name`.
fn number<T: std::str::FromStr>(line: u64, name: &str, word: &str, allowed: &str) -> Result<T, ParseError> {
    // `FromStr` of integers accepts a leading `+`, which the kernel never prints.
    let digits = !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit());
    match word.parse() {
        Ok(value) if digits => Ok(value),
        _ if digits => Err(ParseError::new(line, format!("{name} {} is too large", quoted(word)), allowed)),
        _ => Err(ParseError::new(line, format!("{name} {} is not a number", quoted(word)), allowed)),
    }
}

/// The allowed values of a count.
const COUNT_ALLOWED: &str = "a decimal number from 0 to 2^64 - 1";
/// The allowed values of a node or CPU number.
const ID_ALLOWED: &str = "a decimal number from 0 to 2^32 - 1";

/// Parses the node and zone of a line `Node N, zone NAME REST`, which heads every section and row. `REST` is the text
/// after the name, without a leading comma.
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

/// The largest number of zones in one text: 1024 nodes, the kernel's limit, of 6 zones each, rounded up. It bounds the
/// time that a hostile text takes, because parsers search the zones linearly.
const MAX_ZONES: usize = 8192;

/// Checks that another zone may follow `zones` zones.
fn room_for_zone(line: u64, zones: usize) -> Result<(), ParseError> {
    if zones < MAX_ZONES {
        return Ok(());
    }
    Err(ParseError::new(line, format!("more than {MAX_ZONES} zones"), format!("at most {MAX_ZONES}")))
}
