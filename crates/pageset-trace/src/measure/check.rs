//! Checks a replay against the limits of its differences from the kernel.

use super::model::{Check, Limit, ReplayResult, Replayed, Verdict, differs_pct};
use crate::replay::agreement::{Deviation, deviations};

impl ReplayResult {
    /// Checks each named set of rules. `near_pct` is the required share of refills near the kernel's, in percent.
    pub fn checked(&self, near_pct: Option<f64>) -> Check {
        let limits: Vec<Limit> = self.named().flat_map(|row| self.limits(row, near_pct)).collect();
        Check { passed: limits.iter().all(|limit| limit.verdict != Verdict::Fail), limits }
    }

    /// The rows of the named rules.
    pub fn named(&self) -> impl Iterator<Item = &Replayed> {
        self.rules.iter().filter(|row| row.level == self.level)
    }

    fn limits(&self, row: &Replayed, near_pct: Option<f64>) -> impl Iterator<Item = Limit> {
        let limit = |what: &str, verdict| Limit {
            rules: row.name.clone(),
            level: row.level,
            what: what.to_owned(),
            measured_pct: None,
            allowed_pct: None,
            allowed: None,
            verdict,
        };
        let within = |deviation: Deviation| Limit {
            measured_pct: differs_pct(deviation.replay, deviation.kernel),
            allowed_pct: Some(deviation.limit.pct),
            allowed: Some(deviation.allowed()),
            ..limit(deviation.limit.quantity.name(), if deviation.is_within() { Verdict::Pass } else { Verdict::Fail })
        };
        let share = row.near.refills_near_pct;
        let verdict = match share.zip(near_pct) {
            // Without refills of the kernel there is nothing to judge.
            None => Verdict::NotJudged,
            Some((share, least)) if share >= least => Verdict::Pass,
            Some(_) => Verdict::Fail,
        };
        let near = Limit { measured_pct: share, allowed_pct: near_pct, ..limit("refills near", verdict) };
        deviations(&self.kernel.totals, &row.totals).map(within).into_iter().chain([near])
    }
}
