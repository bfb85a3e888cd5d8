//! No number is cut, on any screen.

use std::collections::HashSet;

use pageset_record::live::{Wait, Waits};
use proptest::prelude::*;
use ratatui::crossterm::event::KeyCode;

use super::fit;
use super::history::History;
use super::source::Position;
use super::state::State;
use super::tests::{Shown, look};
use super::view::View;
use crate::columns::grouped;

/// The numbers in a text, without signs.
fn numbers_in(text: &str) -> impl Iterator<Item = &str> {
    let parts = text.split(|c: char| !(c.is_ascii_digit() || ",.kMGTPE".contains(c)));
    parts.map(|part| part.trim_matches([',', '.'])).filter(|part| part.starts_with(|c: char| c.is_ascii_digit()))
}

/// Every text of every number in a view.
fn allowed(value: &serde_json::Value, texts: &mut HashSet<String>) {
    let mut add = |number: u64| texts.extend([number.to_string(), grouped(number), fit::short(number)]);
    match value {
        serde_json::Value::Number(number) => {
            if let Some(number) = number.as_u64().or_else(|| number.as_i64().map(i64::unsigned_abs)) {
                add(number);
            }
            if let Some(number) = number.as_f64() {
                add(number.round() as u64);
                texts.insert(format!("{number:.2}"));
            }
        }
        serde_json::Value::Array(all) => all.iter().for_each(|value| allowed(value, texts)),
        serde_json::Value::Object(all) => all.values().for_each(|value| allowed(value, texts)),
        _ => {}
    }
}

/// Numbers of any size.
fn any_size() -> impl Strategy<Value = u64> {
    (any::<u64>(), 0..64_u32).prop_map(|(number, shift)| number >> shift)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// No number is cut, whatever its size and the size of the screen.
    #[test]
    fn no_number_is_cut(
        numbers in prop::collection::vec(any_size(), 64),
        cpus in 1..40_u32,
        first_cpu in prop_oneof![Just(0), 0..100_000_u32],
        (width, height) in (1..220_u16, 1..60_u16),
        nodes in 1..4_u32,
        keys in "[szmhw +]{0,8}",
        playback in any::<bool>(),
    ) {
        let mut next = numbers.iter().copied().cycle();
        let mut next = || next.next().unwrap_or(0);
        let mut looks = [look(cpus, 2), look(cpus, 1)];
        for look in &mut looks {
            look.missing.push(format!("cannot read {} of {} files", grouped(next()), next()));
            look.cpu_nodes = (0..(first_cpu + cpus).min(9)).map(|cpu| cpu % nodes).collect();
            look.wait_times.as_mut().unwrap().0.iter_mut().flatten().for_each(|waits| *waits = next() % 3);
            for zone in &mut look.zoneinfo.zones {
                (zone.free, zone.managed, zone.min, zone.low, zone.high) = (next(), next().max(1), next(), next(), next());
                for set in &mut zone.pagesets {
                    set.cpu += first_cpu;
                    (set.count, set.high, set.batch) = (next(), next(), next());
                    (set.high_min, set.high_max) = (Some(next()), Some(next()));
                }
            }
            for process in look.processes.iter_mut().flat_map(|processes| &mut processes.all) {
                process.pid = next() as u32;
                (process.refill_pages, process.drain_pages, process.wait_ns) = (next(), next(), Some(next()));
            }
            for site in look.sites.iter_mut().flat_map(|sites| &mut sites.all) {
                (site.refill_pages, site.drain_pages, site.samples) = (next(), next(), next());
                site.wait = Some(Wait { times: next(), ns: next() });
            }
            for traffic in look.traffic.iter_mut().flatten() {
                traffic.cpu += first_cpu;
                (traffic.refill_pages, traffic.drain_pages) = (next(), next());
                traffic.waits = Some(Waits {
                    refill: Wait { times: next(), ns: next() },
                    drain: Wait { times: next(), ns: next() },
                    ..Waits::default()
                });
            }
        }
        let views = [View::new(&looks[1], None), View::new(&looks[0], Some(&looks[1]))];
        let mut history = History::default();
        views.iter().for_each(|view| history.push(view));
        let [_, view] = views;
        let mut shown = Shown::with(view.clone(), history);
        let of_day = |random: u64| usize::try_from(random % 100_000).unwrap();
        shown.position = playback.then(|| Position { place: of_day(next()), looks: of_day(next()) });
        let mut state = State::new();
        keys.chars().for_each(|key| _ = state.key(KeyCode::Char(key), &shown.scene()));
        fit::SEEN.take();
        let drawn = shown.drawn(width, height, &state);
        let mut texts = HashSet::new();
        allowed(&serde_json::to_value(&view).unwrap(), &mut texts);
        texts.extend(fit::SEEN.take().iter().flat_map(|text| numbers_in(text)).map(str::to_owned));
        // The names of columns are no numbers.
        let numbers = ["p50", "p90", "p99"].into_iter().fold(drawn.clone(), |text, name| text.replace(name, ""));
        for line in numbers.lines() {
            for number in numbers_in(line.trim_matches('"')) {
                prop_assert!(texts.contains(number), "{number:?} is cut:\n{drawn}");
            }
        }
        // The most important numbers are always there.
        let held = view.zones.iter().filter(|zone| !zone.is_idle()).all(|zone| {
            drawn.contains(&grouped(zone.held)) || drawn.contains(&fit::short(zone.held))
        });
        prop_assert!(held || width < 18 || height < 10 || state.help, "held is missing:\n{drawn}");
    }
}
