//! The result of `pageset explain FILE`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The name and version of the result.
pub const SCHEMA: &str = "pageset.explain/1";

/// What texts say. Unit of all amounts: pages, unless a name says otherwise.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Explanation {
    /// The name and version of this result.
    pub schema: String,
    /// The answer: one sentence.
    pub answer: String,
    /// What the answer rests on, and what else the texts show.
    pub findings: Vec<Finding>,
    /// What to set or to record next.
    pub next: Vec<Step>,
    /// The request that the kernel's message is about; null without a message.
    pub request: Option<Request>,
    /// The zones of the texts.
    pub zones: Vec<Zone>,
    /// The locks that stacks wait for, the most waited for first.
    pub waits: Vec<Wait>,
    /// Whether the lists of pages tune themselves: on, off or unknown; null if the texts have no lists.
    pub auto_tuning: Option<String>,
    /// The bytes of a page, as the texts show it; 4096 if they do not.
    pub page_bytes: u64,
    /// The kernel's release, if the texts have it.
    pub release: Option<String>,
    /// Lines that were not blank.
    pub lines: u64,
    /// Lines that were not understood.
    pub lines_unknown: u64,
    /// The first line that was not understood; null if there is none.
    pub first_unknown: Option<Unknown>,
}

/// A line that was not understood.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Unknown {
    /// The file's name; `-` for standard input.
    pub file: String,
    /// The number of the line, from 1.
    pub line: u64,
    /// Its beginning.
    pub text: String,
}

/// A finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// The name, such as `memory-short`.
    pub name: String,
    /// A sentence.
    pub text: String,
}

/// Something to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Step {
    /// What it is for.
    pub what: String,
    /// The command; null if none does it.
    pub command: Option<String>,
}

/// A request that failed or waited.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Request {
    /// The process, if it is printed.
    pub process: Option<String>,
    /// The order, if it is printed.
    pub order: Option<u8>,
    /// The flags as printed.
    pub flags: Option<String>,
    /// The highest zone that may serve the request.
    pub highest_zone: Option<String>,
    /// Whether the request may wait for reclaim.
    pub may_wait: Option<bool>,
}

/// A zone of the texts.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Zone {
    /// The node's number, if it is printed.
    pub node: Option<u32>,
    /// The zone's name; empty if the text is cut before it.
    pub zone: String,
    /// Free pages.
    pub free: Option<u64>,
    /// The min watermark, with a boost.
    pub min: Option<u64>,
    /// The low watermark.
    pub low: Option<u64>,
    /// The high watermark.
    pub high: Option<u64>,
    /// Pages that the buddy manages.
    pub managed: Option<u64>,
    /// Pages kept from the request, or from an ordinary one if the texts have none; null if the zone serves no such request.
    pub reserve: Option<u64>,
    /// Whether the marks let the zone serve that request; null if it may not at all, or if the marks are not known.
    pub serves: Option<bool>,
    /// Pages in per-CPU lists.
    pub held: Option<u64>,
    /// Free blocks of order 0, 1, …; empty if not known.
    pub free_blocks: Vec<u64>,
}

/// Waits for a lock.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Wait {
    /// The lock.
    pub lock: String,
    /// Its share of all waits for locks. Unit: per cent.
    pub share_pct: f64,
    /// The functions that take it, the most frequent first.
    pub callers: Vec<String>,
}
