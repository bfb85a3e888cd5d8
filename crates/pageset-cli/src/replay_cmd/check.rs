//! `--check`: whether a replay is as near to the kernel as it must be.

use pageset_trace::replay::Level;
use pageset_trace::replay::agreement::{Deviation, deviations};

use super::measure::{Report, Row, differs_pct};

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
    /// What is measured.
    pub(super) what: &'static str,
    /// The measured value in percent: a difference, or a share; nothing where there is no such number.
    pub(super) measured_pct: Option<f64>,
    /// The largest difference, or the smallest share.
    pub(super) allowed_pct: Option<f64>,
    /// The difference and what is allowed in pages or moves; nothing for a share, of which more is better.
    pub(super) deviation: Option<Deviation>,
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
    let within = |deviation: Deviation| Limit {
        what: deviation.limit.quantity.name(),
        measured_pct: differs_pct(deviation.replay, deviation.kernel),
        allowed_pct: Some(deviation.limit.pct),
        deviation: Some(deviation),
        verdict: verdict(true, deviation.is_within()),
    };
    let near_share = row.refills_near.map(|near| near.pct);
    let near = Limit {
        what: "refills near",
        measured_pct: near_share,
        allowed_pct: near_pct,
        deviation: None,
        // A kernel without refills has none that could be missed.
        verdict: verdict(
            near_pct.is_some() && near_share.is_some(),
            near_share.zip(near_pct).is_some_and(|(share, least)| share >= least),
        ),
    };
    let limits = deviations(&report.kernel.totals, &row.amounts.totals).map(within);
    Checked { name: row.name.clone(), level: row.level, limits: limits.into_iter().chain([near]).collect() }
}

fn verdict(judged: bool, passes: bool) -> Verdict {
    match (judged, passes) {
        (false, _) => Verdict::NotJudged,
        (true, true) => Verdict::Pass,
        (true, false) => Verdict::Fail,
    }
}
