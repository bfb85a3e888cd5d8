//! The card of a comparison with published values.

use pageset_report::page::card::Trust;
use pageset_sim::compare::result::{CompareResult, Effect, Verdict as Judged};

use super::{Card, Figure, Kind, Verdict, trust};

/// The number of seeds from which a spread means something. A guess.
const SEEDS_MIN: usize = 3;

/// The card of a comparison. The control of a sweep of batches is the two baselines, else the published base.
pub(in super::super) fn compare(result: &CompareResult) -> Card {
    let effects: Vec<Effect> = result.rows.iter().flat_map(|row| row.effects().map(|(_, effect)| effect)).collect();
    let count = |wanted: Judged| effects.iter().filter(|effect| effect.verdict() == wanted).count();
    let (holds, misses) = (count(Judged::Holds), count(Judged::Misses));
    let cells: Vec<_> = result.mean_absolute_errors.iter().flat_map(|errors| errors.cells()).collect();
    let won = cells.iter().filter(|cell| cell.is_won()).count();
    let judged = format!("{holds} of {} published signs and shares are met", holds + misses);
    let verdict = match (cells.len(), holds + misses) {
        (0, 0) => Verdict::none("No published value is large enough to be judged"),
        (0, all) => Verdict::new(
            if misses == 0 { Kind::Same } else { Kind::Differs },
            format!("The simulation meets {holds} of {all} published effects"),
            "A change above 3 % must have the published sign, a share must be within 10 points",
        ),
        (all, _) => Verdict::new(
            if won == all { Kind::Same } else { Kind::Differs },
            format!("The simulation is nearer than both baselines in {won} of {all} cells"),
            format!("The baselines are no change and a line in 1/batch; {judged}"),
        ),
    };
    let error = |of: fn(&Effect) -> Option<f64>| {
        let errors: Vec<f64> = effects.iter().filter_map(of).map(f64::abs).collect();
        (!errors.is_empty()).then(|| errors.iter().sum::<f64>() / errors.len() as f64)
    };
    let figures = [
        Figure::new("published effects met", holds as f64, "effects").with_note(format!("of {}", holds + misses)),
        Figure::new(
            "mean error of changes and shares",
            error(|e| Some(e.simulated_change()? - e.published_change()?)),
            "points",
        ),
        Figure::new("the same without a simulation", error(Effect::published_change), "points")
            .with_note("the error of taking the base"),
    ];
    let seeds = result.simulations().map(|simulation| simulation.seeds.len()).min().unwrap_or(result.seeds.len());
    let failed = result.notes.iter().any(|note| note.starts_with("not simulated"));
    let sure = trust(
        [
            (failed, Trust::Low, "a simulation failed".to_owned()),
            (seeds <= 1, Trust::Low, "one seed for a row: its spread is unknown".to_owned()),
            ((2..SEEDS_MIN).contains(&seeds), Trust::Fair, format!("only {seeds} seeds for a row")),
            (misses > holds, Trust::Low, "most published effects are missed".to_owned()),
        ],
        "each row has three seeds or more, and the published values are next to them",
    );
    Card {
        about: format!("Published and simulated: {}", result.table),
        verdict,
        sure,
        figures,
        warnings: result.notes.clone(),
        next: None,
    }
}
