//! The result of `pageset replay --identify`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::replay::Totals;
use crate::replay::identify::{Candidate, Confidence, Identified};
use crate::trace::Trace;

schema!("pageset.identify/1");

/// The kernel rules that fit a recording best.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Identification {
    /// `pageset.identify/1`.
    pub schema: Schema,
    /// The recording's name.
    pub recording: String,
    /// The release of the recorded kernel, if known.
    pub kernel_release: Option<String>,
    /// The preset that the release names; null where the recording has none.
    pub by_release: Option<String>,
    /// The preset to replay under.
    pub choice: String,
    /// The confidence in the first candidate.
    pub confidence: Confidence,
    /// The number of first candidates that this traffic does not distinguish.
    pub alike: usize,
    /// The presets of all kernels, the best first.
    pub candidates: Vec<Explanation>,
    /// The kernel's moves. Only in memory.
    #[serde(skip)]
    pub kernel: Totals,
}

/// How well a preset explains the recording.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Explanation {
    /// The preset.
    pub rules: String,
    /// Other kernels' presets with the same rules.
    pub same: Vec<String>,
    /// The share of the moved pages that the kernel and the replay both move near the same place, in percent.
    #[schemars(extend("heading" = "explained", "as" = "explained"))]
    pub explained_pct: f64,
    /// Whether all four quantities are within the limits of `replay --check`.
    pub agrees: bool,
    /// Pages that refills move.
    pub refill_pages: u64,
    /// Refills.
    pub refills: u64,
    /// Pages that drains move.
    pub drain_pages: u64,
    /// Drains.
    pub drains: u64,
}

impl Identification {
    /// The result for a recording.
    pub fn new(trace: &Trace, identified: &Identified) -> Self {
        let row = |candidate: &Candidate| {
            let [refill_pages, refills, drain_pages, drains] = candidate.deviations.map(|deviation| deviation.replay);
            Explanation {
                rules: candidate.preset.name.to_owned(),
                same: candidate.same.iter().map(|name| (*name).to_owned()).collect(),
                explained_pct: candidate.explained_pct,
                agrees: candidate.agrees,
                refill_pages,
                refills,
                drain_pages,
                drains,
            }
        };
        let of_kernel = identified.candidates[0].deviations.map(|deviation| deviation.kernel);
        let [refill_pages, refills, drain_pages, drains] = of_kernel;
        Identification {
            schema: Schema::V1,
            recording: trace.name().to_owned(),
            kernel_release: trace.facts().kernel_release.clone(),
            by_release: identified.by_release.map(|preset| preset.name.to_owned()),
            choice: identified.choice().name.to_owned(),
            confidence: identified.confidence,
            alike: identified.alike,
            candidates: identified.candidates.iter().map(row).collect(),
            kernel: Totals { refills, refill_pages, drains, drain_pages },
        }
    }

    /// The first candidates, which this traffic does not distinguish.
    pub fn best(&self) -> &[Explanation] {
        &self.candidates[..self.alike]
    }

    /// Whether a candidate is the choice or has the same rules.
    pub fn is_choice(&self, candidate: &Explanation) -> bool {
        candidate.rules == self.choice || candidate.same.contains(&self.choice)
    }
}
