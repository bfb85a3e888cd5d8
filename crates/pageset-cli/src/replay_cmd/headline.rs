//! The first sentence of a replay: which rules take the zone lock least, by how much, and whether the rows may be trusted.

use pageset_trace::measure::{ReplayResult, Replayed};

/// A difference in lock holds below which rules count as equal. Unit: percent. A guess: half of the smallest gain that `advise`
/// would name.
const ALIKE_PCT: f64 = 5.0;

/// The sentence.
pub(super) fn headline(result: &ReplayResult) -> String {
    let rows: Vec<&Replayed> = result.rules.iter().filter(|row| row.level == result.level).collect();
    let by_locks = |row: &&&Replayed| (row.zone_lock_acquisitions_per_1000_operations * 1e3) as u64;
    let (Some(best), Some(worst)) = (rows.iter().min_by_key(by_locks), rows.iter().max_by_key(by_locks)) else {
        return "no rules were replayed\n".to_owned();
    };
    let locks = |row: &Replayed| row.zone_lock_acquisitions_per_1000_operations;
    let said = if rows.len() == 1 {
        format!("{} takes the zone lock {:.1} times in 1,000 allocations and frees", best.name, locks(best))
    } else if locks(worst) <= locks(best) * (1.0 + ALIKE_PCT / 100.0) {
        format!(
            "the rules do not differ: each takes the zone lock about {:.1} times in 1,000 allocations and frees",
            locks(best)
        )
    } else {
        let own = rows.iter().find(|row| row.is_kernel).filter(|own| own.name != best.name);
        let other = own.filter(|own| locks(own) > locks(best) * (1.0 + ALIKE_PCT / 100.0)).unwrap_or(worst);
        let times =
            if locks(best) > 0.0 { format!("{:.1}", locks(other) / locks(best)) } else { "infinitely many".to_owned() };
        format!(
            "{} takes the zone lock least, {:.1} times in 1,000 allocations and frees; {} takes it {times} times as often",
            best.name,
            locks(best),
            other.name,
        )
    };
    format!("{said}; {}\n", trust(result))
}

/// Whether the rows may be trusted, by the row of the kernel's own rules.
fn trust(result: &ReplayResult) -> String {
    // The control at the level of the named rules, else the one at the input level.
    let control = result.rules.iter().find(|row| row.is_kernel);
    match control {
        Some(row) if row.agrees => {
            let rules = if result.kernel.known { "" } else { " (guessed)" };
            format!("trust the rows: under its own rules{rules} the replay follows the kernel")
        }
        Some(_) => "do not trust the rows: under its own rules the replay does not follow the kernel".to_owned(),
        None => "the kernel's own rules were not replayed, so nothing checks the rows".to_owned(),
    }
}
