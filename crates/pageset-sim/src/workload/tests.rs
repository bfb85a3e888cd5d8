use std::cell::{Cell, RefCell};

use pageset::{MigrateType, Order, Owner as _, Request};

use super::*;
use crate::era::Era;
use crate::machine::{self, Machine};
use crate::os::{File, Region, Scattered, Shape, Socket, Space};
use crate::run::{Outcome, Run, RunError};
use crate::time::Time;

fn small() -> Machine {
    machine::find("lkp-sb02").unwrap().unwrap()
}

fn run(machine: &Machine, workload: &Workload, tasks: u32, seed: u64) -> Result<Outcome, RunError> {
    run_of(machine, workload, tasks, seed).run(|| true)
}

/// A short run.
fn run_of<'m>(machine: &'m Machine, workload: &'m Workload, tasks: u32, seed: u64) -> Run<'m> {
    let tuning = pageset::tuning::presets::LINUX_4_17;
    let (warm_up, time) = (Time::from_seconds(0.004), Time::from_seconds(0.008));
    Run {
        workload,
        machine,
        tuning,
        era: Era::of_rules("linux-4.17"),
        high_fraction: 0,
        tasks,
        warm_up,
        time,
        precision_pct: None,
        whole: true,
        held: 0,
        seed,
    }
}

/// Runs tasks that end, with room for some objects.
fn once(code: Code, tasks: u32) -> Outcome {
    let workload = Workload::new("test", "", "", code).needing(|_| Needs { objects: 8, ..Needs::NOTHING }).once();
    run(&small(), &workload, tasks, 1).unwrap()
}

#[test]
fn all_workloads_make_progress_and_repeat_themselves() {
    // Those that fill gigabytes first have tests of their own, as users run them.
    let large = ["truncate", "thp-mix", "stress-highalloc-100ms", "stress-highalloc-1ms", "parallel-free"];
    for workload in WORKLOADS.iter().filter(|workload| !large.contains(&workload.name)) {
        let machine = small();
        let outcome = run(&machine, workload, 4, 1).unwrap();
        assert!(outcome.operations[0] > 0, "{}", workload.name);
        let again = run(&machine, workload, 4, 1).unwrap();
        assert_eq!((again.operations, again.moved), (outcome.operations, outcome.moved), "{}", workload.name);
    }
}

#[test]
fn names_are_different_and_fit_the_command_line() {
    for (i, workload) in WORKLOADS.iter().enumerate() {
        assert!(WORKLOADS[..i].iter().all(|other| other.name != workload.name), "{}", workload.name);
        assert!(workload.name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c)), "{}", workload.name);
    }
}

#[test]
fn a_writer_of_an_address_space_is_alone() {
    // Task 0 unmaps a region while the others fault: its unmapping takes its time, during which no fault ends.
    let outcome = once(
        |system, tasks| {
            let space = Space::shared(system, tasks);
            let unmapping = RefCell::new(None);
            let faults = RefCell::new(Vec::new());
            let left = Cell::new(tasks);
            Ok(Box::new(move |task| {
                let mut region = Region::new(&space);
                for _ in 0..200 {
                    region.fault(system)?;
                    faults.borrow_mut().push((task, system.engine().now()));
                }
                if task == 0 {
                    let begin = system.engine().now();
                    region.unmap(system)?;
                    *unmapping.borrow_mut() = Some((begin, system.engine().now()));
                } else {
                    for _ in 0..400 {
                        region.fault(system)?;
                        faults.borrow_mut().push((task, system.engine().now()));
                    }
                }
                left.set(left.get() - 1);
                if left.get() == 0 {
                    let (begin, end) = unmapping.borrow().unwrap();
                    // From when the writer has the semaphore until it gives it: inside of the call, but for its wait.
                    let inside = |time: Time| begin + Time::from_ps(20_000_000) < time && time + Time::from_ps(1) < end;
                    let mut between: Vec<Time> =
                        faults.borrow().iter().map(|fault| fault.1).filter(|time| inside(*time)).collect();
                    between.sort();
                    assert!(between.len() < 4, "{begin:?} to {end:?}: {between:?}");
                    assert!(faults.borrow().iter().any(|fault| fault.1 > end), "faults go on afterwards");
                }
                Ok(())
            }))
        },
        3,
    );
    assert_eq!(outcome.moved.allocated, (200 + 1 + 1) + 2 * (600 + 2), "pages, page tables, a bundle");
}

#[test]
fn messages_carry_pages_from_cpu_to_cpu() {
    const BLOCKS: &[Order] = &[Order::COSTLY, Order::ZERO];
    const SHAPE: Shape = Shape { blocks: BLOCKS, kept: None, protocol: Time::ZERO, room: 4 };
    let outcome = once(
        |system, _| {
            let socket = Socket::new(system, SHAPE);
            Ok(Box::new(move |task| {
                for _ in 0..1000 {
                    if task == 0 { socket.send(system)? } else { socket.receive(system) }
                }
                Ok(())
            }))
        },
        2,
    );
    assert_eq!(outcome.moved.allocated, 9 * 1000);
    // The sender's single pages all come from the zone, in batches of 31; blocks of order 3 are not cached by these rules.
    assert_eq!(outcome.moved.from_zone, 1000_u64.div_ceil(31) * 31 + 8 * 1000);
    assert!(outcome.busy < outcome.time + outcome.time, "one of the two waits now and then");
}

#[test]
fn files_give_all_pages_back() {
    let outcome = once(
        |system, _| {
            let before = system.free_pages_of_node(0);
            let file = File::filled(system, 1000)?;
            assert_eq!((file.len(), file.is_empty()), (1000, false));
            Ok(Box::new(move |_| {
                file.copy(system, 0);
                file.truncate(system);
                system.count_many(before - system.free_pages_of_node(0));
                assert!(file.is_empty());
                Ok(())
            }))
        },
        1,
    );
    assert!(outcome.operations[0] <= 186, "what is missing lies in the pageset: {}", outcome.operations[0]);
    assert_eq!(outcome.lru_locks[0].paths[1].holds, 1000_u64.div_ceil(15), "a hold of the LRU lock for each 15 pages");
}

#[test]
fn scattered_regions_fault_once_a_page() {
    let outcome = once(
        |system, _| {
            Ok(Box::new(move |_| {
                let space = Space::own();
                let mut region = Scattered::new(&space, 2000);
                let places = [1999, 0, 7, 1999, 600, 7];
                let faults = places.map(|place| region.touch(system, place));
                assert_eq!(faults.map(Result::unwrap), [true, true, true, false, true, false]);
                assert!(!region.touch(system, 2000)?, "outside of the region");
                region.unmap(system)?;
                assert!(region.touch(system, 0)?, "given back");
                region.unmap(system)
            }))
        },
        1,
    );
    // Five pages; page tables for the ranges of 0, 600 and 1999, then of 0.
    assert_eq!(outcome.moved.allocated, 5 + 4);
}

#[test]
fn sleep_does_not_count_as_time() {
    let outcome = once(
        |system, _| {
            Ok(Box::new(move |task| {
                if task == 0 {
                    system.rest(Time::from_seconds(0.5));
                }
                system.engine().work(Time::from_seconds(0.001));
                Ok(())
            }))
        },
        2,
    );
    assert!(outcome.time >= Time::from_seconds(0.5), "{:?}", outcome.time);
    let busy = outcome.busy.seconds();
    assert!((0.0005..0.01).contains(&busy), "two tasks, about a millisecond each: {busy}");
}

#[test]
fn memory_that_moves_keeps_its_place() {
    once(
        |system, _| {
            system.track_places();
            let place = system.new_place()?;
            Ok(Box::new(move |_| {
                let to = system.alloc(MigrateType::Movable)?;
                let from = system.page_of(place).unwrap();
                assert_eq!(system.isolate_place(from), Some(Order::ZERO));
                system.move_place(from, to).unwrap();
                assert_eq!(system.page_of(place), Some(to));
                assert_eq!(system.isolate_place(from), None, "it belongs to nobody");
                system.free_pages(&[from]);
                system.free_place(place);
                assert_eq!(system.page_of(place), None);

                // Reclaim takes a page, not its owner's place: nobody else comes to have it.
                let lost = system.new_place()?;
                system.lose_place(system.page_of(lost).unwrap());
                let others = system.new_place()?;
                system.free_place(lost);
                assert!(system.page_of(others).is_some(), "a place of two owners");
                Ok(())
            }))
        },
        1,
    );
}

#[test]
fn a_page_that_owner_reclaim_and_compaction_want_is_freed_once() {
    // The owner frees few pages at a time, so that reclaim takes some of them meanwhile, and compaction holds others.
    let outcome = once(
        |system, tasks| {
            const ROUNDS: usize = 300;
            system.track_places();
            system.reclaim_for_requests();
            let before = system.free_pages_of_node(0);
            let left = Cell::new(tasks);
            Ok(Box::new(move |task| {
                let request = Request::new(Order::ZERO, MigrateType::Movable);
                for round in 0..ROUNDS {
                    match task {
                        0 | 1 => {
                            let places: Vec<u32> = (0..40).map(|_| system.new_place()).collect::<Result<_, _>>()?;
                            places.into_iter().for_each(|place| system.free_place(place));
                        }
                        2 => {
                            system.reclaim(&request);
                        }
                        _ => {
                            let held: Vec<_> = (0..80_u32).filter_map(|place| system.page_of(place)).collect();
                            let held: Vec<_> =
                                held.into_iter().filter(|page| system.isolate(*page).is_some()).collect();
                            system.engine().work(Time::from_ps(5_000_000));
                            system.yield_now();
                            for page in held {
                                let to = system.alloc(MigrateType::Movable)?;
                                match system.move_block(page, to, Order::ZERO) {
                                    Ok(()) => system.free_pages(&[page]),
                                    Err(_) => {
                                        system.put_back(page, Order::ZERO);
                                        system.free_pages(&[to]);
                                    }
                                }
                            }
                        }
                    }
                    system.count_many(u64::from(round + 1 == ROUNDS));
                }
                left.set(left.get() - 1);
                if left.get() == 0 {
                    while system.reclaim(&request) > 0 {}
                    let missing = before - system.free_pages_of_node(0);
                    assert!(missing <= 4 * 186, "{missing} are in no pageset and on no list");
                }
                Ok(())
            }))
        },
        4,
    );
    assert_eq!(outcome.operations[0], 4);
}

#[test]
fn a_recording_runs_in_as_many_copies_as_there_are_tasks() {
    let step = |block, call| Step { after: Time::from_ps(1_000_000), block, call };
    let single = Call::Alloc { order: Order::ZERO, migratetype: MigrateType::Movable };
    let recording = Recording {
        processes: vec![
            vec![step(0, single), step(2, Call::Free)],
            // It frees what the other allocates: before, or after.
            vec![step(0, Call::Free), step(1, single)],
        ],
        in_use: vec![(2, Order::COSTLY)],
        blocks: 3,
    };
    let workload = Workload::recorded(recording);
    for (tasks, calls, copies) in [(1, 4, 1), (2, 4, 1), (4, 8, 2)] {
        let outcome = run(&small(), &workload, tasks, 1).unwrap();
        assert_eq!(outcome.operations[0], calls, "{tasks} tasks");
        assert_eq!(outcome.moved.allocated, 2 * copies, "{tasks} tasks");
    }
}

#[test]
fn broken_memory_grows_together_only_if_all_is_given_back() {
    fn breaking<'s, const KEPT_PCT: usize>(system: &'s System<'_>, _tasks: u32) -> Result<Job<'s>, AllocError> {
        const BROKEN: u64 = 1 << 15;
        system.as_cpu(0, || system.use_up(BROKEN));
        let before = system.free_pages_of_node(0);
        system.as_cpu(0, || system.break_up(BROKEN, KEPT_PCT));
        let (missing, kept) = (before - system.free_pages_of_node(0), BROKEN * KEPT_PCT as u64 / 100);
        assert!((kept..=kept + 186).contains(&missing), "{missing}: what is kept, and what lies in the pageset");
        // Two thirds are free, and a third of their buddies are not: more than a fifth of all.
        let alone = system.free_blocks(Order::ZERO);
        let expected = if KEPT_PCT == 0 { 0..187 } else { BROKEN as u32 / 5..BROKEN as u32 / 4 };
        assert!(expected.contains(&alone), "{alone} are alone when {KEPT_PCT} % are kept");
        Ok(Box::new(|_| Ok(())))
    }
    once(breaking::<0>, 1);
    once(breaking::<33>, 1);
}

#[test]
fn a_job_of_a_build_gives_all_back_and_starts_six_programs() {
    const PAGES: u64 = 3000;
    let outcome = once(
        |system, _| {
            let space: &'static Space = Box::leak(Box::new(Space::own()));
            let desk = compile::Desk::new(system, space)?;
            let before = system.free_pages_of_node(0);
            Ok(Box::new(move |_| {
                compile::job(system, &desk, PAGES)?;
                let missing = before - system.free_pages_of_node(0);
                assert!(missing <= 186, "what is missing lies in the pageset: {missing}");
                Ok(())
            }))
        },
        1,
    );
    // The compiler, its driver, the assembler, and three small programs, as recorded.
    let faults = PAGES + 252 + PAGES / 11 + 3 * 67;
    assert_eq!(outcome.operations[0], faults);
    // Beside them: a stack and a directory of each program, the compiler's regions, page tables, bundles of the unmapping, one page of the object file for 64.
    let tables: u64 = [PAGES, 252, PAGES / 11, 67, 67, 67].iter().map(|pages| pages.div_ceil(512)).sum();
    let others = outcome.moved.allocated - faults - 6 * (4 + 2) - 2 - tables - (PAGES - 600_u64).div_ceil(64);
    assert!((6..=12).contains(&others), "a bundle for each 510 pages: {others}");
}

#[test]
fn a_builder_takes_pages_as_fast_as_a_recorded_one() {
    let workload = Workload::find("kbuild").unwrap();
    let machine = small();
    let (warm_up, time) = (Time::from_seconds(0.5), Time::from_seconds(1.0));
    let outcome = Run { warm_up, time, ..run_of(&machine, workload, 1, 1) }.run(|| true).unwrap();
    // `traces/compile-q1`: 51,600 pages a second of a CPU's work; its compilers alone, which are smaller, 34,700.
    assert!((30_000.0..52_000.0).contains(&outcome.score()), "{}", outcome.score());
}

#[test]
fn a_page_is_to_be_had_while_reclaim_gives_some() {
    let machine = machine::find("lkp-hsw-ep2").unwrap().unwrap();
    let workload = Workload::find("lru-file-mmap-read").unwrap();
    let run = run_of(&machine, workload, machine.topology().cpus(), 1);
    let batch = pageset::tuning::BatchRule::Fixed(127);
    let tuning = pageset::Tuning { batch, ..run.tuning };
    let outcome = Run { tuning, time: Time::from_seconds(0.1), ..run }.run(|| true).unwrap();
    assert!(outcome.operations[0] > 2 << 18, "reclaim has begun on both nodes: {}", outcome.operations[0]);
}

#[test]
fn who_sleeps_and_who_wakes_pay_for_it() {
    const MESSAGES: u64 = 1000;
    const SHAPE: Shape = Shape { blocks: &[], kept: None, protocol: Time::ZERO, room: 1 };
    let busy = |tasks| {
        let outcome = once(
            |system, tasks| {
                let socket = Socket::new(system, SHAPE);
                Ok(Box::new(move |task| {
                    for _ in 0..MESSAGES {
                        if task == 0 {
                            socket.send(system)?;
                        }
                        if task == 1 || tasks == 1 {
                            socket.receive(system);
                        }
                    }
                    Ok(())
                }))
            },
            tasks,
        );
        outcome.busy.seconds() * 1e9 / MESSAGES as f64
    };
    let (alone, paired) = (busy(1), busy(2));
    // Room for one: at each message one of the two sleeps, 1.5 us, and the other wakes it, 1 us.
    assert!((2000.0..6000.0).contains(&(paired - alone)), "{alone} ns a message alone, {paired} of two");
}

#[test]
fn joining_the_lru_takes_five_locked_operations_a_page_more_than_leaving_it() {
    const PAGES: u64 = 480;
    let mut machine = small();
    let ns = |ns: f64| machine::Ns::try_from(ns).unwrap();
    let h = &mut machine.hardware;
    (h.l1_ns, h.l2_ns, h.llc_ns, h.memory_ns, h.atomic_ns) = (ns(0.0), ns(0.0), ns(0.0), ns(0.0), ns(6.0));
    (machine.calibrated.lru_page_ns, machine.model.lru_hold_ns) = (ns(10.0), ns(30.0));
    machine.model.hold_cv = machine::Share::try_from(0.0).unwrap();
    let code: Code = |system, _| {
        Ok(Box::new(move |_| {
            let space = Space::own();
            let mut region = Region::new(&space);
            (0..PAGES).try_for_each(|_| region.fault(system))?;
            region.unmap(system)
        }))
    };
    let workload = Workload::new("test", "", "", code).once();
    let [added, deleted, ..] = run(&machine, &workload, 1, 1).unwrap().lru_locks[0].paths;
    // Batches of 15; bundles of 8 and of the rest, 32 a hold.
    assert_eq!((added.holds, deleted.holds), (32, 16));
    assert_eq!(added.hold, Time::from_ns((32 * 36 + PAGES * (10 + 5 * 6)) as f64));
    assert_eq!(deleted.hold, Time::from_ns((16 * 36 + PAGES * 10) as f64));
}

#[test]
fn a_write_to_a_stream_is_a_block_of_each_order() {
    let outcome = run(&small(), Workload::find("af-unix").unwrap(), 2, 1).unwrap();
    let pages = outcome.moved.allocated as f64 / outcome.operations[0] as f64;
    assert!((14.5..15.5).contains(&pages), "8, 4, 2 and 1: {pages}");
}

#[test]
fn a_busy_pair_of_sctp_carries_three_to_four_gbit() {
    let machine = small();
    let cpus = machine.topology().cpus();
    let outcome = run(&machine, Workload::find("sctp-stream-many").unwrap(), cpus, 1).unwrap();
    let gbit = outcome.score() / f64::from(cpus / 2) * 10.0 * 1024.0 * 8.0 / 1e9;
    assert!((3.0..4.0).contains(&gbit), "{gbit}");
}

#[test]
fn workloads_are_simulated_for_as_long_as_they_need() {
    let length = |name| Workload::find(name).unwrap().length;
    // What costs are fitted with.
    assert_eq!(length("page_fault1"), Length::ms(500, 1500));
    assert!(length("read1").time < length("page_fault1").time, "nothing comes and goes there");
    assert!(WORKLOADS.iter().all(|workload| workload.length.time > Time::ZERO));
}
