//! A made-up machine and its output.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use pageset_trace::live::{Traffic, Wait, Waits, Way};
use pageset_trace::procfs::Zoneinfo;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::KeyCode;

use proptest::prelude::*;

use super::look::{Look, When};
use super::state::State;
use super::view::{AutoTuning, View};
use super::{fit, metrics, plain, screen};
use crate::columns::grouped;

/// A zoneinfo of a small and a large zone; `scale` changes the counts. Without `bounds` it is that of a kernel before
/// 6.7.
fn zoneinfo(cpus: u32, scale: u64, bounds: bool) -> Zoneinfo {
    let mut text = String::new();
    for (name, managed, start) in [("DMA", 3840, 1), ("Normal", 4_000_000, 1_048_576)] {
        let free = managed / 2 + scale * 100;
        let (min, low, high) = (managed / 256, managed / 205, managed / 170);
        write!(
            text,
            "Node 0, zone {name:>8}\n  pages free     {free}\n        boost    0\n        min      {min}\n        low      {low}\n        \
             high     {high}\n        spanned  {managed}\n        present  {managed}\n        managed  {managed}\n        cma      0\n        \
             protection: (0, 0)\n  pagesets\n"
        )
        .unwrap();
        for cpu in 0..cpus {
            let high = if managed < 10_000 { 0 } else { 2000 };
            let count = if high == 0 { 0 } else { (u64::from(cpu) * 37 + scale * 11 * u64::from(cpu)) % 2000 };
            write!(
                text,
                "    cpu: {cpu}\n              count:    {count}\n              high:     {high}\n              batch:    63\n"
            )
            .unwrap();
            if bounds {
                write!(text, "              high_min: {}\n              high_max: {}\n", high / 2, high * 4).unwrap();
            }
        }
        write!(text, "  node_unreclaimable:  0\n  start_pfn:           {start}\n").unwrap();
    }
    Zoneinfo::parse(&text).unwrap()
}

fn traffic(cpu: u32, scale: u64) -> Traffic {
    // Waits take less than the elapsed time.
    let busy = u64::from(cpu % 50);
    Traffic {
        cpu,
        refill_pages: scale * 6300 * u64::from(cpu + 1),
        drain_pages: scale * 4000,
        high_order_drains: scale * 3,
        fallbacks: scale,
        waits: Some(Waits {
            refill: Wait { times: 100 * scale * busy, ns: 15_000_000 * scale * busy },
            drain: Wait { times: 10 * scale * busy, ns: 500_000 * scale * busy },
            direct_alloc: Wait::default(),
            direct_free: Wait { times: 7, ns: 7000 },
        }),
    }
}

fn look(cpus: u32, scale: u64, at: Instant) -> Look {
    let traffic = |cpu| traffic(cpu, scale);
    Look {
        source: "live".to_owned(),
        when: Some(When { unix_ns: 1_700_000_000_000_000_000, instant: at + Duration::from_secs(2 * scale) }),
        zoneinfo: zoneinfo(cpus, scale, true),
        vmstat: BTreeMap::from([
            ("pgalloc_dma".to_owned(), 7),
            ("pgalloc_normal".to_owned(), 1_000_000 * scale),
            ("pgfree".to_owned(), 900_000 * scale),
        ]),
        release: Some("6.18.0-test".to_owned()),
        version: None,
        high_fraction: Some(0),
        counted_by: Some(Way::Bpf),
        traffic: Some((0..cpus).map(traffic).collect()),
        missing: Vec::new(),
    }
}

/// The view of a machine with this number of CPUs, two seconds after the previous look.
pub(super) fn view(cpus: u32) -> View {
    let at = Instant::now();
    View::new(&look(cpus, 2, at), Some(&look(cpus, 1, at)))
}

fn drawn(width: u16, height: u16, view: &View, state: &State) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| screen::draw(frame, view, state)).unwrap();
    terminal.backend().to_string()
}

#[test]
fn a_small_screen() {
    insta::assert_snapshot!(drawn(80, 24, &view(4), &State::new()));
}

#[test]
fn a_large_screen() {
    let mut state = State::new();
    state.key(KeyCode::Char('s'), &view(32), 1);
    insta::assert_snapshot!(drawn(200, 50, &view(32), &state));
}

#[test]
fn many_cpus_on_a_small_screen() {
    let view = view(512);
    let mut state = State::new();
    state.key(KeyCode::End, &view, 1);
    let map = drawn(80, 24, &view, &state);
    insta::assert_snapshot!(map);
    // The map shows each CPU, seventy in a line. The list shows the CPUs around the chosen one.
    let heads: Vec<&str> = map.lines().filter_map(|line| line.get(1..6)?.strip_suffix(' ')).map(str::trim).collect();
    let heads: Vec<u32> = heads.iter().filter_map(|head| head.parse().ok()).collect();
    assert_eq!(heads, [0, 70, 140, 210, 280, 350, 420, 490]);
    state.key(KeyCode::Char('m'), &view, 70);
    assert!(drawn(80, 24, &view, &state).contains(" 511 "), "the chosen CPU is not in the list");
}

#[test]
fn help_and_a_screen_too_small() {
    let mut state = State::new();
    state.key(KeyCode::Char('h'), &view(4), 1);
    assert!(drawn(80, 24, &view(4), &state).contains("freeze or continue"));
    for (width, height) in [(1, 1), (10, 3), (20, 200), (300, 2)] {
        drawn(width, height, &view(512), &State::new());
        drawn(width, height, &view(512), &state);
    }
}

#[test]
fn text_for_pipes() {
    insta::assert_snapshot!(plain::text(&view(2)));
}

#[test]
fn changes_are_rates_per_second() {
    let view = view(2);
    assert_eq!(view.elapsed_ns, Some(2_000_000_000));
    let traffic = view.traffic_of(1).unwrap();
    assert_eq!((traffic.refill_pages, traffic.refill_pages_per_s), (25_200, Some(6300.0)));
    let pgalloc = &view.vmstat[0];
    assert_eq!((pgalloc.name, pgalloc.value, pgalloc.per_s), ("pgalloc", 2_000_007, Some(500_000.0)));
    assert_eq!(view.zones[1].free_change, Some(100));
    assert_eq!(view.zones[1].pagesets[1].change, Some(11));
}

#[test]
fn waits_are_counted_by_path() {
    let view = view(2);
    let waits = view.waits_of(1).unwrap();
    // 15 ms of waits in 2 s.
    assert_eq!((waits.refill.ns, waits.refill.pct, waits.refill.per_s), (30_000_000, Some(0.75), Some(50.0)));
    assert_eq!((waits.drain.times, waits.drain.pct), (20, Some(0.025)));
    assert_eq!((waits.direct_alloc.pct, waits.direct_free.pct), (Some(0.0), Some(0.0)));
    assert_eq!(waits.pct(), Some(0.775));
    let json = serde_json::to_value(&view).unwrap();
    assert_eq!(json["counted_by"], "bpf");
    assert_eq!(json["traffic"][1]["zone_lock_waits"]["drain"]["ns"], 1_000_000);
}

#[test]
fn no_waits_differ_from_unmeasured_waits() {
    let at = Instant::now();
    let shown = |change: &dyn Fn(&mut Traffic)| {
        let mut looks = [look(2, 2, at), look(2, 1, at)];
        looks.iter_mut().flat_map(|look| look.traffic.as_mut().unwrap()).for_each(change);
        let view = View::new(&looks[0], Some(&looks[1]));
        (plain::text(&view), drawn(120, 24, &view, &State::new()), metrics::text(&view).unwrap())
    };
    let (text, screen, metrics) = shown(&|traffic| traffic.waits = Some(Waits::default()));
    assert!(text.contains("\nno CPU waited for a zone lock\n"), "{text}");
    assert!(screen.contains("zone-lock wait %: refill 0.00") && metrics.contains("pageset_zone_lock_wait"), "{screen}");
    let (text, screen, metrics) = shown(&|traffic| traffic.waits = None);
    for shown in [text, screen, metrics] {
        assert!(!shown.contains("wait"), "{shown}");
    }
}

/// The CPUs with the longest waits come first.
#[test]
fn sorted_by_waits() {
    let view = view(60);
    let mut state = State::new();
    (0..4).for_each(|_| _ = state.key(KeyCode::Char('s'), &view, 1));
    let order: Vec<u32> = state.ordered(&view).iter().take(3).map(|set| set.cpu).collect();
    assert_eq!(order, [49, 48, 47]);
}

#[test]
fn the_kernel_determines_the_rules() {
    let at = Instant::now();
    let tuned = |change: &dyn Fn(&mut Look)| {
        let mut look = look(2, 1, at);
        change(&mut look);
        let view = View::new(&look, None);
        (view.kernel.rules, view.kernel.known, view.kernel.auto_tuning, view.missing.len())
    };
    let old = |look: &mut Look, release: &str| {
        look.release = Some(release.to_owned());
        look.zoneinfo = zoneinfo(2, 1, false);
    };
    for (found, expected) in [
        (tuned(&|_| {}), ("linux-6.18", true, AutoTuning::On, 0)),
        (tuned(&|look| look.high_fraction = Some(8)), ("linux-6.18", true, AutoTuning::OffByFraction, 0)),
        (tuned(&|look| look.release = None), ("linux-6.18", false, AutoTuning::On, 0)),
        // Old kernels print no bounds, and `missing` says so; without auto-tuning a fraction switches nothing off.
        (tuned(&|look| old(look, "5.14.0-1.el9")), ("linux-5.14", true, AutoTuning::NotInKernel, 1)),
        (tuned(&|look| old(look, "6.6.87")), ("linux-6.6.37", true, AutoTuning::NotInKernel, 1)),
    ] {
        assert_eq!(found, expected);
    }
    // A distribution may have backported the memory management of a newer kernel.
    let mut backported = look(2, 1, at);
    backported.release = Some("5.14.0-1.el9".to_owned());
    let view = View::new(&backported, None);
    assert!(plain::kernel_line(&view).contains("but this kernel tunes high, as kernels from 6.7 on do"));
    assert!(!View::new(&look(2, 1, at), None).kernel.is_another);
    let mut fixed = look(2, 1, at);
    fixed.high_fraction = None;
    fixed.zoneinfo.zones.iter_mut().flat_map(|zone| &mut zone.pagesets).for_each(|set| set.high_min = set.high_max);
    assert_eq!(View::new(&fixed, None).kernel.auto_tuning, AutoTuning::OffByBounds);
}

#[test]
fn news_lists_zones_and_cpus_that_come_and_go() {
    let at = Instant::now();
    let before = look(4, 1, at);
    let mut now = look(3, 2, at);
    now.zoneinfo.zones.remove(0);
    let view = View::new(&now, Some(&before));
    assert_eq!(view.news, ["zone DMA of node 0 is gone", "CPU 3 is gone"]);
    let view = View::new(&before, Some(&now));
    assert_eq!(view.news, ["zone DMA of node 0 appeared", "CPU 3 appeared"]);
    // A CPU that appeared has no rate, instead of a wrong one.
    assert_eq!(view.traffic_of(3).unwrap().refill_pages_per_s, None);
    assert_eq!(view.zones[1].pagesets[3].change, None);
}

#[test]
fn metrics_have_units_and_help() {
    let text = metrics::text(&view(2)).unwrap();
    assert!(text.ends_with("# EOF\n"));
    let families: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
    assert_eq!(families.len(), metrics::names().count() + 1, "{text}");
    for name in metrics::names() {
        assert!(text.contains(&format!("# HELP {name} ")), "{name} has no help");
        assert!(text.contains(&format!("# UNIT {name} ")), "{name} has no unit");
    }
    assert!(text.contains("pageset_refill_pages_total{cpu=\"1\"} 25200\n"), "{text}");
    assert!(text.contains("pageset_zone_lock_wait_seconds_total{cpu=\"1\",path=\"refill\"} 0.03\n"), "{text}");
    assert!(text.contains("pageset_zone_lock_waits_total{cpu=\"1\",path=\"drain\"} 20\n"), "{text}");
    assert!(text.contains("pageset_count_pages{node=\"0\",zone=\"Normal\",cpu=\"1\"} 59\n"), "{text}");
}

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
        keys in "[szmh ]{0,6}",
    ) {
        let mut next = numbers.iter().copied().cycle();
        let mut next = || next.next().unwrap_or(0);
        let at = Instant::now();
        let mut looks = [look(cpus, 2, at), look(cpus, 1, at)];
        for look in &mut looks {
            look.missing.push(format!("cannot read {} of {} files", grouped(next()), next()));
            for zone in &mut look.zoneinfo.zones {
                (zone.free, zone.managed, zone.min, zone.low, zone.high) = (next(), next().max(1), next(), next(), next());
                for set in &mut zone.pagesets {
                    set.cpu += first_cpu;
                    (set.count, set.high, set.batch) = (next(), next(), next());
                    (set.high_min, set.high_max) = (Some(next()), Some(next()));
                }
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
        let view = View::new(&looks[0], Some(&looks[1]));
        let mut state = State::new();
        keys.chars().for_each(|key| _ = state.key(KeyCode::Char(key), &view, 1));
        let drawn = drawn(width, height, &view, &state);
        let mut texts = HashSet::new();
        allowed(&serde_json::to_value(&view).unwrap(), &mut texts);
        let pct = |traffic: &super::view::CpuTraffic| Some(format!("{:.2}", traffic.zone_lock_waits?.pct()?));
        texts.extend(view.traffic.iter().flatten().filter_map(pct));
        let lines: Vec<String> = view.missing.iter().cloned().chain([plain::kernel_line(&view)]).collect();
        texts.extend(lines.iter().flat_map(|line| numbers_in(line)).map(str::to_owned));
        for line in drawn.lines() {
            for number in numbers_in(line.trim_matches('"')) {
                prop_assert!(texts.contains(number), "{number:?} is cut:\n{drawn}");
            }
        }
        // The most important numbers are always there.
        let held = view.zones.iter().all(|zone| {
            drawn.contains(&grouped(zone.held)) || drawn.contains(&fit::short(zone.held))
        });
        prop_assert!(held || width < 18 || height < 10 || state.help, "held is missing:\n{drawn}");
    }
}

#[test]
fn a_narrow_screen() {
    let at = Instant::now();
    let mut looks = [look(4, 2, at), look(4, 1, at)];
    looks[0].zoneinfo.zones[1].pagesets[0].count = 772_915;
    let view = View::new(&looks[0], Some(&looks[1]));
    insta::assert_snapshot!(drawn(40, 10, &view, &State::new()));
    assert!(drawn(80, 24, &view, &State::new()).contains(" 772,915 "));
}
