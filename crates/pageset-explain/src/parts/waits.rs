//! Which lock the stacks of a profile wait for.

use std::collections::BTreeMap;

use super::Part;
use crate::locks::{self, Lock};
use crate::read::profile::{Caller, Profile};
use crate::result::Wait;

/// The weight of a lock's waits, and that of each function that takes it.
type Takers = (f64, BTreeMap<String, f64>);

/// The waits by lock, their part of all time in per cent if the profile has it.
pub(super) fn waits(profile: &Profile) -> (Vec<Wait>, Option<f64>) {
    let mut by_lock: BTreeMap<(Option<Lock>, String), Takers> = BTreeMap::new();
    let mut add = |lock: Option<Lock>, taker: &str, weight: f64| {
        let name = lock.map_or_else(
            || {
                if taker.is_empty() {
                    "a lock that the text does not show".to_owned()
                } else {
                    format!("the lock in {taker}")
                }
            },
            |lock| lock.text().to_owned(),
        );
        let (sum, takers) = by_lock.entry((lock, name)).or_default();
        *sum += weight;
        if !taker.is_empty() {
            *takers.entry(taker.to_owned()).or_default() += weight;
        }
    };
    let mut waiting = 0.0;
    // The waits in the graphs below the rows of each function.
    let mut by_row: BTreeMap<Option<&str>, f64> = BTreeMap::new();
    let all: f64 = profile.stacks.iter().map(|stack| stack.weight).sum();
    for stack in &profile.stacks {
        if let Some((lock, taker)) = locks::waited_for(&stack.frames) {
            add(lock, taker, stack.weight);
            waiting += stack.weight;
            let row = stack.row.and_then(|row| profile.flat.get(row)).map(|(name, _)| name.as_str());
            *by_row.entry(row).or_default() += stack.weight;
        }
    }
    if waiting <= 0.0 {
        // The weight and the callers of each lock: a text may have a lock twice.
        let mut by_name: BTreeMap<&str, (f64, Vec<&Caller>)> = BTreeMap::new();
        for (name, weight) in &profile.waits {
            by_name.entry(name).or_default().0 += weight;
            waiting += weight;
        }
        for caller in &profile.callers {
            if let Some((_, callers)) = by_name.get_mut(caller.lock.as_str()) {
                callers.push(caller);
            }
        }
        for (name, (weight, callers)) in by_name {
            let all: f64 = callers.iter().map(|caller| caller.count).sum();
            if all > 0.0 && all.is_finite() {
                let share = |caller: &Caller| weight * caller.count / all;
                callers.iter().for_each(|caller| add(locks::lock_of(name), &caller.function, share(caller)));
            } else {
                let taker = if locks::lock_of(name).is_some() && name.starts_with('&') { "" } else { name };
                add(locks::lock_of(name), taker, weight);
            }
        }
    }
    let mut waits: Vec<Wait> = by_lock
        .into_iter()
        .map(|((_, lock), (sum, takers))| {
            let mut takers: Vec<(String, f64)> = takers.into_iter().collect();
            takers.sort_by(|a, b| b.1.total_cmp(&a.1));
            let callers = takers.into_iter().take(4).map(|(taker, _)| taker).collect();
            Wait { lock, share_pct: if waiting > 0.0 { 100.0 * sum / waiting } else { 0.0 }, callers }
        })
        .filter(|wait| wait.share_pct > 0.0)
        .collect();
    waits.sort_by(|a, b| b.share_pct.total_cmp(&a.share_pct));
    let flat = share(profile, locks::spins);
    let of_all = match (profile.flat.is_empty(), all > 0.0 && profile.waits.is_empty()) {
        // Graphs without the row of the function that waits: rows of callers have the same stacks again, so their sum is too much.
        _ if flat <= 0.0 && profile.is_per_cent => {
            let most = by_row.values().copied().fold(0.0, f64::max) / f64::from(profile.screens.max(1));
            Some(most.min(100.0)).filter(|most| *most > 0.0)
        }
        (false, _) => Some(flat).filter(|flat| *flat > 0.0),
        (true, true) => Some(100.0 * waiting / all),
        (true, false) => None,
    };
    (waits, of_all)
}

/// The share of the functions that a test accepts, of the average screen. Unit: per cent.
fn share(profile: &Profile, wanted: impl Fn(&str) -> bool) -> f64 {
    let sum: f64 = profile.flat.iter().filter(|(name, _)| wanted(name)).map(|(_, share)| share).sum();
    sum / f64::from(profile.screens.max(1))
}

pub(super) fn part(profile: &Profile) -> Part {
    let mut part = Part::default();
    let is_empty = profile.stacks.is_empty() && profile.flat.is_empty() && profile.waits.is_empty();
    if is_empty && !profile.is_unresolved && !profile.is_broken {
        return part;
    }
    let (waits, of_all) = waits(profile);
    let time = match of_all {
        // bpftrace and lock statistics show waits only.
        Some(share) if share < 99.5 => format!(" ({share:.1} % of the samples wait for locks)"),
        _ => String::new(),
    };
    let known = waits.iter().find(|wait| wait.lock != "a lock that the text does not show");
    let Some(first) = known else {
        flat(&mut part, profile, of_all.unwrap_or(0.0));
        return part;
    };
    let callers = match first.callers.is_empty() || first.lock.starts_with("the lock in ") {
        true => String::new(),
        false => format!(", in {}", first.callers.join(", ")),
    };
    let others: Vec<String> = waits
        .iter()
        .filter(|wait| wait.lock != first.lock && wait.share_pct >= 1.0)
        .take(3)
        .map(|wait| format!("{} {:.0} %", wait.lock.trim_start_matches("the "), wait.share_pct))
        .collect();
    let others = if others.is_empty() { String::new() } else { format!("; others: {}", others.join(", ")) };
    part.clauses
        .push(format!("the waits are for {}: {:.0} % of them{callers}{time}{others}", first.lock, first.share_pct));
    for wait in &waits {
        let callers =
            if wait.callers.is_empty() { String::new() } else { format!(", taken in {}", wait.callers.join(", ")) };
        part.finding("lock", format!("{:.1} % of the waits: {}{callers}", wait.share_pct, wait.lock));
    }
    if of_all.is_some_and(|share| share < 5.0) {
        part.finding("little-waiting", "less than 5 % of the samples wait for locks: another cause is more likely");
    }
    let zone = waits.iter().find(|wait| wait.lock == Lock::Zone.text()).map_or(0.0, |wait| wait.share_pct);
    if first.lock == Lock::Lru.text() {
        part.step(
            "no setting of the per-CPU lists of pages changes the LRU lock: see who reclaims",
            "grep -E 'pgscan|pgsteal|allocstall' /proc/vmstat",
        );
    } else if first.lock != Lock::Zone.text() {
        part.step("leave the per-CPU lists of pages as they are: most of these waits are not for free pages", "");
    }
    if zone >= 10.0 {
        part.step(
            "see which CPUs go to the zone, how often, and whether the lists tune themselves",
            "sudo pageset top",
        );
        part.step(
            "record the load, then ask which rules would save these waits",
            "sudo pageset record --empty-lists -o my.pstrace --duration 10s",
        );
        part.step("read the advice", "pageset advise my.pstrace");
    }
    part
}

/// The work for memory with the largest share, if it is more than a little.
fn work(profile: &Profile) -> Option<String> {
    let sum = |work: &str| share(profile, |name| locks::work_of(name) == Some(work));
    let mut works: Vec<&str> = profile.flat.iter().filter_map(|(name, _)| locks::work_of(name)).collect();
    works.sort_unstable();
    works.dedup();
    let most = works.into_iter().max_by(|a, b| sum(a).total_cmp(&sum(b))).filter(|work| sum(work) >= 5.0)?;
    Some(format!("{:.1} % of the samples are {most}", sum(most)))
}

/// A profile without call chains, or with chains that end before the function that takes the lock.
fn flat(part: &mut Part, profile: &Profile, spinning: f64) {
    if profile.is_broken {
        part.clauses.push(format!(
            "{} the call graph has lost its indentation, so it does not show which functions wait, and for which lock",
            match spinning > 0.0 {
                true => format!("{spinning:.1} % of the samples wait for spin locks, but"),
                false => "the text is a profile:".to_owned(),
            }
        ));
        part.step(
            "print each stack in one line, which keeps",
            "perf report --no-children --stdio -g folded,0.5,caller",
        );
        return;
    }
    if profile.flat.is_empty() && !profile.is_unresolved {
        let mut asleep: BTreeMap<&str, f64> = BTreeMap::new();
        for stack in &profile.stacks {
            if let Some(function) = locks::sleeps_in(&stack.frames) {
                *asleep.entry(function).or_default() += stack.weight;
            }
        }
        let most = asleep.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).map(|(function, _)| function);
        let most = most.map_or(String::new(), |function| format!("; those that sleep do it most in {function}"));
        part.clauses.push(format!("no stack of the text waits for a lock{most}"));
        part.step("record where CPUs wait", "sudo perf record -a -g -- sleep 5");
        return;
    }
    // The functions that take a lock are near the waits for it.
    let of = |lock: Lock| share(profile, |name| locks::lock_of(name) == Some(lock));
    let likely = Lock::all().max_by(|a, b| of(*a).total_cmp(&of(*b))).unwrap_or(Lock::Zone);
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in profile.flat.iter().filter(|(name, _)| locks::lock_of(name) == Some(likely)) {
        if names.len() < 4 && !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let evidence = match (of(likely), likely) {
        (under, lock) if under > 0.0 => format!(
            "functions that take {} have {under:.1} % themselves ({}){}",
            lock.text(),
            names.join(", "),
            match spinning > 0.0 {
                true =>
                    format!(", so {} {} likely", lock.text(), if lock.text().ends_with('s') { "are" } else { "is" }),
                false => ", which is work and not waiting".to_owned(),
            }
        ),
        _ => "no function that takes the zone lock is in the text".to_owned(),
    };
    let evidence = work(profile).map_or(evidence.clone(), |work| format!("{evidence}, and {work}"));
    if profile.is_unresolved && of(likely) <= 0.0 {
        part.clauses.push(
            "the profile has addresses in place of the kernel's functions, so it does not show what waits for a lock"
                .to_owned(),
        );
        part.step("let perf read the names of the kernel's functions", "sudo sysctl kernel.kptr_restrict=0");
        part.step("record again as root", "sudo perf record -a -g -- sleep 5");
        return;
    }
    if spinning <= 0.0 {
        part.clauses.push(format!("no samples are in functions that wait for locks; {evidence}"));
    } else {
        let chains = match profile.stacks.iter().any(|stack| stack.frames.len() > 1) {
            true => "the call chains end before the function that takes the lock, so they do not show which",
            false => "the text has no call chains, so it does not show which lock",
        };
        part.clauses.push(format!("{spinning:.1} % of the samples wait for spin locks, but {chains}; {evidence}"));
    }
    part.step("record call chains", "sudo perf record -a -g -- sleep 5");
    part.step("see the callers", "perf report --no-children -S native_queued_spin_lock_slowpath -g caller");
}
