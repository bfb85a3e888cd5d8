//! Identifies the kernel rules of a recording: replays every preset and compares its refills and drains with the
//! kernel's.

use pageset::policy::{FallbackRule, PRESETS, Preset, TUNED_6_6};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::agreement::{Deviation, agrees, deviations, explained_pct};
use super::parallel::{Progress, run_all};
use super::{Decoded, Level, Moves, Replay, ReplayError, RuleSet, survey};
use crate::error::TraceError;
use crate::trace::Trace;

/// Presets whose shares differ by less cannot be distinguished. A guess: one of fifty refills at another place. Unit:
/// percent.
const SAME_PCT: f64 = 2.0;
/// The margin by which another preset must explain more than the one that the release names. A guess: rules of another
/// era differ far more, and gaps in a recording explain less. Unit: percent.
const CONTRADICTS_PCT: f64 = 15.0;
/// The release whose rules some distributions replace with [`TUNED_6_6`].
const WITHOUT_TUNING: &str = "linux-6.6.37";
/// The number of refills and drains below which even a perfect match proves little. A guess.
const MOVES_MIN: u64 = 20;

/// A preset, and how well it explains the recording.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The preset.
    pub preset: &'static Preset,
    /// Other kernels' presets with the same rules.
    pub same: Vec<&'static str>,
    /// [`explained_pct`].
    pub explained_pct: f64,
    /// The preset's moves compared with the kernel's.
    pub deviations: [Deviation; 4],
    /// Whether all deviations are within the limits.
    pub agrees: bool,
}

impl Candidate {
    /// Whether this is the preset called `name`, or one with the same rules.
    #[must_use]
    pub fn is(&self, name: &str) -> bool {
        self.preset.name == name || self.same.contains(&name)
    }
}

/// The confidence in an identification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// The best preset agrees with the kernel and explains more than all others.
    High,
    /// The best preset agrees with the kernel, but others explain as much: this traffic does not distinguish them.
    Fair,
    /// The best preset does not agree with the kernel, or there are too few refills and drains.
    Low,
}

impl Confidence {
    /// The name in tables and in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::High => "high",
            Self::Fair => "fair",
            Self::Low => "low",
        }
    }
}

/// The result of an identification.
#[derive(Clone, Debug)]
pub struct Identified {
    /// All kernels' presets, the best first.
    pub candidates: Vec<Candidate>,
    /// The number of first candidates that cannot be distinguished.
    pub alike: usize,
    /// The confidence in the first candidate.
    pub confidence: Confidence,
    /// The preset that the recording's release names, if the recording has a release.
    pub by_release: Option<&'static Preset>,
}

impl Identified {
    /// The preset to replay under: the release's preset, unless the traffic contradicts it. The traffic contradicts it
    /// if another preset agrees with the kernel, the release's preset does not, and the other explains far more. Of presets that
    /// the traffic does not distinguish, a 6.6 has the one that is known of 6.6.
    #[must_use]
    pub fn choice(&self) -> &'static Preset {
        let best = &self.candidates[0];
        let Some(named) = self.by_release else { return best.preset };
        let contradicted = self.confidence != Confidence::Low
            && self.candidates.iter().find(|c| c.is(named.name)).is_none_or(|candidate| {
                !candidate.agrees && best.explained_pct - candidate.explained_pct >= CONTRADICTS_PCT
            });
        let tuned = || {
            let is_alike =
                named.name == WITHOUT_TUNING && self.candidates[..self.alike].iter().any(|c| c.is(TUNED_6_6));
            Preset::find(TUNED_6_6).filter(|_| is_alike)
        };
        if contradicted { tuned().unwrap_or(best.preset) } else { named }
    }
}

/// Ranks the presets of all kernels by how well each explains the kernel's refills and drains. After each preset,
/// reports the presets done and their total to `progress`.
///
/// # Errors
/// If the recording cannot be replayed.
pub fn identify(trace: &Trace, progress: &mut dyn FnMut(u64, u64)) -> Result<Identified, ReplayError> {
    compare(&Decoded::new(trace, &mut |_| {})?, None, progress)
}

/// Like [`identify`], of a recording that is surveyed as recorded already.
pub(crate) fn identify_surveyed(
    replay: &Replay<'_>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Identified, ReplayError> {
    compare(&replay.decoded, Some(replay), progress)
}

fn compare(
    decoded: &Decoded<'_>,
    as_recorded: Option<&Replay<'_>>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Identified, ReplayError> {
    let mut kernels: Vec<(&'static Preset, Vec<&'static str>)> = Vec::new();
    for preset in PRESETS.iter().filter(|preset| preset.name.starts_with("linux-")) {
        match kernels.iter_mut().find(|(first, _)| first.tuning == preset.tuning) {
            Some((_, same)) => same.push(preset.name),
            None => kernels.push((preset, vec![])),
        }
    }
    // The survey's result depends on the lists, on whether claims show as refills, and on the refill factor.
    let same_survey = |a: &Preset, b: &Preset| {
        let claims = |preset: &Preset| preset.tuning.fallback == FallbackRule::ClaimThenSteal;
        a.tuning.lists == b.tuning.lists && claims(a) == claims(b) && a.tuning.alloc_factor == b.tuning.alloc_factor
    };
    let mut surveys = vec![decoded.setting.kernel];
    for (preset, _) in &kernels {
        if !surveys.iter().any(|surveyed| same_survey(surveyed, preset)) {
            surveys.push(preset);
        }
    }
    let prepared = surveyed(decoded, as_recorded, &surveys)?;
    let moves = prepared[0].kernel().refills.len() + prepared[0].kernel().drains.len();
    let by_release = decoded.setting.kernel_known.then_some(decoded.setting.kernel);
    let run = |(preset, _): &(&'static Preset, Vec<&'static str>), count: &mut dyn FnMut(u64)| {
        let at = surveys.iter().position(|surveyed| same_survey(surveyed, preset)).expect("each preset has a survey");
        let rules = RuleSet::new(preset.name, prepared[at].tuning_of(preset));
        Ok::<_, ReplayError>(prepared[at].run(&rules, Level::Reconstructed, count)?.moves)
    };
    let of = kernels.len() as u64;
    let all_moves = run_all(&kernels, prepared[0].threads(), run, &mut |step| {
        if let Progress::Begin(done @ 1..) = step {
            progress(done as u64, of);
        }
    })?;
    progress(of, of);
    let outcomes = kernels.into_iter().zip(all_moves).map(|((preset, same), moves)| (preset, same, moves));
    // Rules with fewer lists show fewer of the kernel's refills and drains. All presets must explain the moves of the
    // survey that shows the most.
    let pages =
        |moves: &Moves| moves.refills.iter().chain(&moves.drains).map(|moved| u64::from(moved.pages)).sum::<u64>();
    let kernel = prepared.iter().map(Replay::kernel).max_by_key(|moves| pages(moves)).expect("one was prepared");
    let kernel_totals = kernel.totals(|_| true);
    let candidate = |(preset, same, moves): (&'static Preset, Vec<&'static str>, Moves)| {
        let replay_totals = moves.totals(|_| true);
        let (explained_pct, deviations) = (explained_pct(kernel, &moves), deviations(&kernel_totals, &replay_totals));
        Candidate { preset, same, explained_pct, deviations, agrees: agrees(&kernel_totals, &replay_totals) }
    };
    let candidates = outcomes.map(candidate).collect();
    Ok(rank(candidates, moves as u64, by_release))
}

/// Surveys a recording under the rules of each kernel. The first kernel is the recorded one, of which there may be a
/// survey already. The surveys that need a first pass of their own come first; the others share it.
fn surveyed<'t>(
    decoded: &Decoded<'t>,
    as_recorded: Option<&Replay<'t>>,
    kernels: &[&'static Preset],
) -> Result<Vec<Replay<'t>>, TraceError> {
    let mut prepared: Vec<Option<Replay<'t>>> = kernels.iter().map(|_| None).collect();
    prepared[0] = as_recorded.cloned();
    let first = |kernel: &&'static Preset| survey::preemptible(&decoded.setting.tuning_of(kernel));
    let firsts = [false, true].into_iter().filter_map(|kind| kernels.iter().position(|kernel| first(kernel) == kind));
    for at in [firsts.collect::<Vec<_>>(), (0..kernels.len()).collect()] {
        let at: Vec<usize> = at.into_iter().filter(|&at| prepared[at].is_none()).collect();
        let survey = |&at: &usize, count: &mut dyn FnMut(u64)| {
            let known = kernels.iter().zip(&prepared).filter(|(kernel, _)| first(kernel) == first(&kernels[at]));
            match known.filter_map(|(_, replay)| replay.as_ref()).next() {
                Some(replay) => replay.under(kernels[at], count),
                None => decoded.survey(kernels[at], None, count),
            }
        };
        let found = run_all(&at, decoded.threads(0), survey, &mut |_| {})?;
        at.into_iter().zip(found).for_each(|(at, replay)| prepared[at] = Some(replay));
    }
    Ok(prepared.into_iter().flatten().collect())
}

fn rank(mut candidates: Vec<Candidate>, moves: u64, by_release: Option<&'static Preset>) -> Identified {
    let key = |c: &Candidate| (c.explained_pct, c.agrees);
    candidates.sort_by(|a, b| key(b).partial_cmp(&key(a)).unwrap_or(std::cmp::Ordering::Equal));
    let best = candidates[0].explained_pct;
    let alike = candidates.iter().take_while(|c| best - c.explained_pct < SAME_PCT).count();
    let confidence = match (candidates[0].agrees, alike, moves) {
        (false, ..) | (_, _, ..MOVES_MIN) => Confidence::Low,
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
    fn a_shared_first_pass_changes_no_survey() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../traces/lab/6.12-amd64.4cpu.thp.pstrace");
        let trace = Trace::open(path.as_ref()).unwrap();
        let decoded = Decoded::new(&trace, &mut |_| {}).unwrap();
        let names = [decoded.setting.kernel.name, "linux-4.19", "linux-5.18", "linux-6.7", "linux-6.18"];
        let kernels = names.map(|name| Preset::find(name).unwrap());
        let text = |replay: &Replay<'_>| format!("{:?}", replay.survey);
        let own = kernels.map(|kernel| decoded.survey(kernel, None, &mut |_| {}).unwrap());
        for as_recorded in [None, Some(&own[0])] {
            let shared = surveyed(&decoded, as_recorded, &kernels).unwrap();
            assert!(own.iter().map(text).eq(shared.iter().map(text)));
        }
    }

    #[test]
    fn agreement_by_chance_does_not_override_the_release() {
        // 6.12 under memory pressure: 6.19 has as many drains, at other places.
        let candidates = vec![candidate("linux-6.19", 79.9, true), candidate("linux-6.12.29", 95.9, false)];
        let identified = rank(candidates, 800, Preset::find("linux-6.12.29"));
        assert_eq!((identified.choice().name, identified.confidence), ("linux-6.12.29", Confidence::Low));
        // Another preset explains slightly more, which gaps in a recording can cause.
        let candidates = vec![candidate("linux-5.14", 99.6, true), candidate("linux-6.1.104", 92.2, false)];
        assert_eq!(rank(candidates, 200, Preset::find("linux-6.1.104")).choice().name, "linux-6.1.104");
    }

    #[test]
    fn the_traffic_overrides_the_release() {
        let found = |release: &str, candidates: Vec<Candidate>, moves| rank(candidates, moves, Preset::find(release));
        let distinct = || vec![candidate("linux-5.18", 70.0, false), candidate("linux-6.1.104", 99.0, true)];
        let identified = found("linux-5.18", distinct(), 500);
        assert_eq!((identified.choice().name, identified.confidence), ("linux-6.1.104", Confidence::High));
        let identified = found("linux-5.18", distinct(), 5);
        assert_eq!((identified.choice().name, identified.confidence), ("linux-5.18", Confidence::Low));
        let alike = vec![candidate("linux-6.16", 99.0, true), candidate("linux-6.19", 98.5, true)];
        let identified = found("linux-6.19", alike, 500);
        assert_eq!((identified.choice().name, identified.confidence), ("linux-6.19", Confidence::Fair));
        let none = vec![candidate("linux-6.16", 99.0, false), candidate("linux-6.19", 50.0, false)];
        assert_eq!(found("linux-6.19", none, 500).choice().name, "linux-6.19", "no preset agrees");
        // Distributions have the auto-tuning in 6.6, and in no other release before it.
        let tuned = |explained_pct: f64| {
            let known = Candidate { same: vec![TUNED_6_6], ..candidate("linux-6.9.8", explained_pct, true) };
            vec![candidate("linux-6.12.0", 99.0, true), known, candidate("linux-6.6.37", 60.0, false)]
        };
        assert_eq!(found("linux-6.6.37", tuned(98.0), 500).choice().name, TUNED_6_6);
        assert_eq!(found("linux-6.6.37", tuned(90.0), 500).choice().name, "linux-6.12.0", "clearly worse");
        assert_eq!(found("linux-6.1.104", tuned(98.0), 500).choice().name, "linux-6.12.0");
    }
}
