//! Pieces of recordings of real programs, one for each thing that events show only in part. Each piece is replayed with the
//! strict limits at both levels, and says how often it occurs.
//!
//! `tests/data/real/README.md` describes the pieces.

use std::io::Write;
use std::path::Path;

use pageset::CpuId;
use pageset::policy::BatchRule;
use pageset_trace::file::Writer;
use pageset_trace::replay::agreement::{agrees, explained_pct};
use pageset_trace::replay::{Borrowed, Found, Level, Outcome, Replay, RuleSet, Tuning};
use pageset_trace::{Event, Kind, Trace};

/// Replays a piece at both levels. `check` gets the survey and both outcomes.
fn replayed(name: &str, check: impl Fn(&Replay<'_>, [&Outcome; 2])) {
    replayed_file(&format!("tests/data/real/{name}.pstrace"), check);
}

/// Like [`replayed`], of a file of the repository.
fn replayed_file(name: &str, check: impl Fn(&Replay<'_>, [&Outcome; 2])) {
    replayed_trace(name, &open(name), check);
}

fn open(name: &str) -> Trace {
    Trace::open(&Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap()
}

/// Like [`replayed`], of an open recording.
fn replayed_trace(name: &str, trace: &Trace, check: impl Fn(&Replay<'_>, [&Outcome; 2])) {
    let replay = Replay::prepare(trace, &mut |_| {}).unwrap();
    let [input, reconstructed] = [Level::Input, Level::Reconstructed]
        .map(|level| replay.run(&replay.kernel_rules(), level, &mut |_| {}).unwrap());
    for outcome in [&input, &reconstructed] {
        let (kernel, ours) = (replay.kernel().totals(|_| true), outcome.moves.totals(|_| true));
        assert!(agrees(&kernel, &ours), "{name}, {}: {kernel:?} as {ours:?}", outcome.level.name());
    }
    check(&replay, [&input, &reconstructed]);
}

fn found(replay: &Replay<'_>) -> Found {
    replay.notes().found
}

fn explained(replay: &Replay<'_>, outcome: &Outcome) -> f64 {
    explained_pct(replay.kernel(), &outcome.moves)
}

/// 7.3: stacks of threads are blocks of order 2 that are freed as four pages in a row, and the kernel puts them back whole.
#[test]
fn stacks_go_back_whole() {
    replayed("rejoined", |replay, [_, reconstructed]| {
        let Found { rejoined_blocks, rejoined_proofs, .. } = found(replay);
        assert_eq!((rejoined_blocks, rejoined_proofs), (7, 4));
        assert_eq!(explained(replay, reconstructed), 100.0);
    });
}

/// 7.3: the worker that runs the timer work frees a stack from before the recording. As four pages it would halve the exponent of the next
/// refill four times, as one block once.
#[test]
fn a_worker_frees_a_stack_whole() {
    replayed("worker_stack", |replay, outcomes| {
        assert_eq!(found(replay).rejoined_blocks, 1);
        for outcome in outcomes {
            let pages = |moves: &pageset_trace::replay::Moves| {
                moves.refills.iter().map(|refill| refill.pages).collect::<Vec<_>>()
            };
            assert_eq!(pages(&outcome.moves), pages(replay.kernel()));
        }
    });
}

/// 7.3: a task clears a huge page before the event of the allocation is written, and a tick comes meanwhile. The tick drains what the
/// allocation's refill left.
#[test]
fn huge_pages_are_taken_before_they_are_cleared() {
    replayed("late_huge", |replay, [input, reconstructed]| {
        assert_eq!([input, reconstructed].map(|outcome| outcome.borrowed.late_allocs), [1, 0]);
        for outcome in [input, reconstructed] {
            assert_eq!(outcome.moves.drains, replay.kernel().drains);
        }
    });
}

/// 7.3: a task takes a page and is preempted before the event. The tick drains a page less, and the next free a batch. The input does not
/// tell, and the kernel's drain does.
#[test]
fn the_drain_of_a_tick_shows_an_allocation_before_it() {
    replayed("before_tick", |replay, [input, reconstructed]| {
        assert_eq!(found(replay).undecided_allocs, 1);
        let pages = |outcome: &Outcome| outcome.moves.drains.iter().map(|drain| drain.pages).collect::<Vec<_>>();
        assert_eq!((pages(input), pages(reconstructed)), (vec![254], vec![253, 63]));
        assert_eq!(reconstructed.moves.drains, replay.kernel().drains);
        assert_eq!(reconstructed.borrowed.moved_allocs, 1);
    });
}

/// 6.12 on three nodes: a CPU drains pages of other nodes every third tick, unless a counter of the zone changed.
#[test]
fn pages_of_other_nodes_expire_again() {
    replayed("expiry", |replay, outcomes| {
        assert_eq!(found(replay).expiries, 3);
        for outcome in outcomes {
            assert_eq!(outcome.moves.totals(|_| true).drains, 3);
            assert_eq!(outcome.moves.drains, replay.kernel().drains);
        }
    });
}

/// 6.1 on three nodes: pages of another node that nobody uses are drained at the fourth tick, since a change without an event came before the
/// second, and at each third one after it.
#[test]
fn the_first_drain_of_another_node_may_come_late() {
    replayed("late_countdown", |replay, outcomes| {
        assert_eq!(replay.kernel().drains.len(), 2);
        for outcome in outcomes {
            assert_eq!(outcome.moves.drains, replay.kernel().drains);
            assert_eq!(outcome.borrowed.start_countdowns, 1);
        }
    });
}

/// 6.1 on three nodes: a tick drains three blocks and a huge page, which carries the sum of the changes to the zone's counter. The countdown
/// does not begin anew.
#[test]
fn a_drain_that_ends_with_a_huge_page_is_no_change() {
    replayed("huge_last", |replay, outcomes| {
        assert_eq!(replay.kernel().drains.len(), 6);
        for outcome in outcomes {
            assert_eq!(outcome.moves.drains, replay.kernel().drains);
        }
    });
}

/// 6.18 on three nodes: a countdown began before the recording, and stands still while the pageset has no page. The first page comes after
/// two ticks, and the third tick after it drains.
#[test]
fn the_countdown_of_an_empty_pageset_stands_still() {
    replayed("countdown_empty", |replay, outcomes| {
        assert_eq!(found(replay).expiries, 1);
        for outcome in outcomes {
            assert_eq!(outcome.moves.drains, replay.kernel().drains);
            assert_eq!(outcome.borrowed.start_countdowns, 1);
        }
    });
}

/// 6.1 on three nodes: file pages that are used again change the counters of another node's zone, which no event shows. The kernel drains the
/// pages of that zone after 3 to 5 ticks, and by the events alone they are due after 3. Reconstructed, the ticks of these drains are the kernel's
/// by construction: equal drains there test their pages only. Input only, and with another batch, nothing is taken from the kernel.
#[test]
fn a_change_without_an_event_delays_a_drain() {
    replayed("delayed_countdown", |replay, [input, reconstructed]| {
        assert_eq!(replay.kernel().drains.len(), 9);
        assert_eq!([input, reconstructed].map(|outcome| outcome.borrowed.unseen_counter_changes), [0, 7]);
        assert_eq!(input.moves.drains.len(), 10);
        assert_eq!(reconstructed.moves.drains, replay.kernel().drains);
        // The control: a replay of wrong rules disagrees.
        let kernel = replay.kernel_rules();
        let wrong = RuleSet { tuning: Tuning { batch: BatchRule::Fixed(15), ..kernel.tuning }, ..kernel };
        let wrong = replay.run(&wrong, Level::Reconstructed, &mut |_| {}).unwrap();
        let [ours, kernels] = [&wrong.moves, replay.kernel()].map(|moves| moves.totals(|_| true));
        assert!(!agrees(&kernels, &ours), "{kernels:?} as {ours:?}");
        assert_eq!(wrong.borrowed.unseen_counter_changes, 0);
    });
}

/// 6.1 on three nodes, with the probe of the zones' counters: the drains of other nodes' pages come at the kernel's ticks input only as well.
/// By the other events alone there is a drain more.
#[test]
fn recorded_changes_of_counters_delay_drains() {
    replayed("zone_counters", |replay, outcomes| {
        assert_eq!(found(replay).expiries, 3);
        assert!(replay.notes().counter_changes > 300);
        for outcome in outcomes {
            assert_eq!(outcome.moves.drains, replay.kernel().drains);
            assert_eq!(outcome.borrowed.unseen_counter_changes, 0);
        }
    });
}

/// 6.1 on three nodes: no event shows the change that begins the countdown to a drain of a huge page. The kernel's drain does.
#[test]
fn a_change_without_an_event_begins_a_countdown() {
    let trace = open("tests/data/real/unseen_countdown.pstrace");
    let replay = Replay::prepare(&trace, &mut |_| {}).unwrap();
    let run = |level| replay.run(&replay.kernel_rules(), level, &mut |_| {}).unwrap();
    let pages = |moves: &pageset_trace::replay::Moves| moves.drains.iter().map(|drain| drain.pages).collect::<Vec<_>>();
    let (input, reconstructed) = (run(Level::Input), run(Level::Reconstructed));
    assert_eq!((pages(replay.kernel()), pages(&input.moves)), (vec![512, 516], vec![512]));
    assert_eq!(reconstructed.moves.drains, replay.kernel().drains);
    assert_eq!([input, reconstructed].map(|outcome| outcome.borrowed.unseen_counter_changes), [0, 1]);
}

/// 6.18: a first refill of 1,008 pages, and bulk allocations before the first drain.
#[test]
fn the_first_refill_shows_the_start() {
    replayed("start_factor", |replay, [input, _]| {
        assert_eq!(explained(replay, input), 100.0);
        let Borrowed { start_counters, unclear_starts, .. } = input.borrowed;
        assert_eq!((start_counters, unclear_starts), (1, 0));
    });
}

/// 6.18: a task refills on CPU 1, and the event of its huge page is on CPU 0, 172 ms later.
#[test]
fn a_task_moves_after_its_refill() {
    replayed("moved_task", |replay, outcomes| {
        assert_eq!(found(replay).moved_tasks, 1);
        for outcome in outcomes {
            assert_eq!(explained(replay, outcome), 100.0);
        }
    });
}

/// 7.3: memory goes off-line. The pagesets are in use until each of them is drained.
#[test]
fn switched_off_pagesets_are_in_use_until_they_are_drained() {
    replayed("switched_off", |replay, [input, _]| {
        let kernel = replay.kernel().totals(|_| true);
        let ours = input.moves.totals(|_| true);
        assert!(ours.refills.abs_diff(kernel.refills) <= 2 && ours.drains == kernel.drains, "{kernel:?} as {ours:?}");
        assert_eq!(input.borrowed.drain_requests, 4);
    });
}

/// 6.12: a soft interrupt frees two blocks of order 1 between two pages of a batched free, which holds the pageset's lock.
#[test]
fn an_interrupt_finds_the_batch_holding_the_lock() {
    replayed("locked_out", |replay, outcomes| {
        assert_eq!(found(replay).direct_frees, 2);
        assert_eq!(outcomes[0].borrowed.direct_frees, 0, "the input shows it");
        for outcome in outcomes {
            assert_eq!(outcome.moves.drains, replay.kernel().drains);
        }
    });
}

/// 7.3: `splice` takes 16 pages in bulk and frees them one by one. The bulk calls show what the list held at the start.
#[test]
fn bulk_calls_show_the_list_at_the_start() {
    replayed("bulk", |replay, [input, _]| {
        let refills = |moves: &pageset_trace::replay::Moves| {
            let of = |m: &&pageset_trace::replay::Move| m.cpu == pageset::CpuId(3);
            moves.refills.iter().filter(of).copied().collect::<Vec<_>>()
        };
        assert_eq!(refills(&input.moves), refills(replay.kernel()));
    });
}

/// 7.3: a drain of 2,016 pages gives up the pageset's lock after each batch, and another process runs in between.
#[test]
fn an_interrupted_drain_is_one_drain() {
    replayed_file("../../traces/lab/7.3-amd64.2node.unixN.pstrace", |replay, outcomes| {
        assert_eq!(found(replay).interrupted_drains, 1);
        assert_eq!(replay.kernel().totals(|_| true).drains, 5);
        for outcome in outcomes {
            assert_eq!(outcome.moves.totals(|_| true).drains, 5);
        }
    });
}

/// 6.1 on two nodes: a pageset of the other node holds huge pages at the start. The timer work asks for a batch, and empties the lists of
/// single pages before it takes a huge page.
#[test]
fn a_drain_shows_which_lists_were_empty() {
    replayed("huge_start", |replay, outcomes| {
        assert_eq!(replay.kernel().drains.iter().map(|drain| drain.pages).collect::<Vec<_>>(), [525, 556]);
        for outcome in outcomes {
            assert_eq!(outcome.moves.drains, replay.kernel().drains);
        }
    });
}

/// 6.1 on three nodes: the countdowns to the first drains of other nodes' pages began before the recording, and each drain begins the next.
#[test]
fn countdowns_begin_before_the_recording() {
    replayed("countdown", |replay, outcomes| {
        let whole_batches = |moves: &pageset_trace::replay::Moves| {
            moves.drains.iter().filter(|drain| drain.pages == 31).copied().collect::<Vec<_>>()
        };
        assert_eq!(whole_batches(replay.kernel()).len(), 3);
        for outcome in outcomes {
            assert_eq!(whole_batches(&outcome.moves), whole_batches(replay.kernel()));
            assert!(outcome.borrowed.start_countdowns > 0);
        }
    });
}

/// Somebody sets `high` anew while recording. The input shows that, too: by the next snapshot.
#[test]
fn what_is_set_while_recording_is_input() {
    let [before, after] = without_and_with("              high:", 126);
    let pages = [before, after].map(|outcome| outcome.moves.totals(|_| true).drain_pages);
    assert!(pages[1] > pages[0] + 500, "{pages:?}");
}

/// The work to set watermarks takes zone locks, which do not count as the allocator's: it does the same with and without them.
#[test]
fn the_work_to_set_is_not_the_allocators() {
    let [before, after] = without_and_with("        min ", 9).map(|outcome| {
        ((outcome.moves.refills, outcome.moves.drains), outcome.zone_lock_acquisitions, outcome.zone_lock_lines)
    });
    assert_eq!(before, after);
}

/// Replays a recording by its input, without and with this value of these lines in the later snapshots.
fn without_and_with(name: &str, value: u64) -> [Outcome; 2] {
    let recorded = open("../../traces/lab/6.1-amd64.4cpu.unix1.pstrace");
    let mut writer = Writer::create(Vec::new(), recorded.facts()).unwrap();
    for (tag, text) in &recorded.snapshots().texts {
        let is_later = tag.starts_with("mid") || tag.starts_with("fini");
        let line = |line: &str| if line.starts_with(name) { format!("{name} {value}") } else { line.to_owned() };
        let set: Vec<String> = text.lines().map(line).collect();
        writer.snapshot_text(tag, &if is_later { set.join("\n") + "\n" } else { text.clone() }).unwrap();
    }
    recorded.events().unwrap().for_each(|event| writer.event(&event.unwrap()).unwrap());
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&writer.finish().unwrap()).unwrap();
    let set = Trace::open(file.path()).unwrap();
    let outcomes = [&recorded, &set].map(|trace| {
        let replay = Replay::prepare(trace, &mut |_| {}).unwrap();
        replay.run(&replay.kernel_rules(), Level::Input, &mut |_| {}).unwrap()
    });
    assert_eq!(outcomes.each_ref().map(|outcome| outcome.borrowed.settings), [0, 1]);
    outcomes
}

/// 7.3: two stacks that were allocated before are freed page by page, and two threads get them whole.
#[test]
fn stacks_from_before_the_recording_go_back_whole() {
    replayed("earlier_stack", |replay, outcomes| {
        let Found { rejoined_blocks, rejoined_proofs, .. } = found(replay);
        assert_eq!((rejoined_blocks, rejoined_proofs), (2, 2));
        for outcome in outcomes {
            assert_eq!(outcome.moves.totals(|_| true).refills, 1);
            assert_eq!(explained(replay, outcome), 100.0);
        }
    });
}

/// Ticks on a CPU that no snapshot shows: it has no pageset. The survey and the replay of the others stay the same.
#[test]
fn ticks_of_a_cpu_beyond_the_snapshots() {
    let piece = open("tests/data/real/countdown.pstrace");
    let mut writer = Writer::create(Vec::new(), piece.facts()).unwrap();
    for (tag, text) in &piece.snapshots().texts {
        writer.snapshot_text(tag, text).unwrap();
    }
    for event in piece.events().unwrap().map(Result::unwrap) {
        writer.event(&event).unwrap();
        if event.kind == Kind::VmstatWork {
            writer.event(&Event { cpu: CpuId(500), ..event }).unwrap();
        }
    }
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&writer.finish().unwrap()).unwrap();
    replayed_trace("countdown with CPU 500", &Trace::open(file.path()).unwrap(), |_, outcomes| {
        for outcome in outcomes {
            assert!(outcome.borrowed.start_countdowns > 0 && outcome.refused_frees > 0);
        }
    });
}

/// 6.1 on three nodes: a page moves to its process's node. It leaves the lists of reclaim on CPU 0, and CPU 1 frees it after the process
/// has moved too.
#[test]
fn a_page_that_moves_is_freed_later() {
    replayed("moved_page", |replay, outcomes| {
        assert_eq!(replay.kernel().drains.len(), 6);
        for outcome in outcomes {
            assert_eq!(outcome.moves.drains, replay.kernel().drains);
        }
    });
}

/// 6.12: a module sets `high`, and the kernel prints no bounds. The first drain below the old ones shows the moment, long before the next
/// snapshot. The pages from before stay in other lists, so that each refill makes the next free drain, until the end.
#[test]
fn a_drain_shows_when_high_was_set() {
    let trace = open("tests/data/real/high_set.pstrace").with_bounds_set(252, 252);
    replayed_trace("high_set", &trace, |replay, outcomes| {
        assert_eq!(replay.kernel().drains.len(), 93);
        for outcome in outcomes {
            assert_eq!(outcome.borrowed.setting_moments, 1);
            assert_eq!(outcome.moves.drains, replay.kernel().drains);
        }
    });
}

/// 7.3: a module sets `high`, and its bounds. The next tick drains what is above it at once, and not an eighth of the old `high`.
#[test]
fn a_tick_drains_to_the_high_that_was_set() {
    replayed("high_set_idle", |replay, outcomes| {
        let by_tick =
            |moves: &pageset_trace::replay::Moves| moves.drains.iter().filter(|drain| drain.pages == 1763).count();
        assert_eq!(by_tick(replay.kernel()), 1);
        for outcome in outcomes {
            assert_eq!(by_tick(&outcome.moves), 1);
        }
    });
}

/// 6.12: a module sets the batch. The first refill of that size shows the moment.
#[test]
fn a_refill_shows_when_the_batch_was_set() {
    replayed("batch_set", |replay, outcomes| {
        for outcome in outcomes {
            assert_eq!(outcome.borrowed.setting_moments, 1);
            assert_eq!(outcome.moves.refills, replay.kernel().refills);
        }
    });
}

/// Bounds that a program set are those of the snapshots after the start, if the kernel prints none.
#[test]
fn bounds_that_were_set_are_of_later_snapshots() {
    let of = |name: &str| {
        let trace = open(name).with_bounds_set(252, 300);
        let bounds = |at: usize| {
            let set = trace.snapshots().zoneinfo[at].1.zones[0].pagesets[0];
            (set.high_min, set.high_max)
        };
        let start = trace.snapshots().zoneinfo.iter().rposition(|(tag, _)| tag.starts_with("init")).unwrap();
        [bounds(start), bounds(start + 1), bounds(trace.snapshots().zoneinfo.len() - 1)]
    };
    assert_eq!(of("tests/data/real/high_set.pstrace"), [(None, None), (Some(252), Some(300)), (Some(252), Some(300))]);
    let [start, later, _] = of("../../traces/lab/6.18-amd64.4cpu.unix1.pstrace");
    assert!(start.0.is_some() && later != (Some(252), Some(300)));
}
