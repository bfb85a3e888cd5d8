//! The method of least squares for a few unknowns.

/// The numbers `x` that minimise the squares of `terms · x - value` over all rows. `None` where the rows do not determine them or are
/// no numbers.
pub(super) fn solve<const N: usize>(rows: impl Iterator<Item = ([f64; N], f64)>) -> Option<[f64; N]> {
    // The normal equations, and their right side.
    let (mut system, mut right) = ([[0.0; N]; N], [0.0; N]);
    for (terms, value) in rows {
        for i in 0..N {
            (0..N).for_each(|j| system[i][j] += terms[i] * terms[j]);
            right[i] += terms[i] * value;
        }
    }
    // Elimination with the largest pivots.
    for i in 0..N {
        let pivot = (i..N).max_by(|a, b| system[*a][i].abs().total_cmp(&system[*b][i].abs()))?;
        system.swap(i, pivot);
        right.swap(i, pivot);
        let (row, value) = (system[i], right[i]);
        if row[i].abs() < 1e-12 {
            return None;
        }
        for other in (0..N).filter(|other| *other != i) {
            let factor = system[other][i] / row[i];
            system[other].iter_mut().zip(&row).for_each(|(value, of_row)| *value -= factor * of_row);
            right[other] -= factor * value;
        }
    }
    Some(std::array::from_fn(|i| right[i] / system[i][i]))
        .filter(|found: &[f64; N]| found.iter().all(|x| x.is_finite()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_linear_problem_is_solved() {
        // The first pivot is not in the first row.
        let rows = [([0.0, 3.0, 1.0], -2.0), ([0.1, 1.0, 0.0], 3.0), ([1.0, 0.0, 4.0], 5.0)];
        let found = solve(rows.into_iter()).unwrap();
        for (terms, value) in rows {
            let reached: f64 = terms.iter().zip(&found).map(|(term, x)| term * x).sum();
            assert!((reached - value).abs() < 1e-9, "{found:?}");
        }
    }

    #[test]
    fn contradictions_are_averaged_and_an_unknown_in_no_row_is_not_determined() {
        let rows = [([1.0], 1.0), ([1.0], 2.0), ([1.0], 6.0)];
        assert!((solve(rows.into_iter()).unwrap()[0] - 3.0).abs() < 1e-12);
        assert_eq!(solve(std::iter::once(([1.0, 0.0], 1.0))), None);
        assert_eq!(solve([([1.0], 1.0), ([1.0], f64::NAN)].into_iter()), None);
        assert_eq!(solve([([1.0], 1.0), ([f64::NAN], 1.0)].into_iter()), None);
    }
}
