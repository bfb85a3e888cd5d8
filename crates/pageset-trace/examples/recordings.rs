//! Compares two sets of rules on a set of recordings:
//! `cargo run --release -p pageset-trace --example recordings -- [BASE] RULES FILE…`.
//!
//! BASE and RULES are names as results print them: a preset or a rule file, then changes: `"linux-6.18 batch=31"`. Without BASE it is
//! `linux-6.18`. Replays each recording from its input under both, on all CPUs, and prints RULES as multiples of BASE: a table over
//! groups of recordings, then each recording in which RULES is above BASE. A group is what follows the last point of a name.
//!
//! | column | contents, per recording |
//! | --- | --- |
//! | holds, pages, lines | sums over the group: holds of zone locks, pages moved under them, cache lines touched under them |
//! | longest | the most cache lines of one hold: median, most |
//! | held | the most pages in pagesets: median, most |
//! | cached | the most pages in pagesets and depots together: median, most |
//! | huge | free pages in blocks of at least a pageblock, at the end and at the least: the smallest multiple |

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use pageset_rules::on_machine;
use pageset_trace::Trace;
use pageset_trace::replay::{Level, Outcome, Replay, RuleSet};

type Error = Box<dyn std::error::Error + Send + Sync>;

/// The amounts that are compared, by column.
const COLUMNS: [&str; 6] = ["holds", "pages", "lines", "longest", "held", "cached"];
/// The number of columns that are summed over a group.
const SUMS: usize = 3;

/// One recording under two sets of rules: BASE, RULES.
struct Compared {
    name: String,
    amounts: [[u64; COLUMNS.len()]; 2],
    /// Pages in large blocks at the end, and at the least.
    large: [[u64; 2]; 2],
    failed: [u64; 2],
}

impl Compared {
    fn new(file: &Path, rules: &[RuleSet; 2]) -> Result<Self, Error> {
        let trace = Trace::open(file)?;
        let replay = Replay::prepare(&trace, &mut |_| ())?;
        let scale = replay.kernel_rules().tuning.batch_scale_max;
        let mut outcomes = Vec::new();
        for rules in rules {
            let rules = RuleSet { tuning: on_machine(rules.tuning, Some(scale)), ..rules.clone() };
            outcomes.push(replay.run(&rules, Level::Input, &mut |_| ())?);
        }
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let name = name.split_once(".pstrace").or_else(|| name.split_once(".events")).map_or(&*name, |(name, _)| name);
        let of = |each: fn(&Outcome) -> u64| [each(&outcomes[0]), each(&outcomes[1])];
        let large = |outcome: &Outcome| outcome.high_orders.map_or([0; 2], |pages| [pages.end, pages.least]);
        Ok(Compared {
            name: name.to_owned(),
            amounts: [amounts(&outcomes[0]), amounts(&outcomes[1])],
            large: [large(&outcomes[0]), large(&outcomes[1])],
            failed: of(|outcome| outcome.failed),
        })
    }

    fn group(&self) -> &str {
        self.name.rsplit_once('.').map_or(&self.name, |(_, load)| load)
    }

    fn ratio(&self, column: usize) -> f64 {
        ratio(self.amounts[1][column], self.amounts[0][column])
    }

    /// The smaller multiple of pages in large blocks.
    fn large(&self) -> f64 {
        let [base, rules] = self.large;
        ratio(rules[0], base[0]).min(ratio(rules[1], base[1]))
    }
}

fn amounts(outcome: &Outcome) -> [u64; COLUMNS.len()] {
    let totals = outcome.moves.totals(|_| true);
    [
        outcome.zone_lock_acquisitions,
        totals.refill_pages + totals.drain_pages + outcome.direct_pages - outcome.bitmap_pages,
        outcome.zone_lock_lines,
        outcome.longest_hold_lines,
        outcome.held_pages_max,
        outcome.cached_pages_max,
    ]
}

fn ratio(of: u64, to: u64) -> f64 {
    if of == to { 1.0 } else { of as f64 / to as f64 }
}

/// The median and the largest of some numbers.
fn median_most(numbers: impl Iterator<Item = f64>) -> (f64, f64) {
    let mut sorted: Vec<f64> = numbers.collect();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let low = if sorted.len().is_multiple_of(2) { middle - 1 } else { middle };
    (f64::midpoint(sorted[low], sorted[middle]), sorted[sorted.len() - 1])
}

fn row(name: &str, group: &[&Compared]) {
    print!("{name:<16} {:>4}", group.len());
    for column in 0..COLUMNS.len() {
        if column < SUMS {
            let sum = |side: usize| group.iter().map(|each| each.amounts[side][column]).sum();
            print!("  {:>5.2}", ratio(sum(1), sum(0)));
        } else {
            let (median, most) = median_most(group.iter().map(|each| each.ratio(column)));
            print!("  {median:>5.2} {most:>5.2}");
        }
    }
    println!("  {:>5.2}", group.iter().map(|each| each.large()).fold(f64::INFINITY, f64::min));
}

fn print(results: &[Compared]) {
    println!("recordings          n  holds  pages  lines      longest         held       cached   huge");
    let mut groups = BTreeMap::<&str, Vec<&Compared>>::new();
    for each in results {
        groups.entry(each.group()).or_default().push(each);
    }
    for (name, group) in groups {
        row(name, &group);
    }
    row("all", &results.iter().collect::<Vec<_>>());
    for (column, title) in COLUMNS.iter().enumerate() {
        let mut above: Vec<&Compared> = results.iter().filter(|each| each.ratio(column) > 1.0).collect();
        above.sort_by(|a, b| b.ratio(column).total_cmp(&a.ratio(column)));
        println!("\n{title} above BASE: {} of {}", above.len(), results.len());
        for each in above {
            let [base, rules] = each.amounts.map(|amounts| amounts[column]);
            println!("  {:<28} {:>5.2} {base:>9} {rules:>9}", each.name, each.ratio(column));
        }
    }
    println!("\nlarge blocks below BASE, at the end or at the least; failed allocations");
    for each in results.iter().filter(|each| each.large() < 1.0 || each.failed[0] != each.failed[1]) {
        println!("  {:<28} {:>5.2} {:?} {:?}", each.name, each.large(), each.large, each.failed);
    }
}

fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let is_file = |name: &String| Path::new(name).is_file() && !name.ends_with(".toml");
    let (files, names): (Vec<_>, Vec<_>) = arguments.into_iter().partition(is_file);
    let rules = match names.as_slice() {
        [rules] => ["linux-6.18", rules],
        [base, rules] => [base.as_str(), rules],
        _ => return Err("expected [BASE] RULES FILE…, with one or two sets of rules and at least one recording".into()),
    };
    let rules = [RuleSet::parse(rules[0])?, RuleSet::parse(rules[1])?];
    if files.is_empty() {
        return Err("no recording is named; try traces/lab/*.pstrace traces/*.pstrace traces/*.events.zst".into());
    }
    let files: Vec<PathBuf> = files.into_iter().map(PathBuf::from).collect();
    let (next, results) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, |cpus| cpus.get()) {
            scope.spawn(|| {
                while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let compared = Compared::new(file, &rules).map_err(|error| format!("{}: {error}", file.display()));
                    results.lock().expect("no thread panics").push(compared);
                }
            });
        }
    });
    let results = results.into_inner().expect("no thread panics").into_iter().collect::<Result<Vec<_>, String>>();
    let mut results = results?;
    results.sort_by(|a, b| a.name.cmp(&b.name));
    print(&results);
    Ok(())
}
