//! Steps of the Levenberg-Marquardt method for a few costs, and Broyden's updates of the slopes.

use super::{COSTS, RESIDUALS, Residuals, Slopes, Vector};

/// Solves `(JᵀJ + damping diag(JᵀJ)) step = -Jᵀr`.
pub(super) fn damped_step(slopes: &Slopes, residuals: &Residuals, damping: f64) -> Option<Vector> {
    let mut normal = normal(slopes);
    (0..COSTS).for_each(|i| normal[i][i] = normal[i][i] * (1.0 + damping) + 1e-9);
    let down = std::array::from_fn(|i| -slopes.iter().zip(residuals).map(|(row, r)| row[i] * r).sum::<f64>());
    solve(normal, down)
}

/// Standard errors of the logarithms: roots of the diagonal of `(JᵀJ)⁻¹`.
pub(super) fn errors(slopes: &Slopes) -> Vector {
    // A cost without slopes is not part of the fit.
    let normal = normal(slopes);
    let found: Vector = std::array::from_fn(|i| f64::from(u8::from(normal[i][i] > 0.0)));
    let mut regular = normal;
    (0..COSTS).for_each(|i| regular[i][i] += 1.0 - found[i]);
    std::array::from_fn(|i| {
        let unit = std::array::from_fn(|j| if i == j { found[i] } else { 0.0 });
        solve(regular, unit).map_or(f64::NAN, |column| column[i].sqrt())
    })
}

/// `JᵀJ`.
fn normal(slopes: &Slopes) -> [Vector; COSTS] {
    std::array::from_fn(|i| std::array::from_fn(|j| slopes.iter().map(|row| row[i] * row[j]).sum()))
}

/// Solves `matrix x = right` by elimination with the largest pivots.
fn solve(matrix: [Vector; COSTS], right: Vector) -> Option<Vector> {
    let mut system: [[f64; COSTS + 1]; COSTS] =
        std::array::from_fn(|i| std::array::from_fn(|j| if j < COSTS { matrix[i][j] } else { right[i] }));
    for i in 0..COSTS {
        let pivot = (i..COSTS).max_by(|a, b| system[*a][i].abs().total_cmp(&system[*b][i].abs()))?;
        system.swap(i, pivot);
        let row = system[i];
        if row[i].abs() < 1e-12 {
            return None;
        }
        for other in (0..COSTS).filter(|other| *other != i) {
            let factor = system[other][i] / row[i];
            (i..=COSTS).for_each(|column| system[other][column] -= factor * row[column]);
        }
    }
    Some(std::array::from_fn(|i| system[i][COSTS] / system[i][i]))
}

/// Broyden's update: makes the slopes agree with the last step.
pub(super) fn update(slopes: &mut Slopes, step: &Vector, before: &Residuals, after: &Residuals) {
    let length: f64 = step.iter().map(|s| s * s).sum();
    if length < 1e-12 {
        return;
    }
    for row in 0..RESIDUALS {
        let expected: f64 = (0..COSTS).map(|i| slopes[row][i] * step[i]).sum();
        let off = after[row] - before[row] - expected;
        (0..COSTS).for_each(|i| slopes[row][i] += off * step[i] / length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Vector = [0.0; COSTS];

    #[test]
    fn a_step_solves_a_linear_problem() {
        let slopes = [[2.0, 1.0, 0.0], [0.0, 3.0, 1.0], [1.0, 0.0, 4.0], NONE, NONE, NONE];
        let step = damped_step(&slopes, &[3.0, -2.0, 5.0, 0.0, 0.0, 0.0], 0.0).unwrap();
        for (row, residual) in slopes.iter().zip([3.0, -2.0, 5.0]) {
            let reached: f64 = row.iter().zip(step).map(|(slope, step)| slope * step).sum();
            assert!((reached + residual).abs() < 1e-4, "{step:?}");
        }
    }

    #[test]
    fn without_contention_the_guesses_and_their_errors_remain() {
        // Only the score depends on a cost, the first one. The guesses are off by one error and by two errors.
        let slopes = [[200.0, 0.0, 0.0], NONE, NONE, NONE, [0.0, 1.0 / 0.3, 0.0], [0.0, 0.0, 1.0 / 0.1]];
        let step = damped_step(&slopes, &[10.0, 0.0, 0.0, 0.0, 1.0, -2.0], 0.0).unwrap();
        for (step, expected) in step.iter().zip([-0.05, -0.3, 0.2]) {
            assert!((step - expected).abs() < 1e-6, "{step} instead of {expected}");
        }
        for (error, expected) in errors(&slopes).iter().zip([0.005, 0.3, 0.1]) {
            assert!((error - expected).abs() < 1e-6, "{error} instead of {expected}");
        }
        // Contention determines the cost of a lock far better than the guess.
        let determined = [slopes[0], [0.0, 0.0, 50.0], NONE, NONE, slopes[4], slopes[5]];
        assert!(errors(&determined)[2] < 0.02);
    }

    #[test]
    fn updated_slopes_agree_with_the_last_step() {
        let mut slopes: Slopes =
            std::array::from_fn(|row| std::array::from_fn(|cost| f64::from(u8::from(row == cost))));
        let (step, before, after) = ([0.5, -0.2, 0.1], [1.0, 2.0, 3.0, 0.0, 0.0, 0.0], [2.0, 1.0, 3.5, 0.5, 0.0, -1.0]);
        update(&mut slopes, &step, &before, &after);
        for row in 0..RESIDUALS {
            let determined: f64 = (0..COSTS).map(|i| slopes[row][i] * step[i]).sum();
            assert!((determined - (after[row] - before[row])).abs() < 1e-12);
        }
    }
}
