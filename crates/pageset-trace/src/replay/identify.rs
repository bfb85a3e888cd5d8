//! Which kernel's rules made a recording: every preset is replayed, and the kernel's refills and drains decide.

use pageset::tuning::{FallbackRule, PRESETS, Preset};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::agreement::{Deviation, agrees, deviations, explained_pct};
use super::{Level, Moves, Replay, ReplayError, RuleSet, Step};
use crate::trace::Trace;

/// Presets whose shares differ by less are not told apart. A guess: one refill of fifty in another place. Unit: percent.
const SAME_PCT: f64 = 2.0;
/// How much more another preset has to explain than the one that the release names, to be taken instead. A guess: the
/// rules of another era are off by far more, what a recording lacks by less. Unit: percent.
const CONTRADICTS_PCT: f64 = 15.0;
/// Refills and drains below which even a perfect match says little. A guess.
const FEW: u64 = 20;

/// One preset, and how well it explains the recording.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The preset.
    pub preset: &'static Preset,
    /// Other kernels' presets with the same rules.
    pub same: Vec<&'static str>,
    /// [`explained_pct`].
    pub explained_pct: f64,
    /// What it moves beside what the kernel moved.
    pub deviations: [Deviation; 4],
    /// Whether all of that is within the limits.
    pub agrees: bool,
}

impl Candidate {
    /// Whether this is the preset, or one with its rules.
    #[must_use]
    pub fn is(&self, name: &str) -> bool {
        self.preset.name == name || self.same.contains(&name)
    }
}

/// How far an identification may be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// The best set of rules agrees with the kernel, and explains more than all others.
    High,
    /// The best agrees, and others explain as much: they cannot be told apart on this traffic.
    Fair,
    /// The best does not agree, or there are too few refills and drains.
    Low,
}

impl Confidence {
    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::High => "high",
            Self::Fair => "fair",
            Self::Low => "low",
        }
    }
}

/// What the traffic says of the kernel.
#[derive(Clone, Debug)]
pub struct Identified {
    /// All kernels' presets, the best first.
    pub candidates: Vec<Candidate>,
    /// How many of the first cannot be told apart.
    pub alike: usize,
    /// How far to trust the first.
    pub confidence: Confidence,
    /// The preset that the recording's release names, if it has one.
    pub by_release: Option<&'static Preset>,
}

impl Identified {
    /// The preset to replay under: the one by the release unless the traffic contradicts it. It does where another agrees
    /// with the kernel, the named one does not, and the other explains far more.
    #[must_use]
    pub fn choice(&self) -> &'static Preset {
        let best = &self.candidates[0];
        let Some(named) = self.by_release else { return best.preset };
        let contradicted = self.confidence != Confidence::Low
            && self.candidates.iter().find(|c| c.is(named.name)).is_none_or(|candidate| {
                !candidate.agrees && best.explained_pct - candidate.explained_pct >= CONTRADICTS_PCT
            });
        if contradicted { best.preset } else { named }
    }
}

/// Prepares a replay under the rules that the release names, or under others if the traffic contradicts those. Where the
/// traffic does not agree with the release, the identification is returned as well. `progress` gets the number of events
/// read and of presets compared.
///
/// # Errors
/// A recording that cannot be replayed.
pub fn prepare<'t>(
    trace: &'t Trace,
    progress: &mut dyn FnMut(Step<'_>),
) -> Result<(Replay<'t>, Option<Identified>), ReplayError> {
    progress(Step::LookOver);
    let replay = Replay::prepare(trace, &mut |events| progress(Step::Events(events)))?;
    let events = &mut |events| progress(Step::Events(events));
    let outcome = replay.run(&replay.kernel_rules(), Level::Reconstructed, events)?;
    if agrees(&replay.kernel().totals(|_| true), &outcome.moves.totals(|_| true)) {
        return Ok((replay, None));
    }
    let identified = identify(trace, &mut |done, of| progress(Step::Presets { done, of }))?;
    let choice = identified.choice();
    if choice.tuning == replay.setting().kernel.tuning {
        return Ok((replay, Some(identified)));
    }
    let replay = Replay::prepare_as(trace, choice, &mut |events| progress(Step::Events(events)))?;
    Ok((replay, Some(identified)))
}

/// Ranks the presets of all kernels by how well each explains the kernel's refills and drains. `progress` is told
/// after each preset how many are done, and of how many.
///
/// # Errors
/// A recording that cannot be replayed.
pub fn identify(trace: &Trace, progress: &mut dyn FnMut(u64, u64)) -> Result<Identified, ReplayError> {
    let mut kernels: Vec<(&'static Preset, Vec<&'static str>)> = Vec::new();
    for preset in PRESETS.iter().filter(|preset| preset.name.starts_with("linux-")) {
        match kernels.iter_mut().find(|(first, _)| first.tuning == preset.tuning) {
            Some((_, same)) => same.push(preset.name),
            None => kernels.push((preset, vec![])),
        }
    }
    let as_recorded = Replay::prepare(trace, &mut |_| {})?;
    let moves = as_recorded.kernel().refills.len() + as_recorded.kernel().drains.len();
    let by_release = as_recorded.setting().kernel_known.then_some(as_recorded.setting().kernel);
    // What a look at the recording finds depends on the lists, on whether claims show as refills, and on the refill factor.
    let looks_alike = |a: &Preset, b: &Preset| {
        let claims = |preset: &Preset| preset.tuning.fallback == FallbackRule::ClaimThenSteal;
        a.tuning.lists == b.tuning.lists && claims(a) == claims(b) && a.tuning.alloc_factor == b.tuning.alloc_factor
    };
    let mut prepared = vec![as_recorded];
    let (mut outcomes, of) = (Vec::new(), kernels.len() as u64);
    for (done, (preset, same)) in (1..).zip(kernels) {
        let at = prepared.iter().position(|replay| looks_alike(replay.setting().kernel, preset));
        let at = match at {
            Some(at) => at,
            None => {
                prepared.push(Replay::prepare_as(trace, preset, &mut |_| {})?);
                prepared.len() - 1
            }
        };
        let rules = RuleSet::new(preset.name, prepared[at].tuning_of(preset));
        let outcome = prepared[at].run(&rules, Level::Reconstructed, &mut |_| {})?;
        outcomes.push((preset, same, outcome.moves));
        progress(done, of);
    }
    // Rules with fewer lists see fewer refills and drains. What the widest see has to be explained by all.
    let pages =
        |moves: &Moves| moves.refills.iter().chain(&moves.drains).map(|moved| u64::from(moved.pages)).sum::<u64>();
    let kernel = prepared.iter().map(Replay::kernel).max_by_key(|moves| pages(moves)).expect("one was prepared");
    let theirs = kernel.totals(|_| true);
    let candidate = |(preset, same, moves): (&'static Preset, Vec<&'static str>, Moves)| {
        let ours = moves.totals(|_| true);
        let (explained_pct, deviations) = (explained_pct(kernel, &moves), deviations(&theirs, &ours));
        Candidate { preset, same, explained_pct, deviations, agrees: agrees(&theirs, &ours) }
    };
    let candidates = outcomes.into_iter().map(candidate).collect();
    Ok(rank(candidates, moves as u64, by_release))
}

fn rank(mut candidates: Vec<Candidate>, moves: u64, by_release: Option<&'static Preset>) -> Identified {
    let key = |c: &Candidate| (c.explained_pct, c.agrees);
    candidates.sort_by(|a, b| key(b).partial_cmp(&key(a)).unwrap_or(std::cmp::Ordering::Equal));
    let best = candidates[0].explained_pct;
    let alike = candidates.iter().take_while(|c| best - c.explained_pct < SAME_PCT).count();
    let confidence = match (candidates[0].agrees, alike, moves) {
        (false, ..) | (_, _, ..FEW) => Confidence::Low,
        (true, 1, _) => Confidence::High,
        _ => Confidence::Fair,
    };
    Identified { candidates, alike, confidence, by_release }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(name: &str, explained_pct: f64, agrees: bool) -> Candidate {
        let deviations = deviations(&Default::default(), &Default::default());
        Candidate { preset: Preset::find(name).unwrap(), same: Vec::new(), explained_pct, deviations, agrees }
    }

    #[test]
    fn totals_that_agree_by_chance_do_not_decide() {
        // 6.12 under memory pressure: the drains of 6.19 are as many, and elsewhere.
        let candidates = vec![candidate("linux-6.19", 79.9, true), candidate("linux-6.12.29", 95.9, false)];
        let identified = rank(candidates, 800, Preset::find("linux-6.12.29"));
        assert_eq!((identified.choice().name, identified.confidence), ("linux-6.12.29", Confidence::Low));
        // Another explains a little more: what a recording lacks may do that.
        let candidates = vec![candidate("linux-5.14", 99.6, true), candidate("linux-6.1.104", 92.2, false)];
        assert_eq!(rank(candidates, 200, Preset::find("linux-6.1.104")).choice().name, "linux-6.1.104");
    }

    #[test]
    fn the_traffic_wins_over_the_release() {
        let found = |release: &str, candidates: Vec<Candidate>, moves| rank(candidates, moves, Preset::find(release));
        let apart = || vec![candidate("linux-5.18", 70.0, false), candidate("linux-6.1.104", 99.0, true)];
        let identified = found("linux-5.18", apart(), 500);
        assert_eq!((identified.choice().name, identified.confidence), ("linux-6.1.104", Confidence::High));
        let identified = found("linux-5.18", apart(), 5);
        assert_eq!((identified.choice().name, identified.confidence), ("linux-5.18", Confidence::Low));
        let alike = vec![candidate("linux-6.16", 99.0, true), candidate("linux-6.19", 98.5, true)];
        let identified = found("linux-6.19", alike, 500);
        assert_eq!((identified.choice().name, identified.confidence), ("linux-6.19", Confidence::Fair));
        let none = vec![candidate("linux-6.16", 99.0, false), candidate("linux-6.19", 50.0, false)];
        assert_eq!(found("linux-6.19", none, 500).choice().name, "linux-6.19", "nothing explains it");
    }
}
