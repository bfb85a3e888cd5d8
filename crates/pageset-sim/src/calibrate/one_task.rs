//! The fit of the pace to one score: that of one task, which waits for nobody.

use super::{LAST_OFF, rounded};
use crate::machine::Rate;
use crate::run::RunError;

/// The score counts as reached at this difference, as the logarithm of the ratio: that of a short simulation, whose regions
/// are few.
const REACHED: f64 = 0.01;
/// Most simulations. The score is nearly in inverse proportion to the pace, so the second is usually the last.
const SIMULATIONS: usize = 3;

/// A fitted pace.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct OneTask {
    /// The pace.
    pub pace: Rate,
    /// The simulated score with this pace.
    pub score: f64,
    /// Whether the score was reached.
    pub is_reached: bool,
}

/// Fits the pace to the score of one task, pages a second. `simulate` returns the score at a pace. `first` is any likely
/// pace.
pub fn pace_of_one_task(
    score: f64,
    first: Rate,
    mut simulate: impl FnMut(Rate) -> Result<f64, RunError>,
) -> Result<OneTask, RunError> {
    let (mut pace, mut best) = (first, None::<(f64, OneTask)>);
    for _ in 0..SIMULATIONS {
        let found = simulate(pace)?;
        let off = (found / score).ln();
        if best.is_none_or(|(least, _)| off.abs() < least) {
            best = Some((off.abs(), OneTask { pace, score: found, is_reached: off.abs() <= REACHED }));
        }
        // A pace outside the range of a description is not tried.
        match rounded(pace.get() * off.exp()) {
            Some(next) if off.abs() >= LAST_OFF && next != pace => pace = next,
            _ => break,
        }
    }
    best.map(|(_, fit)| fit).ok_or(RunError::Interrupted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(pace: f64) -> Rate {
        Rate::try_from(pace).unwrap()
    }

    /// A machine on which a page takes `page_ns` at pace 1. `fixed_ns` of it do not follow the pace.
    fn machine(page_ns: f64, fixed_ns: f64) -> impl FnMut(Rate) -> Result<f64, RunError> {
        move |pace| Ok(1e9 / (fixed_ns + (page_ns - fixed_ns) * pace.get()))
    }

    #[test]
    fn the_pace_is_recovered() {
        for (fixed_ns, pace) in [(0.0, 0.7), (0.0, 2.5), (10.0, 1.4)] {
            let score = machine(1000.0, fixed_ns)(rate(pace)).unwrap();
            let fit = pace_of_one_task(score, Rate::ONE, machine(1000.0, fixed_ns)).unwrap();
            assert!(fit.is_reached && (fit.score / score - 1.0).abs() <= LAST_OFF, "{fit:?}");
            assert!((fit.pace.get() / pace - 1.0).abs() < 0.003, "{fit:?}, not {pace}");
        }
    }

    #[test]
    fn a_score_that_no_pace_gives_is_not_reached() {
        let mut paces = vec![];
        let fit = pace_of_one_task(1e6, Rate::ONE, |pace| {
            paces.push(pace.get());
            Ok(2e6)
        });
        let fit = fit.unwrap();
        assert_eq!((fit.pace, fit.score, fit.is_reached), (Rate::ONE, 2e6, false));
        assert_eq!(paces, [1.0, 2.0, 4.0]);
        // A pace below the range of a description.
        let fit = pace_of_one_task(1e9, Rate::ONE, |_| Ok(1e3)).unwrap();
        assert_eq!((fit.pace, fit.is_reached), (Rate::ONE, false));
        // A pace above it.
        let fit = pace_of_one_task(1e3, Rate::ONE, |_| Ok(1e6)).unwrap();
        assert_eq!((fit.pace, fit.is_reached), (Rate::ONE, false));
        let fit = pace_of_one_task(1e6, Rate::ONE, |_| Ok(0.0)).unwrap();
        assert!(!fit.is_reached);
    }

    #[test]
    fn the_nearest_of_noisy_simulations_counts() {
        let mut scores = [0.8e6, 1.005e6, 0.9e6].into_iter();
        let fit = pace_of_one_task(1e6, Rate::ONE, |_| Ok(scores.next().unwrap())).unwrap();
        assert_eq!((fit.pace, fit.score, fit.is_reached), (rate(0.8), 1.005e6, true));
        assert!(matches!(pace_of_one_task(1e6, Rate::ONE, |_| Err(RunError::Interrupted)), Err(RunError::Interrupted)));
    }
}
