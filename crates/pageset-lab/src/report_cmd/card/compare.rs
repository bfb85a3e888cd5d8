//! The card of a comparison with published values.

use pageset_sim::compare::result::CompareResult;
use pageset_sim::verdict::{OfComparison, Weakness};

use super::{Card, Figure, Verdict, sure};

pub(crate) fn compare(result: &CompareResult) -> Card {
    let judged = OfComparison::of(result);
    let OfComparison { holds, misses, cells, won, error, error_of_base } = judged;
    let all = holds + misses;
    let verdict = match (cells, all) {
        (0, 0) => Verdict::none("No published value is large enough to be judged"),
        (0, _) => Verdict::new(
            judged.kind(),
            format!("The simulation meets {holds} of {all} published effects"),
            "A change above 3 % must have the published sign, a share must be within 10 points",
        ),
        _ => Verdict::new(
            judged.kind(),
            format!("The simulation is nearer than both baselines in {won} of {cells} cells"),
            format!(
                "The baselines are no change and a line in 1/batch; {holds} of {all} published signs and shares are met"
            ),
        ),
    };
    let figures = [
        Figure::new("published effects met", holds as f64, "effects").with_note(format!("of {all}")),
        Figure::new("mean error of changes and shares", error, "points"),
        Figure::new("the same without a simulation", error_of_base, "points").with_note("the error of taking the base"),
    ];
    let weak = Weakness::of_comparison(result).into_iter().map(|weakness| (weakness.trust(), weakness));
    let sure = sure(weak, "each row has three seeds or more, and the published values are next to them");
    let about = format!("Published and simulated: {}", result.table);
    Card { about, verdict, sure, figures, warnings: result.notes.clone(), next: None }
}
