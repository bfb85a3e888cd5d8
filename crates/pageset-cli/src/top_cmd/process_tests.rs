//! The lists of processes and call sites, and both in text and JSON.

use pageset_record::live::{Process, Processes, Site, Sites, Wait};
use ratatui::crossterm::event::KeyCode;

use super::order::Sort;
use super::plain;
use super::source::Position;
use super::state::State;
use super::tests::{Shown, drawn, look, press, view};
use super::view::View;
use crate::columns::Fit;
use pageset_fleet::metrics;

/// Two processes more than the text shows.
pub(super) fn processes(scale: u64) -> Processes {
    let process = |(pid, name, in_k, out_k, ms): (u32, &str, u64, u64, u64)| Process {
        pid,
        name: name.to_owned(),
        refill_pages: in_k * 1000 * scale,
        drain_pages: out_k * 1000 * scale,
        wait_ns: Some(ms * 1_000_000 * scale),
    };
    let all = [
        (0, "swapper/1", 0, 1, 0),
        (91, "kswapd0", 0, 7, 30),
        (4242, "page_fault1", 900, 0, 12),
        (1, "systemd", 1, 0, 0),
        (777, "sender", 63, 0, 5),
        (778, "receiver", 0, 62, 4),
        (3_999_999, "cc1plus", 8, 4, 0),
    ];
    Processes { all: all.map(process).into(), lost_pages: 0, lost_wait_ns: 0 }
}

/// A call site more than the text shows.
pub(super) fn sites(scale: u64) -> Sites {
    let site = |(function, caller, in_k, out_k, ms): (&str, &str, u64, u64, u64)| Site {
        function: function.to_owned(),
        caller: caller.to_owned(),
        refill_pages: in_k * 1000 * scale,
        drain_pages: out_k * 1000 * scale,
        samples: (in_k + out_k).div_ceil(4) * scale,
        wait: Some(Wait { times: 100 * ms, ns: ms * 1_000_000 * scale }),
    };
    let all = [
        ("exit_mmap", "__mmput", 0, 7, 0),
        ("do_anonymous_page", "__handle_mm_fault", 900, 0, 12),
        ("skb_release_data", "consume_skb", 0, 62, 4),
        ("alloc_skb_with_frags", "sock_alloc_send_pskb", 63, 0, 5),
        ("", "", 1, 0, 0),
        ("shrink_folio_list", "evict_folios", 0, 8, 30),
    ];
    Sites { all: all.map(site).into(), lost_pages: 0, lost_wait_ns: 0 }
}

/// The list of processes on screens of every size: the most pages first, or the longest waits; scrolled to the end.
#[test]
fn processes_are_listed() {
    let (view, mut state) = (view(4), State::new());
    press(&mut state, &view, "w");
    for (width, height) in [(40, 10), (80, 24), (120, 40), (200, 60)] {
        let screen = drawn(width, height, &view, &state);
        let first = screen.lines().find(|line| line.contains("page_fault1")).unwrap_or_else(|| panic!("{screen}"));
        assert!(first.contains(if width == 40 { " 900k" } else { " 900,000" }), "{screen}");
        assert!(first.contains(" 4242 ") && first.contains(" 12.00"), "{screen}");
        assert_eq!(height > 10, screen.contains("3999999"), "{screen}");
        assert_eq!(height == 10, screen.contains("of 7"), "{screen}");
        assert!(!screen.contains("CPUs by"), "{screen}");
    }
    insta::assert_snapshot!(drawn(80, 24, &view, &state));
    let shown = Shown::new(view.clone());
    let names = |state: &State| {
        let all = state.movers(&shown.history.processes).unwrap();
        all.iter().map(|process| process.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(&state)[..3], ["page_fault1", "sender", "receiver"]);
    press(&mut state, &view, "s");
    assert_eq!(names(&state)[..3], ["kswapd0", "page_fault1", "sender"]);
    assert_eq!(state.sort, Sort::Cpu, "the order of the CPUs stays");
    drawn(40, 10, &view, &state);
    state.key(KeyCode::End, &Shown::new(view.clone()).scene());
    let end = drawn(40, 10, &view, &state);
    assert!(end.contains("swapper/1") && end.contains("to 7 of 7") && !end.contains("kswapd0"), "{end}");
    state.key(KeyCode::Up, &Shown::new(view.clone()).scene());
    assert!(!drawn(40, 10, &view, &state).contains("to 7 of 7"), "the first press of Up after End scrolls");
    press(&mut state, &view, "ww");
    assert!(drawn(80, 24, &view, &state).contains("zone 0 Normal by CPU"));
}

/// Without processes, the list says why. Looks that were saved before there were processes are still read.
#[test]
fn processes_that_are_not_counted_have_a_reason() {
    let mut state = State::new();
    let mut value = serde_json::to_value(view(2)).unwrap();
    assert_eq!(value["processes"][0]["pages_in"], 1_800_000);
    assert_eq!(value["processes"][0]["zone_lock_wait_ns"], 24_000_000);
    assert!(value.as_object_mut().unwrap().remove("processes").is_some());
    let view: View = serde_json::from_value(value).unwrap();
    assert_eq!(view.processes, None);
    press(&mut state, &view, "w");
    let with = |change: &dyn Fn(&mut Shown)| {
        let mut shown = Shown::new(view.clone());
        change(&mut shown);
        shown.drawn(100, 24, &state)
    };
    let none = with(&|shown| shown.view.counted_by = None);
    assert!(none.contains("no processes: nothing is counted; run as root"), "{none}");
    let saved = with(&|shown| shown.position = Some(Position { place: 0, looks: 1 }));
    assert!(saved.contains("no processes: these looks were saved without"), "{saved}");
    assert!(!plain::text(&view, Fit::UNLIMITED).contains("page_fault1"));
}

/// What belongs to no process is shown, and metrics have no process.
#[test]
fn lost_pages_are_shown() {
    let mut looks = [look(2, 2), look(2, 1)];
    let processes = looks[0].processes.as_mut().unwrap();
    (processes.lost_pages, processes.lost_wait_ns) = (12_345, 1_500_000);
    let view = View::new(&looks[0], Some(&looks[1]));
    let lost = "12,345 pages and 1.500 ms of waits since the previous look belong to no shown process";
    assert!(plain::text(&view, Fit::UNLIMITED).contains(lost) && drawn(200, 60, &view, &State::new()).contains(lost));
    assert!(!metrics::text(&view, None).contains("page_fault1"));
    let json = |view: &View| serde_json::to_value(view).unwrap()["processes_lost"].clone();
    assert_eq!(json(&view), serde_json::json!({ "pages": 12_345, "zone_lock_wait_ns": 1_500_000 }));
    looks[0].wait_times = None;
    let view = View::new(&looks[0], None);
    assert_eq!(json(&view), serde_json::json!({ "pages": 12_345, "zone_lock_wait_ns": null }));
    looks[0].processes = None;
    assert!(json(&View::new(&looks[0], None)).is_null());
}

/// The list of call sites: the caller where there is room, and the number of samples on every screen.
#[test]
fn call_sites_are_listed() {
    let (view, mut state) = (view(4), State::new());
    press(&mut state, &view, "ww");
    for (width, height) in [(40, 10), (80, 24), (120, 40), (200, 60)] {
        let screen = drawn(width, height, &view, &state);
        let first =
            screen.lines().find(|line| line.contains("do_anonymous_page")).unwrap_or_else(|| panic!("{screen}"));
        assert!(first.contains(" 450 ") && screen.contains("call sites by pages"), "{screen}");
        assert_eq!(width > 40, first.contains(" 12.00"), "{screen}");
        assert_eq!(width > 80, first.contains(" __handle_mm_fault "), "{screen}");
        assert_eq!(width > 40, screen.contains("524 samples, one in about 4,096 pages"), "{screen}");
        assert!(!screen.contains("CPUs by"), "{screen}");
    }
    insta::assert_snapshot!(drawn(120, 24, &view, &state));
    let shown = Shown::new(view.clone());
    let names = |state: &State| {
        let all = state.movers(&shown.history.sites).unwrap();
        all.iter().map(|site| site.function.clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(&state)[..2], ["do_anonymous_page", "alloc_skb_with_frags"]);
    press(&mut state, &view, "s");
    assert_eq!(names(&state)[..2], ["shrink_folio_list", "do_anonymous_page"]);
}

/// Without call sites, the list says why. Looks that were saved before there were call sites are still read.
#[test]
fn call_sites_that_are_not_counted_have_a_reason() {
    let mut state = State::new();
    let mut value = serde_json::to_value(view(2)).unwrap();
    let first = &value["call_sites"][0];
    assert_eq!((&first["function"], &first["caller"]), (&"do_anonymous_page".into(), &"__handle_mm_fault".into()));
    assert_eq!((&first["pages_in"], &first["page_samples"]), (&1_800_000.into(), &450.into()));
    assert_eq!((&first["zone_lock_wait_ns"], &first["zone_lock_wait_samples"]), (&24_000_000.into(), &1200.into()));
    assert!(value.as_object_mut().unwrap().remove("call_sites").is_some());
    let view: View = serde_json::from_value(value).unwrap();
    assert_eq!(view.call_sites, None);
    press(&mut state, &view, "ww");
    let with = |counted_by: Option<&str>, position| {
        let mut shown = Shown::new(view.clone());
        (shown.view.counted_by, shown.position) = (counted_by.map(str::to_owned), position);
        shown.drawn(100, 24, &state)
    };
    for (screen, reason) in [
        (with(Some("bpf"), None), "no call sites: they need Linux 5.6 and addresses in /proc/kallsyms"),
        (with(None, None), "no call sites: nothing is counted; run as root"),
        (with(None, Some(Position { place: 0, looks: 1 })), "no call sites: these looks were saved without"),
    ] {
        assert!(screen.contains(reason), "{screen}");
    }
    assert!(!plain::text(&view, Fit::UNLIMITED).contains("call site"));
}

/// What belongs to no call site is shown.
#[test]
fn lost_pages_of_call_sites_are_shown() {
    let mut looks = [look(2, 2), look(2, 1)];
    let sites = looks[0].sites.as_mut().unwrap();
    (sites.lost_pages, sites.lost_wait_ns) = (12_345, 1_500_000);
    let view = View::new(&looks[0], Some(&looks[1]));
    let lost = "12,345 pages and 1.500 ms of waits since the previous look belong to no shown call site";
    assert!(plain::text(&view, Fit::UNLIMITED).contains(lost));
    let json = |view: &View| serde_json::to_value(view).unwrap()["call_sites_lost"].clone();
    assert_eq!(json(&view), serde_json::json!({ "pages": 12_345, "zone_lock_wait_ns": 1_500_000 }));
    looks[0].wait_times = None;
    let view = View::new(&looks[0], None);
    assert_eq!(json(&view), serde_json::json!({ "pages": 12_345, "zone_lock_wait_ns": null }));
    looks[0].sites = None;
    assert!(json(&View::new(&looks[0], None)).is_null());
}
