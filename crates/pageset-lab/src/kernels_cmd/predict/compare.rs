//! A prediction next to what was measured: signs of changes, and errors. Numbers in, numbers out.

use std::fmt::Write as _;

use pageset_trace::replay::Totals;
use pageset_trace::replay::agreement::{Deviation, LIMITS, Limit, Quantity};

/// The settings that are predicted and measured, as the module and `--set` name them: 4, 16 and 64 times the usual batch as high.
pub(super) const SETTINGS: [&str; 7] =
    ["batch=31", "batch=63", "batch=127", "batch=255", "high=252", "high=1008", "high=4032"];
/// The row of what the kernel did in the recording that the prediction is made from.
pub(super) const RECORDED: &str = "recorded";
/// The row of the replay without a setting. In a measurement, the load again without a setting.
pub(super) const NO_SETTING: &str = "none";
/// Ends the setting of a row of a measurement that is the replay of that recording under that setting.
pub(super) const REPLAYED: &str = " replayed";
/// The quantities, in the order of [`Amounts::moved`].
const QUANTITIES: [&str; 3] = ["refills", "drains", "pages"];
/// Errors up to this many percent are counted: the aim of the comparison.
const CLOSE_PCT: u64 = 10;

/// What a load moved, and how much it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Amounts {
    /// Allocations and frees.
    pub(super) operations: u64,
    /// Refills, drains, and pages that both moved.
    pub(super) moved: [u64; 3],
}

impl Amounts {
    pub(super) fn of(operations: u64, totals: &Totals) -> Amounts {
        let pages = totals.refill_pages.saturating_add(totals.drain_pages);
        Amounts { operations, moved: [totals.refills, totals.drains, pages] }
    }

    /// The amounts if the load had done this many operations: a load that runs for a time does not do the same work twice.
    fn at(self, operations: u64) -> [u64; 3] {
        let scaled = |amount: u64| {
            let product = u128::from(amount) * u128::from(operations);
            let half = u128::from(self.operations) / 2;
            (product + half).checked_div(self.operations.into()).map_or(0, |scaled| scaled.min(u64::MAX.into()) as u64)
        };
        self.moved.map(scaled)
    }
}

/// The amounts of a load under a setting: a line of a prediction or of a measurement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) load: String,
    pub(super) setting: String,
    pub(super) amounts: Amounts,
}

/// The lines of a kernel on a machine, and when they were written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Table {
    /// `KERNEL.MACHINE`.
    pub(super) boot: String,
    /// The time in UTC, as in `2026-11-28T09:00:00Z`.
    pub(super) written: String,
    pub(super) rows: Vec<Row>,
}

const HEAD: &str = "boot,written,load,setting,operations,refills,drains,pages";

impl Table {
    pub(super) fn csv(&self) -> String {
        let mut text = format!("{HEAD}\n");
        for Row { load, setting, amounts: Amounts { operations, moved: [refills, drains, pages] } } in &self.rows {
            let Table { boot, written, .. } = self;
            let _ = writeln!(text, "{boot},{written},{load},{setting},{operations},{refills},{drains},{pages}");
        }
        text
    }

    /// Reads what [`Table::csv`] writes.
    pub(super) fn parse(text: &str) -> Result<Table, String> {
        let mut lines = text.lines().enumerate();
        if lines.next().map(|(_, head)| head) != Some(HEAD) {
            return Err(format!("line 1: expected `{HEAD}`"));
        }
        let mut table = Table { boot: String::new(), written: String::new(), rows: Vec::new() };
        for (number, line) in lines {
            let at = |what: &str| format!("line {}: {what}", number + 1);
            let cells: Vec<&str> = line.split(',').collect();
            let [boot, written, load, setting, numbers @ ..] = &cells[..] else { return Err(at("too few cells")) };
            let numbers: Result<Vec<u64>, _> = numbers.iter().map(|cell| cell.parse()).collect();
            let Ok([operations, moved @ ..]) = numbers.as_deref() else { return Err(at("four numbers are needed")) };
            let moved = moved.try_into().map_err(|_| at("four numbers are needed"))?;
            if number == 1 {
                (table.boot, table.written) = ((*boot).into(), (*written).into());
            } else if (&*table.boot, &*table.written) != (*boot, *written) {
                return Err(at("another boot or time than in line 2"));
            }
            let amounts = Amounts { operations: *operations, moved };
            table.rows.push(Row { load: (*load).into(), setting: (*setting).into(), amounts });
        }
        if table.rows.is_empty() {
            return Err("line 2: no rows".into());
        }
        Ok(table)
    }

    fn get(&self, load: &str, setting: &str) -> Option<Amounts> {
        self.rows.iter().find(|row| row.load == load && row.setting == setting).map(|row| row.amounts)
    }

    /// The loads in the order of the lines.
    pub(super) fn loads(&self) -> Vec<&str> {
        let mut loads: Vec<&str> = self.rows.iter().map(|row| &*row.load).collect();
        loads.dedup();
        loads
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Less,
    Nothing,
    More,
}

/// The limit below which an amount of [`QUANTITIES`] counts as unchanged: that within which a replay agrees with a kernel.
fn limit(index: usize) -> Limit {
    let quantity = [Quantity::Refills, Quantity::Drains, Quantity::DrainPages][index];
    LIMITS.into_iter().find(|limit| limit.quantity == quantity).expect("each quantity has a limit")
}

fn change(limit: Limit, from: u64, to: u64) -> Change {
    match () {
        () if (Deviation { limit, kernel: from, replay: to }).is_within() => Change::Nothing,
        () if to < from => Change::Less,
        () => Change::More,
    }
}

/// A predicted amount next to the measured one.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Compared {
    load: String,
    setting: String,
    /// The index in [`QUANTITIES`].
    quantity: usize,
    predicted: u64,
    measured: u64,
    /// Whether the prediction is a change by half the amount or more.
    is_large: bool,
    /// Whether the sign of the change is the predicted one; `None` if nothing changes in the prediction and in the kernel.
    right: Option<bool>,
}

impl Compared {
    fn is_close(&self) -> bool {
        u128::from(self.predicted.abs_diff(self.measured)) * 100 <= u128::from(self.measured) * u128::from(CLOSE_PCT)
    }
}

/// A prediction, and the same loads measured.
#[derive(Debug)]
pub(super) struct Comparison {
    compared: Vec<Compared>,
    /// For each load, its changes when it ran again without a setting, in percent: refills, drains, pages.
    again: Vec<(String, [f64; 3])>,
    /// Of the amounts of recordings under a setting, how many a replay of the same recording agrees with, and how many there are: where it
    /// agrees, a missed prediction is a load that did something else.
    agree: (usize, usize),
    /// Predicted rows without a measurement: `LOAD SETTING`.
    missing: Vec<String>,
}

impl Comparison {
    /// Compares the amounts at the number of operations of the recording that the prediction is made from.
    pub(super) fn new(predicted: &Table, measured: &Table) -> Result<Comparison, String> {
        if predicted.boot != measured.boot {
            return Err(format!("the prediction is of {}, and the measurement of {}", predicted.boot, measured.boot));
        }
        let (mut compared, mut again, mut missing) = (Vec::new(), Vec::new(), Vec::new());
        let mut agree = (0, 0);
        for load in predicted.loads() {
            let base = |setting| predicted.get(load, setting).ok_or_else(|| format!("{load} has no row `{setting}`"));
            let (recorded, replayed) = (base(RECORDED)?, base(NO_SETTING)?);
            if recorded.operations == 0 {
                return Err(format!("{load} has no operations"));
            }
            if let Some(now) = measured.get(load, NO_SETTING) {
                let now = now.at(recorded.operations);
                let pct =
                    |i: usize| (now[i] as f64 - recorded.moved[i] as f64) * 100.0 / recorded.moved[i].max(1) as f64;
                again.push((load.to_owned(), std::array::from_fn(pct)));
            }
            let of_load = predicted.rows.iter().filter(|row| row.load == load);
            for Row { setting, amounts, .. } in of_load.filter(|row| ![RECORDED, NO_SETTING].contains(&&*row.setting)) {
                let Some(found) = measured.get(load, setting) else {
                    missing.push(format!("{load} {setting}"));
                    continue;
                };
                if let Some(replay) = measured.get(load, &format!("{setting}{REPLAYED}")) {
                    let same = |i: &usize| change(limit(*i), found.moved[*i], replay.moved[*i]) == Change::Nothing;
                    agree = (agree.0 + (0..QUANTITIES.len()).filter(same).count(), agree.1 + QUANTITIES.len());
                }
                let found = found.at(recorded.operations);
                compared.extend((0..QUANTITIES.len()).map(|i| {
                    let promised = change(limit(i), replayed.moved[i], amounts.moved[i]);
                    let happened = change(limit(i), recorded.moved[i], found[i]);
                    let nothing = [promised, happened] == [Change::Nothing; 2];
                    Compared {
                        load: load.to_owned(),
                        setting: setting.clone(),
                        quantity: i,
                        predicted: amounts.moved[i],
                        measured: found[i],
                        is_large: amounts.moved[i].abs_diff(replayed.moved[i]) >= replayed.moved[i].div_ceil(2).max(1),
                        right: (!nothing).then_some(promised == happened),
                    }
                }));
            }
        }
        Ok(Comparison { compared, again, agree, missing })
    }

    /// The changes, those with the predicted sign, and those within [`CLOSE_PCT`].
    fn counts(&self) -> (usize, usize, usize) {
        let changes = || self.compared.iter().filter(|row| row.right.is_some());
        let right = changes().filter(|row| row.right == Some(true)).count();
        (changes().count(), right, changes().filter(|row| row.is_close()).count())
    }

    /// The counts as cells of a table: changes with the predicted sign, changes within [`CLOSE_PCT`], large changes with the predicted
    /// sign, and amounts unchanged as predicted. The last cell counts the amounts of replays of the new recordings that agree.
    #[cfg(test)]
    pub(super) fn row(&self) -> String {
        let (changes, right, close) = self.counts();
        let (large, large_right) = self.large();
        let unchanged = self.compared.len() - changes;
        let agreement = match self.agree {
            (_, 0) => "-".to_owned(),
            (agreeing, of) => format!("{agreeing} of {of}"),
        };
        format!("{right} of {changes} | {close} | {large_right} of {large} | {unchanged} | {agreement}")
    }

    /// Whether each predicted row was measured.
    pub(super) fn is_complete(&self) -> bool {
        self.missing.is_empty()
    }

    /// Of the changes that are predicted to be half the amount or more: how many there are, and how many have that sign.
    fn large(&self) -> (usize, usize) {
        let large = || self.compared.iter().filter(|row| row.is_large && row.right.is_some());
        (large().count(), large().filter(|row| row.right == Some(true)).count())
    }

    /// The answer and a table.
    pub(super) fn text(&self) -> String {
        let (changes, right, close) = self.counts();
        let unchanged = self.compared.len() - changes;
        let (large, large_right) = self.large();
        let mut text = format!(
            "{right} of {changes} changes have the predicted sign; {close} within {CLOSE_PCT} %. \
             Unchanged, as predicted: {unchanged}.\n\
             Of changes that are predicted to be half the amount or more, {large_right} of {large} have that sign.\n\n\
             {:<8} {:<10} {:>21} {:>21} {:>21}\n{:<19}",
            "load", "setting", QUANTITIES[0], QUANTITIES[1], QUANTITIES[2], ""
        );
        text += &format!("{:>22}", "predicted   measured").repeat(3);
        for (number, row) in self.compared.iter().enumerate() {
            if number % QUANTITIES.len() == 0 {
                let _ = write!(text, "\n{:<8} {:<10}", row.load, row.setting);
            }
            let mark = match row.right {
                Some(false) => '!',
                _ => ' ',
            };
            let _ = write!(text, "{:>10} {:>10}{mark}", row.predicted, row.measured);
        }
        text += "\n\n! has another sign than predicted. Amounts are those of as many allocations and frees as in the first recording.\n";
        for (load, [refills, drains, pages]) in &self.again {
            let _ = writeln!(
                text,
                "{load} again without a setting: refills {refills:+.1} %, drains {drains:+.1} %, pages {pages:+.1} %"
            );
        }
        if let (same, of @ 1..) = self.agree {
            let _ = writeln!(
                text,
                "replays of the recordings under their settings agree with the kernel in {same} of {of} amounts"
            );
        }
        for row in &self.missing {
            let _ = writeln!(text, "not measured: {row}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(boot: &str, rows: &[(&str, u64, [u64; 3])]) -> Table {
        let row = |(setting, operations, moved): &(&str, u64, [u64; 3])| {
            let (load, setting) = setting.split_once(' ').unwrap();
            Row {
                load: load.into(),
                setting: setting.into(),
                amounts: Amounts { operations: *operations, moved: *moved },
            }
        };
        Table { boot: boot.into(), written: "2026-11-28T09:00:00Z".into(), rows: rows.iter().map(row).collect() }
    }

    fn predicted() -> Table {
        table(
            "k.m",
            &[
                ("a recorded", 1000, [100, 50, 10_000]),
                ("a none", 1000, [100, 50, 10_000]),
                ("a batch=31", 1000, [200, 100, 10_100]),
                ("a high=252", 1000, [50, 100, 20_000]),
            ],
        )
    }

    #[test]
    fn amounts_at_another_number_of_operations() {
        let amounts = Amounts { operations: 2000, moved: [3, 100, 0] };
        assert_eq!(amounts.at(1000), [2, 50, 0]);
        assert_eq!(amounts.at(4000), [6, 200, 0]);
        assert_eq!(Amounts { operations: 0, ..amounts }.at(1000), [0; 3]);
        assert_eq!(Amounts { operations: 1, moved: [u64::MAX; 3] }.at(u64::MAX), [u64::MAX; 3]);
    }

    /// A change counts from the limit on within which a replay agrees with a kernel: 5 % of refills, 10 % of drains, 6 % of pages, or
    /// 2, 3 and 256.
    #[test]
    fn what_counts_as_a_change() {
        use Change::{Less, More, Nothing};
        let cases = [
            (0, 100, [94, 95, 105, 106], [Less, Nothing, Nothing, More]),
            (1, 100, [89, 90, 110, 111], [Less, Nothing, Nothing, More]),
            (2, 10_000, [9_399, 9_400, 10_600, 10_601], [Less, Nothing, Nothing, More]),
            (0, 0, [0, 2, 3, 9], [Nothing, Nothing, More, More]),
            (2, 0, [0, 256, 257, 999], [Nothing, Nothing, More, More]),
        ];
        for (quantity, from, to, expected) in cases {
            assert_eq!(to.map(|to| change(limit(quantity), from, to)), expected, "{quantity} from {from}");
        }
    }

    #[test]
    fn signs_and_errors() {
        // Twice the operations; under batch=31 drains fall instead, and refills miss by more than 10 %.
        let measured = table(
            "k.m",
            &[
                ("a none", 1000, [110, 50, 9_000]),
                ("a batch=31", 2000, [500, 60, 20_000]),
                ("a high=252", 1000, [52, 91, 18_000]),
                ("a high=252 replayed", 1000, [52, 110, 18_900]),
            ],
        );
        let comparison = Comparison::new(&predicted(), &measured).unwrap();
        let rights: Vec<_> = comparison.compared.iter().map(|row| row.right).collect();
        assert_eq!(rights, [Some(true), Some(false), None, Some(true), Some(true), Some(true)]);
        let close: Vec<_> = comparison.compared.iter().map(Compared::is_close).collect();
        // 200 for 250, 100 for 30, 10,100 for 10,000; 50 for 52, 100 for 91, 20,000 for 18,000.
        assert_eq!(close, [false, false, true, true, true, false]);
        assert_eq!(comparison.counts(), (5, 4, 2));
        // Refills and drains of both; pages only under high=252.
        assert_eq!(comparison.large(), (5, 4));
        assert_eq!(comparison.again, [("a".to_owned(), [10.0, 0.0, -10.0])]);
        let text = comparison.text();
        let first = "4 of 5 changes have the predicted sign; 2 within 10 %. Unchanged, as predicted: 1.";
        assert_eq!(text.lines().next(), Some(first));
        assert!(
            text.contains("\na        batch=31         200        250        100         30!     10100      10000 \n"),
            "{text}"
        );
        assert!(
            text.contains("\na again without a setting: refills +10.0 %, drains +0.0 %, pages -10.0 %\n"),
            "{text}"
        );
        // 110 for 91 drains is beyond 10 %.
        let agree = "\nreplays of the recordings under their settings agree with the kernel in 2 of 3 amounts\n";
        assert!(text.ends_with(agree), "{text}");
        assert!(comparison.is_complete());
    }

    /// A promised change that does not happen is a wrong sign, and so is a change that nobody promised.
    #[test]
    fn a_change_on_one_side_only() {
        let still = table("k.m", &[("a batch=31", 1000, [100, 50, 12_000]), ("a high=252", 1000, [100, 50, 10_000])]);
        let comparison = Comparison::new(&predicted(), &still).unwrap();
        assert_eq!(comparison.counts(), (6, 0, 0));
        // No measured amount is within 10 % of none but none.
        let none = Compared { predicted: 1, measured: 0, ..comparison.compared[0].clone() };
        assert!(!none.is_close() && Compared { predicted: 0, ..none }.is_close());
    }

    #[test]
    fn rows_that_are_missing() {
        let measured = table("k.m", &[("a batch=31", 1000, [200, 100, 10_000])]);
        let comparison = Comparison::new(&predicted(), &measured).unwrap();
        assert!(!comparison.is_complete() && comparison.text().ends_with("\nnot measured: a high=252\n"));
        let error = |predicted: &Table, measured: &Table| Comparison::new(predicted, measured).unwrap_err();
        let other = table("k.n", &[("a batch=31", 1, [0; 3])]);
        assert_eq!(error(&predicted(), &other), "the prediction is of k.m, and the measurement of k.n");
        assert_eq!(error(&measured, &measured), "a has no row `recorded`");
        let idle = table("k.m", &[("a recorded", 0, [0; 3]), ("a none", 0, [0; 3])]);
        assert_eq!(error(&idle, &measured), "a has no operations");
    }

    #[test]
    fn tables_are_read_as_written() {
        let text = predicted().csv();
        assert_eq!(Table::parse(&text), Ok(predicted()));
        let error = |text: &str| Table::parse(text).unwrap_err();
        assert_eq!(error(""), format!("line 1: expected `{HEAD}`"));
        assert_eq!(error(&format!("{HEAD}\n")), "line 2: no rows");
        assert_eq!(error(&format!("{text}x\n")), "line 6: too few cells");
        for wrong in ["1,2,3", "1,2,3,4,5", "1,2,3,x", "1,2,3,-4"] {
            let line = format!("{text}k.m,2026-11-28T09:00:00Z,a,b,{wrong}\n");
            assert_eq!(error(&line), "line 6: four numbers are needed", "{wrong}");
        }
        assert_eq!(error(&format!("{text}k.n,now,a,b,1,2,3,4\n")), "line 6: another boot or time than in line 2");
    }
}
