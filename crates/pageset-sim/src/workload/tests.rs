use std::cell::{Cell, RefCell};

use pageset::{MigrateType, Order, Owner as _, Request};

use super::*;
use crate::era::Era;
use crate::machine::{self, Machine};
use crate::os::{File, Region, Scattered, Shape, Socket, Space};
use crate::run::{Outcome, Run, RunError};
use crate::time::Time;

mod purge;
mod worlds;

/// Four CPUs whose threads share cores: half of lkp-skl-d01.
fn small() -> Machine {
    let mut machine = machine::find("lkp-skl-d01").unwrap().unwrap();
    machine.cited.cores_per_socket = machine::Count::try_from(2).unwrap();
    machine
}

fn run(machine: &Machine, workload: &Workload, tasks: u32, seed: u64) -> Result<Outcome, RunError> {
    run_of(machine, workload, tasks, seed).run(|| true)
}

/// A short run.
fn run_of<'m>(machine: &'m Machine, workload: &'m Workload, tasks: u32, seed: u64) -> Run<'m> {
    let tuning = pageset::policy::presets::LINUX_4_17;
    // The memory takes 17 ms to fill the files of page_fault2: 128 MiB, each byte read and written, at 17 GB a second.
    let (warm_up, time) = (Time::from_seconds(0.04), Time::from_seconds(0.008));
    Run {
        workload,
        machine,
        tuning,
        era: Era::of_rules("linux-4.17"),
        high_fraction: 0,
        tasks,
        warm_up,
        time,
        detect_warm_up: false,
        precision_pct: None,
        whole: true,
        seed,
    }
}

/// Runs tasks that end, with locks for 8 objects.
fn once(code: Code, tasks: u32) -> Outcome {
    let workload = Workload::new("test", "", "", code).needing(|_| Needs { objects: 8, ..Needs::NOTHING }).once();
    run(&small(), &workload, tasks, 1).unwrap()
}

#[test]
fn workloads_make_progress_and_are_deterministic() {
    // Workloads that fill gigabytes first have tests of their own in the form that users run.
    let large = ["truncate", "thp-mix", "stress-highalloc-100ms", "stress-highalloc-1ms", "parallel-free", "exit"];
    for workload in WORKLOADS.iter().filter(|workload| !large.contains(&workload.name)) {
        let machine = small();
        let outcome = run(&machine, workload, 4, 1).unwrap();
        assert!(outcome.operations[0] > 0, "{}", workload.name);
        let again = run(&machine, workload, 4, 1).unwrap();
        assert_eq!((again.operations, again.moved), (outcome.operations, outcome.moved), "{}", workload.name);
    }
}

#[test]
fn names_are_unique_and_fit_the_command_line() {
    for (i, workload) in WORKLOADS.iter().enumerate() {
        assert!(WORKLOADS[..i].iter().all(|other| other.name != workload.name), "{}", workload.name);
        assert!(workload.name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c)), "{}", workload.name);
    }
}

#[test]
fn a_writer_of_an_address_space_excludes_readers() {
    // Task 0 unmaps a region while the others fault. No fault may end during the unmapping.
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
                    // The time in which the writer has the semaphore: the call without its wait.
                    let inside = |time: Time| begin + Time::from_ps(20_000_000) < time && time + Time::from_ps(1) < end;
                    let mut between: Vec<Time> =
                        faults.borrow().iter().map(|fault| fault.1).filter(|time| inside(*time)).collect();
                    between.sort();
                    assert!(between.len() < 4, "{begin:?} to {end:?}: {between:?}");
                    assert!(faults.borrow().iter().any(|fault| fault.1 > end), "faults continue after the unmapping");
                }
                Ok(())
            }))
        },
        3,
    );
    assert_eq!(outcome.moved.allocated, (200 + 1 + 1) + 2 * (600 + 2), "pages, page tables and one unmap bundle");
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
    // All single pages of the sender come from the zone in batches of 31. These rules do not cache blocks of order 3.
    assert_eq!(outcome.moved.from_zone, 1000_u64.div_ceil(31) * 31 + 8 * 1000);
    assert!(outcome.busy < outcome.time + outcome.time, "one of the two tasks must wait sometimes");
}

#[test]
fn truncated_files_free_all_pages() {
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
    assert!(outcome.operations[0] <= 186, "more pages missing than a pageset holds: {}", outcome.operations[0]);
    assert_eq!(outcome.lru_locks[0].paths[1].holds, 1000_u64.div_ceil(15), "one hold of the LRU lock per 15 pages");
}

#[test]
fn scattered_regions_fault_once_per_page() {
    let outcome = once(
        |system, _| {
            Ok(Box::new(move |_| {
                let space = Space::own();
                let mut region = Scattered::new(&space, 2000);
                let places = [1999, 0, 7, 1999, 600, 7];
                let faults = places.map(|place| region.touch(system, place));
                assert_eq!(faults.map(Result::unwrap), [true, true, true, false, true, false]);
                assert!(!region.touch(system, 2000)?, "an index outside of the region must not fault");
                region.unmap(system)?;
                assert!(region.touch(system, 0)?, "an unmapped page must fault again");
                region.unmap(system)
            }))
        },
        1,
    );
    // Five pages; page tables for the ranges of 0, 600 and 1999, then of 0.
    assert_eq!(outcome.moved.allocated, 5 + 4);
}

#[test]
fn sleep_does_not_count_as_busy_time() {
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
    assert!((0.0005..0.01).contains(&busy), "two tasks must work about a millisecond each: {busy}");
}

#[test]
fn moved_memory_keeps_its_place() {
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
                assert_eq!(system.isolate_place(from), None, "a page without a place cannot be isolated");
                system.free_pages(&[from]);
                system.free_place(place);
                assert_eq!(system.page_of(place), None);

                // Reclaim frees the page, but the place still belongs to its owner and is not reused.
                let lost = system.new_place()?;
                system.lose_place(system.page_of(lost).unwrap());
                let others = system.new_place()?;
                system.free_place(lost);
                assert!(system.page_of(others).is_some(), "one place must not have two owners");
                Ok(())
            }))
        },
        1,
    );
}

#[test]
fn pages_contended_by_owner_reclaim_and_compaction_are_freed_once() {
    // The owner frees few pages at a time, so that reclaim and compaction hold some pages meanwhile.
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
                    assert!(missing <= 4 * 186, "{missing} pages are in no pageset and on no list");
                }
                Ok(())
            }))
        },
        4,
    );
    assert_eq!(outcome.operations[0], 4);
}

#[test]
fn a_recording_runs_in_copies_for_additional_tasks() {
    let step = |block, call| Step { after: Time::from_ps(1_000_000), block, call };
    let single = Call::Alloc { order: Order::ZERO, migratetype: MigrateType::Movable };
    let recording = Recording {
        processes: vec![
            vec![step(0, single), step(2, Call::Free)],
            // The second process frees the block of the first, before or after its allocation.
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
fn fragmented_memory_merges_only_if_all_pages_are_freed() {
    fn breaking<'s, const KEPT_PCT: usize>(system: &'s System<'_>, _tasks: u32) -> Result<Job<'s>, AllocError> {
        const BROKEN: u64 = 1 << 15;
        system.as_cpu(0, || system.use_up(BROKEN));
        let before = system.free_pages_of_node(0);
        system.as_cpu(0, || system.fragment(BROKEN, KEPT_PCT));
        let (missing, kept) = (before - system.free_pages_of_node(0), BROKEN * KEPT_PCT as u64 / 100);
        assert!(
            (kept..=kept + 186).contains(&missing),
            "{missing} pages missing; expected the kept pages plus those of a pageset"
        );
        // Two thirds of the pages are free, and a third of their buddies are in use: more than a fifth of all pages are
        // free alone.
        let alone = system.free_blocks(Order::ZERO);
        let expected = if KEPT_PCT == 0 { 0..187 } else { BROKEN as u32 / 5..BROKEN as u32 / 4 };
        assert!(expected.contains(&alone), "{alone} free pages of order 0 when {KEPT_PCT} % are kept");
        Ok(Box::new(|_| Ok(())))
    }
    once(breaking::<0>, 1);
    once(breaking::<33>, 1);
}

#[test]
fn a_build_job_starts_six_programs_and_frees_all_pages() {
    const PAGES: u64 = 3000;
    let outcome = once(
        |system, _| {
            let space: &'static Space = Box::leak(Box::new(Space::own()));
            let files = compile::JobFiles::new(system, space)?;
            let before = system.free_pages_of_node(0);
            Ok(Box::new(move |_| {
                compile::job(system, &files, PAGES)?;
                let missing = before - system.free_pages_of_node(0);
                assert!(missing <= 186, "more pages missing than a pageset holds: {missing}");
                Ok(())
            }))
        },
        1,
    );
    // The compiler, its driver, the assembler and three small programs, as recorded.
    let faults = PAGES + 252 + PAGES / 11 + 3 * 67;
    assert_eq!(outcome.operations[0], faults);
    // Other pages: a stack and a directory per program, the compiler's region descriptors, page tables, unmap bundles,
    // and one page of the object file per 64 pages.
    let tables: u64 = [PAGES, 252, PAGES / 11, 67, 67, 67].iter().map(|pages| pages.div_ceil(512)).sum();
    let others = outcome.moved.allocated - faults - 6 * (4 + 2) - 2 - tables - (PAGES - 600_u64).div_ceil(64);
    assert!((6..=12).contains(&others), "expected one bundle per 510 pages: {others}");
}

#[test]
fn kbuild_allocates_at_the_recorded_rate() {
    let workload = Workload::find("kbuild").unwrap();
    let machine = small();
    let (warm_up, time) = (Time::from_seconds(0.5), Time::from_seconds(1.0));
    let outcome = Run { warm_up, time, ..run_of(&machine, workload, 1, 1) }.run(|| true).unwrap();
    // `traces/compile-q1`: 51,600 pages per second of CPU work; its smaller compilers alone 34,700.
    assert!((30_000.0..52_000.0).contains(&outcome.score()), "{}", outcome.score());
}

#[test]
fn single_pages_are_available_while_reclaim_frees_some() {
    let machine = machine::find("lkp-hsw-ep2").unwrap().unwrap();
    let workload = Workload::find("lru-file-mmap-read").unwrap();
    let run = run_of(&machine, workload, machine.topology().cpus(), 1);
    let batch = pageset::policy::BatchRule::Fixed(127);
    let tuning = pageset::Tuning { batch, ..run.tuning };
    let outcome = Run { tuning, time: Time::from_seconds(0.1), ..run }.run(|| true).unwrap();
    assert!(outcome.operations[0] > 2 << 18, "reclaim must begin on both nodes: {}", outcome.operations[0]);
}

#[test]
fn sleeping_and_waking_cost_time() {
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
    // The queue has room for one message: at each message one task sleeps (1.5 us) and the other wakes it (1 us).
    assert!((2000.0..6000.0).contains(&(paired - alone)), "{alone} ns a message with one task, {paired} with two");
}

#[test]
fn joining_the_lru_costs_five_atomics_per_page_more_than_leaving_it() {
    const PAGES: u64 = 480;
    let mut machine = small();
    let ns = |ns: f64| machine::Ns::try_from(ns).unwrap();
    let cycles = |cycles: f64| machine::Cycles::try_from(cycles).unwrap();
    let c = &mut machine.cited;
    (c.l1_ns, c.l2_ns, c.llc_ns, c.memory_ns) = (ns(0.0), ns(0.0), ns(0.0), ns(0.0));
    // At 1 GHz a cycle is a nanosecond.
    (c.clock_ghz, c.atomic_cycles) = (machine::Rate::try_from(1.0).unwrap(), cycles(6.0));
    machine.fitted.pace = c.clock_ghz;
    (machine.shared.lru_page_cycles, machine.guessed.lru_hold_cycles) = (cycles(10.0), cycles(30.0));
    machine.guessed.hold_cv = machine::Share::try_from(0.0).unwrap();
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
    // Batches of 15 pages. Bundles of 8 and of the rest, with up to 32 pages per hold.
    assert_eq!((added.holds, deleted.holds), (32, 16));
    assert_eq!(added.hold, Time::from_ns((32 * 36 + PAGES * (10 + 5 * 6)) as f64));
    assert_eq!(deleted.hold, Time::from_ns((16 * 36 + PAGES * 10) as f64));
}

#[test]
fn an_af_unix_message_has_a_block_of_each_order() {
    let outcome = run(&small(), Workload::find("af-unix").unwrap(), 2, 1).unwrap();
    let pages = outcome.moved.allocated as f64 / outcome.operations[0] as f64;
    assert!((14.5..15.5).contains(&pages), "expected 8 + 4 + 2 + 1: {pages}");
}

#[test]
fn a_busy_sctp_pair_carries_three_to_four_gbit() {
    // A core of 2.5 GHz, for which the costs of messages are estimated.
    let mut machine = small();
    machine.cited.clock_ghz = machine::Rate::try_from(2.5).unwrap();
    let cpus = machine.topology().cpus();
    let outcome = run(&machine, Workload::find("sctp-stream-many").unwrap(), cpus, 1).unwrap();
    let gbit = outcome.score() / f64::from(cpus / 2) * 10.0 * 1024.0 * 8.0 / 1e9;
    assert!((3.0..4.0).contains(&gbit), "{gbit} Gbit/s");
}

#[test]
fn default_lengths_depend_on_the_workload() {
    let length = |name| Workload::find(name).unwrap().length;
    // The shipped costs are fitted with this length.
    assert_eq!(length("page_fault1"), Length::ms(500, 1500));
    assert!(length("read1").time < length("page_fault1").time, "read1 allocates nothing and needs less time");
    assert!(WORKLOADS.iter().all(|workload| workload.length.time > Time::ZERO));
}
