//! A made-up machine and its output.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use pageset_record::live::{Holds, Traffic, Wait, WaitTimes, Waits};
use pageset_trace::procfs::{BuddyInfo, Zoneinfo};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::KeyCode;

use super::history::History;
use super::look::{Look, When};
use super::process_tests::{processes, sites};
use super::source::Position;
use super::state::{Scene, State};
use super::unusual::Unusual;
use super::view::{AutoTuning, View};
use super::{plain, screen};
use crate::columns::Fit;
use pageset_fleet::metrics;

/// A zoneinfo of a small and a large zone; `scale` changes the counts. Without `bounds` it is that of a kernel before
/// 6.13.
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
        ..Traffic::default()
    }
}

/// Most refills wait 2 to 3 µs, and some 1 ms; drains wait 98 to 131 µs.
fn wait_times(scale: u64) -> WaitTimes {
    let mut times = WaitTimes::default();
    (times.0[0][22], times.0[0][40], times.0[1][33]) = (990 * scale, 10 * scale, 7 * scale);
    times
}

pub(super) fn look(cpus: u32, scale: u64) -> Look {
    let traffic = |cpu| traffic(cpu, scale);
    Look {
        source: "live".to_owned(),
        when: Some(When { unix_ns: Some(1_700_000_000_000_000_000), since: Duration::from_secs(2 * scale) }),
        zoneinfo: zoneinfo(cpus, scale, true),
        buddyinfo: Some(BuddyInfo::parse("Node 0, zone DMA 1 0 2\nNode 0, zone Normal 500 200 90\n").unwrap()),
        vmstat: BTreeMap::from([
            ("pgalloc_dma".to_owned(), 7),
            ("pgalloc_normal".to_owned(), 1_000_000 * scale),
            ("pgfree".to_owned(), 900_000 * scale),
        ]),
        release: Some("6.18.0-test".to_owned()),
        version: None,
        high_fraction: Some(0),
        counted: true,
        counts_holds: false,
        traffic: Some((0..cpus).map(traffic).collect()),
        wait_times: Some(wait_times(scale)),
        processes: Some(processes(scale)),
        sites: Some(sites(scale)),
        cpu_nodes: Vec::new(),
        caches: Vec::new(),
        batch_scale_max: None,
        missing: Vec::new(),
    }
}

/// The view of a machine with this number of CPUs, two seconds after the previous look.
pub(super) fn view(cpus: u32) -> View {
    View::new(&look(cpus, 2), Some(&look(cpus, 1)))
}

/// A view with its history.
pub(super) struct Shown {
    pub(super) view: View,
    pub(super) history: History,
    pub(super) unusual: Unusual,
    pub(super) position: Option<Position>,
}

impl Shown {
    pub(super) fn new(view: View) -> Shown {
        let mut history = History::default();
        history.push(&view);
        Shown::with(view, history)
    }

    pub(super) fn with(view: View, history: History) -> Shown {
        let unusual = Unusual::of(&view, &history);
        Shown { view, history, unusual, position: None }
    }

    /// A made-up machine after some looks.
    pub(super) fn made_up(size: &str, looks: usize) -> Shown {
        let mut machine = super::made_up::MadeUp::new(super::made_up::Size::of(size), Duration::from_secs(1));
        let mut live = super::source::Live::new(move || machine.look()).unwrap();
        (1..looks).for_each(|_| _ = super::source::Source::next(&mut live).unwrap());
        let (view, history) = live.into_parts();
        Shown::with(view, history)
    }

    pub(super) fn scene(&self) -> Scene<'_> {
        Scene { view: &self.view, history: &self.history, unusual: &self.unusual, position: self.position }
    }

    pub(super) fn drawn(&self, width: u16, height: u16, state: &State) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| _ = screen::draw(frame, &self.scene(), state)).unwrap();
        terminal.backend().to_string()
    }
}

pub(super) fn drawn(width: u16, height: u16, view: &View, state: &State) -> String {
    Shown::new(view.clone()).drawn(width, height, state)
}

/// Presses keys.
pub(super) fn press(state: &mut State, view: &View, keys: &str) {
    let shown = Shown::new(view.clone());
    keys.chars().for_each(|key| _ = state.key(KeyCode::Char(key), &shown.scene()));
}

#[test]
fn a_small_screen() {
    insta::assert_snapshot!(drawn(80, 24, &view(4), &State::new()));
}

#[test]
fn a_large_screen() {
    let mut state = State::new();
    press(&mut state, &view(32), "s");
    insta::assert_snapshot!(drawn(200, 50, &view(32), &state));
}

#[test]
fn many_cpus_on_a_small_screen() {
    let view = view(512);
    let mut state = State::new();
    state.key(KeyCode::End, &Shown::new(view.clone()).scene());
    let map = drawn(80, 24, &view, &state);
    insta::assert_snapshot!(map);
    // The list shows the CPUs around the chosen one, with and without a map.
    assert!(map.contains(" 511 "), "the chosen CPU is not in the list");
    press(&mut state, &view, "mmmm");
    let list = drawn(80, 24, &view, &state);
    assert!(list.contains(" 511 ") && !list.contains("CPUs by"), "{list}");
}

/// Sizes of machines and screens. The screens show the whole machine: each CPU has a mark or a line.
#[test]
fn every_machine_on_every_screen() {
    for (machine, nodes) in [("2", 1), ("64x2", 2), ("192x2", 2), ("1024x8", 8)] {
        let shown = Shown::made_up(machine, 70);
        let cpus: usize = machine.split('x').next().unwrap().parse().unwrap();
        for (width, height) in [(40, 10), (80, 24), (120, 40), (200, 60)] {
            let screen = shown.drawn(width, height, &State::new());
            let whole = !matches!((width, cpus), (40, _) | (80 | 120, 1024));
            if whole && screen.contains("CPUs by") {
                let marks = screen.lines().skip_while(|line| !line.contains("CPUs by")).skip(1);
                let marks = marks.take_while(|line| !line.contains(" by CPU"));
                // Without the charts of the second column.
                let first = if width == 200 { 120 } else { usize::from(width) };
                let count: usize =
                    marks.flat_map(|line| line.chars().take(first + 1)).filter(|c| "·▁▂▃▄▅▆▇█".contains(*c)).count();
                assert_eq!(count, cpus, "{machine} on {width} x {height}:\n{screen}");
                assert!(nodes == 1 || (0..nodes).all(|node| screen.contains(&format!("node {node} "))), "{screen}");
            } else if whole {
                assert_eq!(cpus, 2, "{machine} on {width} x {height} has no map:\n{screen}");
            }
            assert!(screen.contains("q quit"), "{screen}");
        }
    }
}

/// The verdict comes first, whether lists tune themselves is not cut, charts have a time axis, idle rows are hidden, and
/// every row of each column is used but for gaps between panels.
#[test]
fn every_row_says_something() {
    for machine in ["2", "12", "64x2", "192x2", "1024x8"] {
        let shown = Shown::made_up(machine, 50);
        for (width, height) in [(80, 24), (120, 40), (200, 60)] {
            let screen = shown.drawn(width, height, &State::new());
            let lines: Vec<Vec<char>> = screen.lines().map(|line| line.trim_matches('"').chars().collect()).collect();
            // The header is as wide as both columns.
            let header = screen.lines().position(|line| line.contains(" held ")).unwrap();
            let (first, second) = if width == 200 { (0..120, Some(122..200)) } else { (0..width.into(), None) };
            for column in [Some(first), second].into_iter().flatten() {
                let blank =
                    lines.iter().skip(header).filter(|line| line[column.clone()].iter().all(|c| *c == ' ')).count();
                assert!(
                    blank <= if height < 30 { 1 } else { 7 },
                    "{blank} of {machine} on {width} x {height}:\n{screen}"
                );
            }
            let first = shown.unusual.findings[0].parts()[0].clone();
            assert!(screen.starts_with(&format!("\"{first}")), "{screen}");
            assert!(screen.contains("lists tune themselves"), "{screen}");
            assert!(machine != "2" && height < 60 || screen.contains(" now"), "{screen}");
            assert!(!screen.contains(" DMA "), "{screen}");
        }
    }
}

/// Without two looks there are no rates, and none is printed as 0.
#[test]
fn the_first_look_has_no_rates() {
    let view = View::new(&look(4, 1), None);
    let screen = drawn(80, 24, &view, &State::new());
    assert!(screen.starts_with("\"memory is not short; moves and waits need a second look"), "{screen}");
    let refill = screen.lines().find(|line| line.contains("refill  ")).unwrap_or_else(|| panic!("{screen}"));
    assert_eq!(refill.split_whitespace().skip(1).take(3).collect::<Vec<_>>(), ["-", "-", "-"], "{screen}");
}

/// The index of a zone without a huge page: near 1 if many small blocks are free, 0 without memory.
#[test]
fn free_blocks_have_an_index_of_fragmentation() {
    let mut zone = view(1).zones[1].clone();
    assert_eq!(zone.free_blocks, Some(vec![500, 200, 90]));
    for (blocks, expected) in [
        (vec![2048, 0, 0], Some(1.0 - 5.0 / 2048.0)),
        (vec![0; 11], Some(0.0)),
        (vec![1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0], None),
        (vec![1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1], None),
    ] {
        zone.free_blocks = Some(blocks);
        assert_eq!(zone.fragmentation_index(super::view::HUGE), expected);
    }
    let text = metrics::text(&view(1), None);
    assert!(text.contains("pageset_zone_free_blocks{node=\"0\",zone=\"Normal\",order=\"2\"} 90\n"), "{text}");
    let line = text.lines().find(|line| line.starts_with("pageset_zone_fragmentation_ratio{"));
    assert!(line.is_some_and(|line| !line.ends_with("} -1")), "{text}");
}

#[test]
fn help_and_a_screen_too_small() {
    let mut state = State::new();
    press(&mut state, &view(4), "h");
    assert!(drawn(80, 24, &view(4), &state).contains("freeze or continue"));
    for (width, height) in [(1, 1), (10, 3), (20, 200), (300, 2)] {
        drawn(width, height, &view(512), &State::new());
        drawn(width, height, &view(512), &state);
    }
}

/// The kernel adds the boost before it prints the watermarks.
#[test]
fn watermarks_are_those_that_the_kernel_prints() {
    let text = include_str!("../../../pageset-trace/tests/zoneinfo/linux-6.1-boosted.txt");
    let view = View::new(&Look { zoneinfo: Zoneinfo::parse(text).unwrap(), ..look(1, 1) }, None);
    let zone = view.zones.iter().find(|zone| zone.zone == "DMA32").unwrap();
    assert_eq!((zone.min, zone.low, zone.high), (926, 1029, 1132));
}

#[test]
fn text_for_pipes() {
    insta::assert_snapshot!(plain::text(&view(2), Fit::UNLIMITED));
}

#[test]
fn changes_are_rates_per_second() {
    let view = view(2);
    assert_eq!(view.elapsed_ns, Some(2_000_000_000));
    let traffic = view.traffic_of(1).unwrap();
    assert_eq!((traffic.refill_pages, traffic.refill_pages_per_s), (25_200, Some(6300.0)));
    let pgalloc = &view.vmstat[0];
    assert_eq!((pgalloc.name.as_str(), pgalloc.value, pgalloc.per_s), ("pgalloc", 2_000_007, Some(500_000.0)));
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
    let shown = |change: &dyn Fn(&mut Traffic)| {
        let mut looks = [look(2, 2), look(2, 1)];
        looks.iter_mut().flat_map(|look| look.traffic.as_mut().unwrap()).for_each(change);
        for look in &mut looks {
            let waits = look.traffic.as_ref().unwrap()[0].waits;
            look.processes.as_mut().unwrap().all.iter_mut().for_each(|process| process.wait_ns = waits.map(|_| 0));
            look.sites.as_mut().unwrap().all.iter_mut().for_each(|site| site.wait = waits.map(|_| Wait::default()));
            look.wait_times = waits.map(|_| WaitTimes::default());
        }
        let view = View::new(&looks[0], Some(&looks[1]));
        (plain::text(&view, Fit::UNLIMITED), drawn(120, 24, &view, &State::new()), metrics::text(&view, None))
    };
    let (text, screen, metrics) = shown(&|traffic| traffic.waits = Some(Waits::default()));
    assert!(text.contains("\nno CPU waited for a zone lock\n"), "{text}");
    assert!(screen.contains("no waits for zone locks") && metrics.contains("pageset_zone_lock_wait"), "{screen}");
    let (text, screen, metrics) = shown(&|traffic| traffic.waits = None);
    for shown in [text, screen, metrics] {
        let rest = shown.replacen("; waits are not measured", "", 1);
        assert!(!rest.contains("wait"), "{shown}");
    }
}

#[test]
fn the_kernel_determines_the_rules() {
    let tuned = |change: &dyn Fn(&mut Look)| {
        let mut look = look(2, 1);
        change(&mut look);
        let view = View::new(&look, None);
        (view.kernel.rules.clone(), view.kernel.known, view.kernel.auto_tuning, view.missing.len())
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
        // 6.7 to 6.12 tune without printing bounds: the release decides before the form of zoneinfo.
        (tuned(&|look| old(look, "6.12.57+deb13-amd64")), ("linux-6.12.29", true, AutoTuning::On, 1)),
        (
            tuned(&|look| {
                old(look, "6.12.57");
                look.high_fraction = Some(8)
            }),
            ("linux-6.12.29", true, AutoTuning::OffByFraction, 1),
        ),
        // Without a release, a high that differs within a zone is evidence; equal ones are none.
        (
            tuned(&|look| {
                old(look, "");
                look.release = None;
                look.zoneinfo.zones[1].pagesets[0].high += 1;
            }),
            ("linux-6.12.29", false, AutoTuning::On, 1),
        ),
        (
            tuned(&|look| {
                old(look, "");
                look.release = None
            }),
            ("linux-5.10", false, AutoTuning::Unknown, 1),
        ),
    ] {
        assert_eq!((found.0.as_str(), found.1, found.2, found.3), expected);
    }
    // A distribution may have backported the memory management of a newer kernel.
    let mut backported = look(2, 1);
    backported.release = Some("5.14.0-1.el9".to_owned());
    let view = View::new(&backported, None);
    assert!(plain::kernel_parts(&view).concat().contains("tunes high as kernels from 6.7 on do"));
    assert!(!View::new(&look(2, 1), None).kernel.is_another);
    let mut fixed = look(2, 1);
    fixed.high_fraction = None;
    fixed.zoneinfo.zones.iter_mut().flat_map(|zone| &mut zone.pagesets).for_each(|set| set.high_min = set.high_max);
    assert_eq!(View::new(&fixed, None).kernel.auto_tuning, AutoTuning::OffByBounds);
}

#[test]
fn news_lists_zones_and_cpus_that_come_and_go() {
    let before = look(4, 1);
    let mut now = look(3, 2);
    now.zoneinfo.zones.remove(0);
    let view = View::new(&now, Some(&before));
    assert_eq!(view.news, ["zone DMA of node 0 is gone", "CPU 3 is gone"]);
    let view = View::new(&before, Some(&now));
    assert_eq!(view.news, ["zone DMA of node 0 appeared", "CPU 3 appeared"]);
    // The holds of the other CPUs are known.
    let counted = |cpus, scale| Look { counts_holds: true, ..look(cpus, scale) };
    assert!(View::new(&counted(4, 2), Some(&counted(3, 1))).numbers().held.is_some());
    // A CPU that appeared has no rate, instead of a wrong one.
    assert_eq!(view.traffic_of(3).unwrap().refill_pages_per_s, None);
    assert_eq!(view.zones[1].pagesets[3].change, None);
}

#[test]
fn metrics_have_units_and_help() {
    let with_holds = |scale| {
        let mut look = Look { counts_holds: true, ..look(2, scale) };
        for traffic in look.traffic.iter_mut().flatten() {
            traffic.holds = Holds { refill: 100 * scale, drain: 63 * scale, direct: 2 };
        }
        look
    };
    let text = metrics::text(&View::new(&with_holds(2), Some(&with_holds(1))), None);
    assert!(text.ends_with("# EOF\n"));
    let families: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
    assert_eq!(families.len(), metrics::names().count() + 1, "{text}");
    for name in metrics::names() {
        assert!(text.contains(&format!("# HELP {name} ")), "{name} has no help");
        assert!(text.contains(&format!("# UNIT {name} ")), "{name} has no unit");
    }
    assert!(text.contains("pageset_refill_pages_total{cpu=\"1\"} 25200\n"), "{text}");
    assert!(text.contains("pageset_zone_lock_holds_total{cpu=\"1\"} 330\n"), "{text}");
    assert!(text.contains("pageset_zone_lock_wait_seconds_total{cpu=\"1\",path=\"refill\"} 0.03\n"), "{text}");
    assert!(text.contains("pageset_zone_lock_waits_total{cpu=\"1\",path=\"drain\"} 20\n"), "{text}");
    assert!(text.contains("pageset_count_pages{node=\"0\",zone=\"Normal\",cpu=\"1\"} 59\n"), "{text}");
}

/// A zone that is unusual is shown, even if not every zone is.
#[test]
fn an_unusual_zone_is_shown() {
    let shown = Shown::made_up("1024x8", 67);
    let screen = shown.drawn(80, 24, &State::new());
    assert!(screen.contains("7 Normal   < low") && screen.contains("0 Normal   ok") && !screen.contains("0 DMA"));
}

#[test]
fn a_narrow_screen() {
    let mut looks = [look(4, 2), look(4, 1)];
    looks[0].zoneinfo.zones[1].pagesets[0].count = 772_915;
    let view = View::new(&looks[0], Some(&looks[1]));
    insta::assert_snapshot!(drawn(40, 10, &view, &State::new()));
    assert!(drawn(80, 24, &view, &State::new()).contains(" 772,915 "));
}

#[test]
fn a_zone_whose_reserve_is_larger_than_its_free_pages_is_closed() {
    let mut look = look(2, 1);
    let marks = |look: &Look| View::new(look, None).zones.iter().map(super::view::Zone::mark).collect::<Vec<_>>();
    assert_eq!(marks(&look), ["ok", "ok"]);
    // DMA has 2,020 free pages and a min mark of 15.
    for (reserve, mark) in [(2004, "ok"), (2005, "closed")] {
        look.zoneinfo.zones[0].protection = vec![0, reserve];
        assert_eq!(marks(&look), [mark, "ok"], "{reserve}");
    }
}
