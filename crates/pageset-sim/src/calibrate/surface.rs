//! The row of one machine as a smooth function of the shared costs.
//!
//! Where both locks of a large machine are near their limit, little decides which of them its tasks wait for. There, equal runs with
//! different seeds differ by several points, and a few per cent more of one cost move the waiting from one lock to the other. So a
//! fit does not compare single runs: it follows a surface through runs all over the range of the costs.

use super::Target;
use super::least_squares::solve;

pub(super) const COSTS: usize = 3;
/// Costs as places in their ranges, from -1 to 1.
pub(super) type Place = [f64; COSTS];
/// Terms of a polynomial of second degree: a constant, each cost, and each product of two costs.
const TERMS: usize = 1 + COSTS + COSTS * (COSTS + 1) / 2;
/// A lower limit of contention in per cent, so that its odds exist: far below what a published value, a whole point, tells. A guess.
const LEAST_PCT: f64 = 0.02;

/// How sharply waiting moves from one lock to the other: a wait is for the zone lock with the log odds asinh(SHARPNESS p)/SHARPNESS,
/// where p is a polynomial. Near 0 this is p itself. Chosen among 0, 0.4, 0.6, 0.8 and 1 by errors at places that a surface had
/// not seen, without a look at published rows: on lkp-skl-4sp1 3.3, 2.1, 1.7, 1.9 and 2.3 points, and the least on
/// three of four other large machines.
const SHARPNESS: f64 = 0.6;
/// The least weight of a row, relative to the largest: rows where all waiting is for one lock say little about where it moves. A guess.
const LEAST_WEIGHT: f64 = 0.1;

/// The simulated row of a machine at any place. Three polynomials of second degree give the logarithm of the score, the log odds of
/// waiting for either lock, and, [bent](SHARPNESS), the log odds that a wait is for the zone lock.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Surface {
    tasks: u32,
    score: [f64; TERMS],
    waits: [f64; TERMS],
    for_zone: [f64; TERMS],
    /// Standard deviation of the rows around the surface, in points of zone lock and LRU lock contention: chance, and what
    /// polynomials cannot follow.
    pub(super) scatter: [f64; 2],
}

impl Surface {
    /// The surface nearest to simulated rows. `None` if they do not determine it: there are too few different places.
    pub(super) fn through(samples: &[(Place, Target)]) -> Option<Surface> {
        let of = |value: fn(&Target) -> f64, weight: &dyn Fn(&Target) -> f64| {
            let rows = samples.iter().map(|(place, row)| (terms(place), value(row), weight(row)));
            solve(rows.map(|(terms, value, weight)| (terms.map(|term| weight * term), weight * value)))
        };
        // How much of the waiting moves for each unit of the polynomial.
        let points = |row: &Target| {
            let [zone, lru] = contention(row);
            zone * lru / (zone + lru).powi(2) / (SHARPNESS * (zone / lru).ln()).cosh()
        };
        let most = samples.iter().map(|(_, row)| points(row)).fold(0.0, f64::max);
        let mut surface = Surface {
            tasks: samples.first()?.1.tasks,
            score: of(|row| row.score.max(1.0).ln(), &|_| 1.0)?,
            waits: of(
                |row| {
                    let waits = contention(row).iter().sum::<f64>();
                    (waits / (100.0 - waits).max(LEAST_PCT)).ln()
                },
                &|_| 1.0,
            )?,
            for_zone: of(
                |row| {
                    let [zone, lru] = contention(row);
                    (SHARPNESS * (zone / lru).ln()).sinh() / SHARPNESS
                },
                &|row| points(row).max(LEAST_WEIGHT * most),
            )?,
            scatter: [0.0; 2],
        };
        let free = samples.len().checked_sub(TERMS).filter(|free| *free > 0)?;
        surface.scatter = [0, 1].map(|lock| {
            let off = |(place, row): &(Place, Target)| contention(&surface.at(place))[lock] - contention(row)[lock];
            (samples.iter().map(|sample| off(sample).powi(2)).sum::<f64>() / free as f64).sqrt()
        });
        Some(surface)
    }

    pub(super) fn at(&self, place: &Place) -> Target {
        let terms = terms(place);
        let value =
            |factors: &[f64; TERMS]| factors.iter().zip(&terms).map(|(factor, term)| factor * term).sum::<f64>();
        let share = |log_odds: f64| 1.0 / (1.0 + f64::exp(-log_odds));
        let waits = share(value(&self.waits));
        let for_zone = share((SHARPNESS * value(&self.for_zone)).asinh() / SHARPNESS);
        Target {
            tasks: self.tasks,
            score: f64::exp(value(&self.score)),
            contention_pct: [100.0 * waits * for_zone, 100.0 * waits * (1.0 - for_zone)],
        }
    }
}

/// Zone lock and LRU lock contention in per cent, not quite 0.
fn contention(row: &Target) -> [f64; 2] {
    row.contention_pct.map(|pct| pct.max(LEAST_PCT))
}

fn terms(place: &Place) -> [f64; TERMS] {
    let products = (0..COSTS).flat_map(|i| (i..COSTS).map(move |j| place[i] * place[j]));
    let mut all = std::iter::once(1.0).chain(place.iter().copied()).chain(products);
    std::array::from_fn(|_| all.next().unwrap_or(0.0))
}

/// Places spread evenly over the ranges of all costs, always the same: the sequence of Halton (1960) in the bases 2, 3 and 5.
pub(super) fn halton(number: usize) -> Place {
    [2, 3, 5].map(|base| {
        // The digits of the number, mirrored at the point.
        let (mut left, mut digit, mut part) = (number + 1, 1.0, 0.0);
        while left > 0 {
            digit /= base as f64;
            part += digit * (left % base) as f64;
            left /= base;
        }
        2.0 * part - 1.0
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(score: f64, zone: f64, lru: f64) -> Target {
        Target { tasks: 4, score, contention_pct: [zone, lru] }
    }

    #[test]
    fn a_surface_follows_what_has_its_shape_and_averages_the_rest() {
        // Waiting moves from one lock to the other within a small part of the range.
        let truth = |[fault, lru, load]: Place| {
            let odds = (SHARPNESS * (-5.0 * load + 5.0 * lru + fault * load)).asinh() / SHARPNESS;
            let zone = 1.0 / (1.0 + odds.exp());
            row(1e6 * (-0.3 * fault).exp(), 70.0 * zone, 70.0 * (1.0 - zone))
        };
        let samples = |noise: f64| -> Vec<(Place, Target)> {
            let with = |number: usize| {
                // In no order that a base of the sequence has.
                let (place, sign) = (halton(number), if number % 7 < 3 { noise } else { -noise });
                let mut row = truth(place);
                let [zone, lru] = row.contention_pct;
                row.contention_pct = [zone + sign, lru - sign];
                (place, row)
            };
            (0..48).map(with).collect()
        };
        let off = |surface: &Surface, place| {
            let [found, there] = [surface.at(&place), truth(place)].map(|row| contention(&row)[0]);
            (found - there).abs()
        };
        let exact = Surface::through(&samples(0.0)).unwrap();
        assert!(off(&exact, [0.3, -0.2, 0.1]) < 1e-6 && exact.scatter[0] < 1e-6, "{exact:?}");
        assert!((exact.at(&[1.0, 0.0, 0.0]).score / truth([1.0, 0.0, 0.0]).score - 1.0).abs() < 1e-9);
        let noisy = Surface::through(&samples(0.4)).unwrap();
        assert!((0.2..0.8).contains(&noisy.scatter[0]) && off(&noisy, [0.1, 0.0, 0.0]) < 0.4, "{noisy:?}");
    }

    #[test]
    fn a_row_without_contention_has_a_surface_and_too_few_rows_have_none() {
        let rows: Vec<(Place, Target)> = (0..12).map(|number| (halton(number), row(0.0, 0.0, 0.0))).collect();
        let there = Surface::through(&rows).unwrap().at(&[0.0; COSTS]);
        assert!(there.contention_pct.iter().all(|pct| (0.0..0.1).contains(pct)), "{there:?}");
        assert_eq!(Surface::through(&rows[..TERMS]), None);
        assert_eq!(Surface::through(&vec![rows[0]; 48]), None);
        assert_eq!(Surface::through(&[]), None);
    }

    #[test]
    fn places_fill_the_range_evenly() {
        for cost in 0..COSTS {
            let mut counts = [0; 8];
            (0..48).for_each(|number| counts[(4.0 * (halton(number)[cost] + 1.0)) as usize] += 1);
            assert!(counts.iter().all(|count| (5..=7).contains(count)), "{counts:?}");
        }
    }
}
