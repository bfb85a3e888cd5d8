//! `--check`: whether a replay is as near to the kernel as it must be. Specification: `trace-replay.md` 1.

use pageset_trace::replay::Level;

use super::measure::{Report, Row, differs_pct};

/// How far refill pages, refills and drain pages may be off, in percent. Specification: `trace-replay.md` 1.
pub(crate) const REFILL_PAGES_PCT: f64 = 2.0;
pub(crate) const REFILLS_PCT: f64 = 5.0;
pub(crate) const DRAIN_PAGES_PCT: f64 = 6.0;
/// Drain pages of the kernel from which they are judged. Specification: `trace-replay.md` 1.
pub(crate) const DRAIN_PAGES_JUDGED: u64 = 5_000;

/// The limits of one set of rules.
pub(super) struct Checked {
    /// The rules' name.
    pub(super) name: String,
    /// What the replay was allowed to use.
    pub(super) level: Level,
    /// Each limit, judged or not.
    pub(super) limits: Vec<Limit>,
}

/// One limit and what was measured.
pub(super) struct Limit {
    /// What is measured: a difference from the kernel, or a share, in percent.
    pub(super) what: &'static str,
    /// The measured value in percent; nothing where there is no such number.
    pub(super) measured_pct: Option<f64>,
    /// The largest difference, or the smallest share.
    pub(super) allowed_pct: Option<f64>,
    /// Whether it is a share, of which more is better.
    pub(super) is_share: bool,
    /// How it ended.
    pub(super) verdict: Verdict,
}

/// How a limit ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    Pass,
    Fail,
    /// Too little, or not asked for.
    NotJudged,
}

impl Verdict {
    /// The word for it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Verdict::Pass => "pass",
            Verdict::Fail => "fail",
            Verdict::NotJudged => "not judged",
        }
    }
}

impl Checked {
    /// Whether no limit failed.
    pub(super) fn passed(&self) -> bool {
        self.limits.iter().all(|limit| limit.verdict != Verdict::Fail)
    }
}

/// Checks each named set of rules; `near_pct` is the share of refills near the kernel's to ask for.
pub(super) fn check(report: &Report<'_>, near_pct: Option<f64>) -> Vec<Checked> {
    report.named().map(|row| of_row(report, row, near_pct)).collect()
}

fn of_row(report: &Report<'_>, row: &Row, near_pct: Option<f64>) -> Checked {
    let (ours, kernel) = (row.amounts.totals, report.kernel.totals);
    let within = |what, ours, kernel, allowed: f64, judged| {
        let measured_pct = differs_pct(ours, kernel);
        let passes = measured_pct.is_some_and(|pct| pct.abs() <= allowed);
        let verdict = verdict(judged, passes);
        Limit { what, measured_pct, allowed_pct: Some(allowed), is_share: false, verdict }
    };
    let drains_judged = kernel.drain_pages >= DRAIN_PAGES_JUDGED;
    let near = Limit {
        what: "refills near",
        measured_pct: row.refills_near_pct,
        allowed_pct: near_pct,
        is_share: true,
        // A kernel without refills has none that could be missed.
        verdict: verdict(
            near_pct.is_some() && row.refills_near_pct.is_some(),
            row.refills_near_pct.zip(near_pct).is_some_and(|(share, least)| share >= least),
        ),
    };
    Checked {
        name: row.name.clone(),
        level: row.level,
        limits: vec![
            within("refill pages", ours.refill_pages, kernel.refill_pages, REFILL_PAGES_PCT, true),
            within("refills", ours.refills, kernel.refills, REFILLS_PCT, true),
            within("drain pages", ours.drain_pages, kernel.drain_pages, DRAIN_PAGES_PCT, drains_judged),
            near,
        ],
    }
}

fn verdict(judged: bool, passes: bool) -> Verdict {
    match (judged, passes) {
        (false, _) => Verdict::NotJudged,
        (true, true) => Verdict::Pass,
        (true, false) => Verdict::Fail,
    }
}
