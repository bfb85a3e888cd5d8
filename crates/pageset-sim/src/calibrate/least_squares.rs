//! One step of the method of least squares for a few unknowns.

/// The derivatives of one residual, one number for each unknown.
pub(super) type Slopes = Vec<f64>;

/// The step that minimises the squares of `residuals + slopes · step`. `None` where the residuals do not determine it.
pub(super) fn step<'r>(unknowns: usize, rows: impl Iterator<Item = (&'r Slopes, f64)>) -> Option<Vec<f64>> {
    // The normal equations, with the right side as the last column.
    let mut system = vec![vec![0.0; unknowns + 1]; unknowns];
    for (slopes, residual) in rows {
        for i in 0..unknowns {
            (0..unknowns).for_each(|j| system[i][j] += slopes[i] * slopes[j]);
            system[i][unknowns] -= slopes[i] * residual;
        }
    }
    // Elimination with the largest pivots.
    for i in 0..unknowns {
        let pivot = (i..unknowns).max_by(|a, b| system[*a][i].abs().total_cmp(&system[*b][i].abs()))?;
        system.swap(i, pivot);
        let row = system[i].clone();
        if row[i].abs() < 1e-12 {
            return None;
        }
        for other in (0..unknowns).filter(|other| *other != i) {
            let factor = system[other][i] / row[i];
            system[other].iter_mut().zip(&row).for_each(|(value, of_row)| *value -= factor * of_row);
        }
    }
    Some((0..unknowns).map(|i| system[i][unknowns] / system[i][i]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_solves_a_linear_problem() {
        let slopes = [vec![2.0, 1.0, 0.0], vec![0.0, 3.0, 1.0], vec![1.0, 0.0, 4.0]];
        let residuals = [3.0, -2.0, 5.0];
        let step = step(3, slopes.iter().zip(residuals)).unwrap();
        for (row, residual) in slopes.iter().zip(residuals) {
            let reached: f64 = row.iter().zip(&step).map(|(slope, step)| slope * step).sum();
            assert!((reached + residual).abs() < 1e-9, "{step:?}");
        }
    }

    #[test]
    fn contradictions_are_averaged_and_an_unknown_without_slopes_has_no_step() {
        let slopes = [vec![1.0], vec![1.0], vec![1.0]];
        assert!((step(1, slopes.iter().zip([-1.0, -2.0, -6.0])).unwrap()[0] - 3.0).abs() < 1e-12);
        let slopes = [vec![1.0, 0.0]];
        assert_eq!(step(2, slopes.iter().zip([1.0])), None);
    }
}
