//! What an agent says of its machine, in one line of JSON.

use pageset_trace::printable::printable;
use pageset_trace::verdict::machine::{Finding, KEYS, Larger, Level};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::recorder::is_plain;

/// A machine over one interval, in JSON of the schema `pageset.agent/1`: ns, pages, counts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Line {
    /// The form of the JSON, with its version. Within a version the meaning of a member never changes.
    pub schema: String,
    /// The machine's name, which must be its own in the fleet.
    pub host: String,
    /// The running kernel, as in `uname -r`; null if unknown.
    #[schemars(extend("as" = "kernel_release"))]
    pub kernel: Option<String>,
    /// The CPUs that are on-line.
    pub cpus: u32,
    /// The memory nodes (NUMA).
    pub nodes: u32,
    /// The end of the interval. Unit: nanoseconds since 1970, by a clock that may jump.
    pub time_ns: Option<u64>,
    /// The length of the interval, by a clock that does not jump. Unit: nanoseconds.
    pub interval_ns: Option<u64>,
    /// How refills and drains are counted: `bpf`; null if they are not counted.
    pub counted_by: Option<String>,
    /// Whether lists tune themselves: `on`, `off-by-fraction`, `off-by-bounds`, `not-in-kernel` or `unknown`.
    pub auto_tuning: String,
    /// `vm.percpu_pagelist_high_fraction`, 0 for none; null if unknown.
    pub high_fraction: Option<u32>,
    /// The rules that the kernel's version has, or its lists where the two disagree: a preset's name.
    pub rules: String,
    /// Whether the version is known. If not, the rules are guessed from the form of zoneinfo.
    pub known: bool,
    /// Whether the kernel tunes lists although its version does not: the sizes of its lists contradict the rules.
    pub is_another: bool,
    /// Pages per second that all CPUs took from zones under zone locks; null if they are not counted.
    pub refill_pages_per_s: Option<f64>,
    /// Pages per second that all CPUs returned to zones; null if they are not counted.
    pub drain_pages_per_s: Option<f64>,
    /// Nanoseconds per second that all CPUs together waited for zone locks; null if waits are not measured.
    pub zone_lock_wait_ns_per_s: Option<f64>,
    /// The zones that have pages.
    pub zones: Vec<Zone>,
    /// The verdict: that of `pageset top` over the same interval.
    pub verdict: Verdict,
    /// The file of the agent's latest recording on this machine, if the verdict needs one; null if there is none, or it is too old.
    pub recording: Option<String>,
    /// What the agent cannot tell, each with the reason.
    pub missing: Vec<String>,
}

/// A zone at the end of the interval. Unit: pages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Zone {
    /// The zone's node and name: `0 Normal`.
    pub zone: String,
    /// Pages of the zone that belong to the allocator.
    pub managed: u64,
    /// Pages on the zone's free lists, without those in pagesets.
    pub free: u64,
    /// The low watermark.
    pub low: u64,
    /// Pages in pagesets.
    pub held: u64,
    /// Change of the pages in pagesets over the interval; null if the zone is new.
    pub held_change: Option<i64>,
}

/// What the interval shows, and what to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    /// The verdict's name, such as `healthy` or `tuning-off`; `pageset explain NAME` describes it.
    pub key: String,
    /// How urgent it is.
    pub level: Level,
    /// The verdict in a sentence without its full stop.
    pub sentence: String,
    /// The setting that may help, as `sysctl -w` takes it; null if none is known.
    pub set: Option<String>,
    /// Whether only a recording (`pageset advise --live 5`) can say what to do.
    pub needs_recording: bool,
}

impl From<&Finding> for Verdict {
    fn from(finding: &Finding) -> Verdict {
        Verdict {
            key: finding.key().to_owned(),
            level: finding.level(),
            sentence: finding.sentence(),
            set: finding.set().map(|set| Larger::text(set).to_owned()),
            needs_recording: finding.needs_recording(),
        }
    }
}

impl Line {
    /// The name and version of the JSON.
    pub const SCHEMA: &'static str = "pageset.agent/1";

    /// Parses a line.
    ///
    /// # Errors
    /// What is wrong with the line, without its place.
    pub fn parse(text: &[u8]) -> Result<Line, String> {
        let line: Line = serde_json::from_slice(text).map_err(|error| printable(&wrong(text, &error)).into_owned())?;
        let is_amount = |value: Option<f64>| value.is_none_or(|value| value >= 0.0);
        // Names reach a terminal, and settings a person who follows them.
        let is_name = |text: &str| printable(text) == text;
        let settings = [Larger::Tune, Larger::Eighth].map(Larger::text);
        match &line {
            line if line.schema != Line::SCHEMA => Err(printable(&other_schema(&line.schema)).into_owned()),
            line if line.host.is_empty() => Err("the member host is empty; allowed: a machine's name".to_owned()),
            line if line.cpus == 0 => Err("the member cpus is 0; allowed: 1 and more".to_owned()),
            line if !is_amount(line.zone_lock_wait_ns_per_s) => {
                Err("a negative time of waits; allowed: 0 and more".to_owned())
            }
            line if !is_name(&line.host) || !line.kernel.as_deref().is_none_or(is_name) => {
                Err("host or kernel has control characters; allowed: one line of text".to_owned())
            }
            line if !KEYS.contains(&line.verdict.key.as_str()) => {
                Err(format!("the verdict {} is unknown; allowed: {}", printable(&line.verdict.key), KEYS.join(", ")))
            }
            line if !line.verdict.set.as_deref().is_none_or(|set| settings.contains(&set)) => {
                Err(format!("an unknown setting; allowed: {}", settings.join(", ")))
            }
            line if !line.recording.as_deref().is_none_or(is_plain) => {
                Err("the file of the recording has an unusual name; allowed: / and letters, digits, . _ -".to_owned())
            }
            _ => Ok(line),
        }
    }

    /// A line of which only the verdict is known.
    pub(crate) fn of(verdict: Verdict) -> Line {
        Line {
            schema: Line::SCHEMA.to_owned(),
            host: String::new(),
            kernel: None,
            cpus: 1,
            nodes: 1,
            time_ns: None,
            interval_ns: None,
            counted_by: None,
            auto_tuning: "unknown".to_owned(),
            high_fraction: None,
            rules: String::new(),
            known: true,
            is_another: false,
            refill_pages_per_s: None,
            drain_pages_per_s: None,
            zone_lock_wait_ns_per_s: None,
            zones: Vec::new(),
            verdict,
            recording: None,
            missing: Vec::new(),
        }
    }

    /// Whether the verdict is about zone locks.
    pub(crate) fn is_about_locks(&self) -> bool {
        self.verdict.set.is_some() || self.verdict.needs_recording
    }
}

fn other_schema(schema: &str) -> String {
    format!("the schema is {schema}; allowed: {}", Line::SCHEMA)
}

/// Why a line is no agent's: another schema is named rather than the member that it lacks.
fn wrong(text: &[u8], error: &serde_json::Error) -> String {
    #[derive(Deserialize)]
    struct Named {
        schema: String,
    }
    match serde_json::from_slice::<Named>(text) {
        Ok(named) if named.schema != Line::SCHEMA => other_schema(&named.schema),
        // The place in the file is said elsewhere; a line's only line is no news.
        _ => error.to_string().replace(" at line 1 column ", ", at column "),
    }
}
