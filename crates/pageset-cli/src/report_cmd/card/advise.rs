//! The card of an advice: its own verdict, trust, and the numbers of the setting; and that of an advice over several
//! recordings.

use pageset_trace::advise::{self, Advice, AdviceSet, Basis, HUGE_PAGES, Setting, Sure, Trust};

use super::{Card, Figure, Kind, Verdict, capital};

/// The card of an advice.
pub(in super::super) fn advise(advice: &Advice) -> Card {
    let sentence = sentence(&advice.verdict);
    let warnings = advice.kernel.disagreement.iter().cloned();
    let unknown = (!advice.kernel.known && advice.kernel.disagreement.is_none()).then(|| {
        format!("the recording does not name its kernel; it is taken to have the rules of {}", advice.kernel.rules)
    });
    Card {
        about: format!("Advice on {}", advice.trace),
        figures: figures(advice, sentence.kind),
        verdict: sentence,
        sure: advice.sure.clone(),
        warnings: warnings.chain(unknown).collect(),
    }
}

/// The card of the verdict over several recordings. Its trust is the least of the recordings that the verdict uses.
pub(in super::super) fn joint(set: &AdviceSet) -> Card {
    let mut sentence = sentence(&set.verdict);
    for (name, said) in [("Gain", &set.gain), ("Price", &set.price)] {
        if let Some(said) = said {
            sentence.why += &format!(". {name}: {said}");
        }
    }
    let used: Vec<&Advice> = set.used().collect();
    let least = used.iter().min_by_key(|advice| advice.sure.trust);
    let sure = match least {
        Some(least) => {
            let reasons = least.sure.reasons.iter().map(|reason| format!("{}: {reason}", least.trace)).collect();
            Sure { trust: least.sure.trust, reasons }
        }
        None => Sure { trust: Trust::Low, reasons: vec!["the replay of no recording follows its kernel".to_owned()] },
    };
    let left_out = set.left_out.iter().map(|name| format!("{name} is left out: the replay does not follow the kernel"));
    let operations: u64 = used.iter().map(|advice| advice.operations).sum();
    let seconds = used.iter().map(|advice| advice.duration_ns).sum::<u64>() as f64 / 1e9;
    Card {
        about: "All recordings together".to_owned(),
        figures: [
            Figure::new("recordings", used.len() as f64, "recordings").with_note("that the verdict uses"),
            Figure::new("allocations and frees", operations as f64, "operations"),
            Figure::new("recorded", seconds, "s"),
        ],
        verdict: sentence,
        sure,
        warnings: left_out.collect(),
    }
}

/// A verdict of `advise` as that of a card.
fn sentence(verdict: &advise::Verdict) -> Verdict {
    match (verdict.basis, verdict.sysctl()) {
        (Basis::ControlFailed | Basis::Mixed, _) => Verdict::none(capital(&verdict.why)),
        (_, Some((name, value))) => Verdict::new(Kind::Differs, format!("Set {name} = {value}"), capital(&verdict.why)),
        (_, None) => Verdict::new(Kind::Same, "Change nothing", capital(&verdict.why)),
    }
}

fn figures(advice: &Advice, kind: Kind) -> [Figure; 3] {
    let now = advice.settings.iter().find(|setting| setting.in_force);
    let (Some(now), true) = (now, kind != Kind::None) else {
        let seconds = advice.duration_ns as f64 / 1e9;
        return [
            Figure::new("allocations and frees", advice.operations as f64, "operations"),
            Figure::new("recorded", seconds, "s"),
            Figure::new("CPUs", advice.cpus as f64, "CPUs"),
        ];
    };
    let then = advice.verdict.chosen(advice.settings.iter().chain(advice.scales()));
    let figure = |name: &str, unit, of: fn(&Setting) -> Option<f64>| match (of(now), then.and_then(of)) {
        (Some(now), Some(then)) => Figure::against(name, then, unit, ("now", now)),
        (now, _) => Figure::new(name, now, unit).with_note("in force"),
    };
    [
        figure("zone-lock holds", "per 1000 operations", |row| Some(row.locks_per_1000())),
        figure("most held", "pages", |row| Some(row.held_pages_max as f64)),
        figure("room for huge pages", "huge pages", |row| {
            row.high_order_pages_min.map(|pages| (pages / HUGE_PAGES) as f64)
        }),
    ]
}
