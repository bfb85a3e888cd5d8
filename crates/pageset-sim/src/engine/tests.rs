//! Exact times of small programs, calculated by hand, without random variation.

use std::cell::RefCell;

use super::*;

fn ns(ns: u64) -> Time {
    Time::from_ps(1000 * ns)
}

/// Two sockets of two cores with two threads: CPUs 0, 1 and 4, 5 on socket 0, CPU 0 and 4 on one core.
fn config() -> EngineConfig {
    // L1, L2, LLC, transfer, memory, remote transfer, remote memory, near transfer, near memory.
    let line = [1, 4, 20, 50, 80, 120, 150, 70, 100].map(ns);
    EngineConfig {
        topology: Topology {
            sockets: 2,
            cores_per_socket: 2,
            threads_per_core: 2,
            nodes_per_package: 1,
            last_levels_per_node: 1,
        },
        cache: CacheCosts {
            l1_lines: 4,
            l2_lines: 200,
            llc_lines: 1000,
            llc_reuse_factor: 1,
            line,
            page: line.map(|time| time.times(10)),
            transfer_load: 1.0,
        },
        memory: Memory { bytes_per_second: u64::MAX, bytes_per_page: 4096 },
        atomic: ns(5),
        work_permille: 1000,
        smt_permille: 1600,
        spin_permille: 1000,
        work_cv: 0.0,
        line_cv: 0.0,
        hold_cv: 0.0,
        core_cv: 0.0,
        seed: 0,
        mode: Mode::Earliest,
    }
}

const LOCK: LockId = LockId(0);
const NODE: Socket = Socket(0);
const SPECS: [LockSpec; 1] = [LockSpec { node: NODE, around: Time::ZERO }];

#[test]
fn lines_of_the_package_are_nearer_than_those_of_another() {
    // Two packages of two nodes, each with two cores and a last level for each core.
    let topology = Topology {
        sockets: 4,
        cores_per_socket: 2,
        threads_per_core: 1,
        nodes_per_package: 2,
        last_levels_per_node: 2,
    };
    let config = EngineConfig { topology, ..config() };
    // The line is last written by CPU 0, of node 0, and read by another CPU. Its memory is on node 0.
    let read_by = |cpu: u32, written: bool| {
        let line = LineState::default();
        let took = std::cell::Cell::new(Time::ZERO);
        run(config, &[0, 100, 100, 100, 100, 100, 100, 100], |engine, number| {
            if number == 0 && written {
                engine.touch(&line, NODE);
            }
            engine.yield_now();
            if number == cpu {
                let begin = engine.now();
                engine.touch(&line, NODE);
                took.set(engine.now() - begin);
            }
        });
        took.get()
    };
    // Another last level of the node, another node of the package, another package.
    assert_eq!([1, 2, 4].map(|cpu| read_by(cpu, true)), [70, 70, 120].map(ns));
    assert_eq!([1, 2, 4].map(|cpu| read_by(cpu, false)), [80, 100, 150].map(ns));
}

/// Runs a task on each of the first CPUs; CPU `i` starts at `starts[i]` ns.
fn run(config: EngineConfig, starts: &[u64], task: impl Fn(&Engine, u32)) -> Engine {
    run_with(config, SPECS[0], starts, task)
}

/// As [`run`], with another lock.
fn run_with(config: EngineConfig, lock: LockSpec, starts: &[u64], task: impl Fn(&Engine, u32)) -> Engine {
    run_tasks(config, lock, starts, &task)
}

fn run_tasks(config: EngineConfig, lock: LockSpec, starts: &[u64], task: &dyn Fn(&Engine, u32)) -> Engine {
    let engine = Engine::new(config, &[lock]);
    scope(|fibers| {
        for (cpu, start) in starts.iter().enumerate() {
            let engine = &engine;
            engine.spawn(fibers, cpu as u32, ns(*start), move || task(engine, cpu as u32)).unwrap();
        }
        engine.run(fibers, Time::NEVER, &|| true);
    });
    engine
}

#[test]
fn a_contended_lock_passes_to_the_waiter_after_the_handoff() {
    let had = RefCell::new(Vec::new());
    let engine = run(config(), &[0, 10], |engine, cpu| {
        engine.acquire(LOCK, cpu as usize);
        had.borrow_mut().push((cpu, engine.now()));
        engine.work(ns(1000));
        engine.release(LOCK);
    });
    // The line comes from memory (80) and the atomic takes 5: 85. CPU 1 gets the lock 50 after the release at 1085.
    assert_eq!(had.into_inner(), [(0, ns(85)), (1, ns(1135))]);
    let stats = engine.lock_stats(LOCK);
    let first = PathStats { holds: 1, contended: 0, wait: ns(0), hold: ns(1085) };
    let second = PathStats { holds: 1, contended: 1, wait: ns(1125), hold: ns(1000) };
    assert_eq!(stats.paths[..2], [first, second]);
}

#[test]
fn the_queue_is_first_come_first_served_and_its_first_waiter_slows_the_release() {
    let had = RefCell::new(Vec::new());
    let line = LineState::default();
    run(config(), &[0, 30, 20, 10], |engine, cpu| {
        engine.acquire(LOCK, 0);
        had.borrow_mut().push((cpu, engine.now()));
        engine.work(ns(1000));
        engine.touch(&line, NODE);
        engine.release(LOCK);
    });
    let expected = [
        // 80 for the lock's line, 5; then 1000 and 80 for the other line.
        (0, ns(85)),
        // Released at 1165, then transferred to the other socket.
        (3, ns(1165 + 120)),
        // 1000, the touched line (120) and the lock's line, which the first waiter polls from the same socket (50).
        // Then the handover (50).
        (2, ns(1285 + 1000 + 120 + 50 + 50)),
        // 1000, the touched line from the same socket (50), the lock's line from the other socket (120), the handover
        // (120).
        (1, ns(2505 + 1000 + 50 + 120 + 120)),
    ];
    assert_eq!(had.into_inner(), expected);
}

#[test]
fn a_programs_own_data_evicts_lines() {
    let line = LineState::default();
    let times = RefCell::new(Vec::new());
    run(config(), &[0], |engine, _| {
        for lines in [0, 3, 4, 199, 200, 1000] {
            engine.work_through(ns(1000), lines);
            let before = engine.now();
            engine.touch(&line, NODE);
            times.borrow_mut().push(engine.now() - before);
        }
        assert_eq!(engine.now(), ns(6000 + 80 + 1 + 4 + 4 + 20 + 80), "work_through includes the latency of its lines");
    });
    // The first touch reads memory. Later touches follow after as many lines as each cache holds, less one, and as
    // many.
    assert_eq!(times.into_inner(), [80, 1, 4, 4, 20, 80].map(ns));
}

#[test]
fn a_word_without_pollers_moves_from_cpu_to_cpu() {
    let had = RefCell::new(Vec::new());
    run(config(), &[0, 30, 20, 10], |engine, cpu| {
        engine.acquire(LOCK, 0);
        had.borrow_mut().push((cpu, engine.now()));
        engine.work(ns(1000));
        engine.release_word(LOCK);
    });
    // From memory plus the operation; then to the other socket, to a core of that socket, and back.
    let expected = [(0, 85), (3, 1085 + 120), (2, 2205 + 50), (1, 3255 + 120)];
    assert_eq!(had.into_inner(), expected.map(|(cpu, at)| (cpu, ns(at))));
}

#[test]
fn queueing_at_a_held_lock_needs_no_switch() {
    let engine = run(config(), &[0, 1, 2], |engine, _| {
        engine.work(ns(100));
        engine.acquire(LOCK, 0);
        engine.work(ns(1000));
        engine.release(LOCK);
    });
    assert_eq!(engine.lock_stats(LOCK).paths[0].contended, 2);
    // Each CPU stops before the lock, ahead of the others, and runs again when it has the lock.
    assert_eq!(engine.switches(), 3 * 2);
}

#[test]
fn threads_of_a_core_slow_each_other_while_both_work() {
    let end = RefCell::new(Vec::new());
    // CPUs 0 and 4 share a core. CPU 4 starts when CPU 0 has done half.
    run(config(), &[0, 0, 0, 0, 100], |engine, cpu| {
        if cpu % 4 == 0 {
            (0..2).for_each(|_| {
                engine.acquire(LOCK, 0);
                engine.release(LOCK);
                engine.work(ns(100));
            });
            end.borrow_mut().push((cpu, engine.now()));
        }
    });
    let end = end.into_inner();
    // Both CPUs may wait for the lock; the test checks only the work.
    let worked = |cpu| end.iter().find(|(c, _)| *c == cpu).unwrap().1;
    assert!(worked(0) >= ns(320), "{:?}", worked(0));
    let alone = RefCell::new(Time::ZERO);
    run(config(), &[0], |engine, _| {
        engine.work(ns(100));
        *alone.borrow_mut() = engine.now();
    });
    assert_eq!(alone.into_inner(), ns(100));
}

#[test]
fn line_cost_depends_on_the_last_holder_and_the_lines_it_brought_in_since() {
    let (line, pages): (LineState, Vec<LineState>) =
        (LineState::default(), (0..32).map(|_| LineState::default()).collect());
    let cost = |engine: &Engine, line, node| {
        let before = engine.now();
        engine.touch(line, node);
        engine.now() - before
    };
    let log = RefCell::new(Vec::new());
    // The lock orders the CPUs in virtual time.
    run(config(), &[0, 1_000_000, 2_000_000, 0, 500_000], |engine, cpu| {
        engine.acquire(LOCK, 0);
        let mut costs = Vec::new();
        match cpu {
            0 => {
                costs.push(cost(engine, &line, NODE)); // Never touched: memory.
                costs.push(cost(engine, &line, NODE)); // L1.
                engine.write_page(&pages[0], NODE);
                costs.push(cost(engine, &line, NODE)); // 64 lines later: L2.
                pages[1..6].iter().for_each(|page| engine.write_page(page, NODE));
                costs.push(cost(engine, &line, NODE)); // 320 lines later: LLC.
                pages[6..].iter().for_each(|page| engine.write_page(page, NODE));
                costs.push(cost(engine, &line, NODE)); // 1664 lines later: memory again.
            }
            4 => costs.push(cost(engine, &line, NODE)), // The same core, but for the lock's line: L1.
            1 => costs.push(cost(engine, &line, NODE)), // Another core of the socket: transfer.
            2 => {
                costs.push(cost(engine, &line, NODE)); // Another socket.
                costs.push(cost(engine, &pages[0], NODE)); // Long evicted over there: memory of the other node.
                costs.push(cost(engine, &pages[0], NODE)); // L1.
            }
            _ => {}
        }
        engine.release(LOCK);
        log.borrow_mut().extend(costs.into_iter().map(|time| (cpu, time.whole_ns())));
    });
    let expected = [(0, 80), (0, 1), (0, 4), (0, 20), (0, 80), (4, 1), (1, 50), (2, 120), (2, 150), (2, 1)];
    assert_eq!(log.into_inner(), expected);
}

#[test]
fn reused_lines_stay_longer_than_streamed_data_in_the_last_level() {
    // 25 pages have 1600 lines, more than the last level holds; 40 pages have more than twice as many as it holds.
    let cases = [(1, 25, [80, 800]), (2, 25, [20, 800]), (2, 40, [80, 800]), (10, 40, [20, 800])];
    for (llc_reuse_factor, streamed, expected) in cases {
        let cache = CacheCosts { llc_reuse_factor, ..config().cache };
        let (line, pages): (LineState, Vec<LineState>) =
            (LineState::default(), (0..streamed).map(|_| LineState::default()).collect());
        let costs = RefCell::new([0; 2]);
        run(EngineConfig { cache, ..config() }, &[0], |engine, _| {
            engine.touch(&line, NODE);
            pages.iter().for_each(|page| engine.write_page(page, NODE));
            let begin = engine.now();
            engine.touch(&line, NODE);
            let middle = engine.now();
            engine.write_page(&pages[0], NODE);
            *costs.borrow_mut() = [middle - begin, engine.now() - middle].map(Time::whole_ns);
        });
        assert_eq!(costs.into_inner(), expected, "factor {llc_reuse_factor}, {streamed} pages");
    }
}

#[test]
fn lines_of_other_cores_queue_behind_the_busy_cores_of_the_machine() {
    let topology = Topology { sockets: 4, cores_per_socket: 10, ..config().topology };
    // With five last levels of two cores each, core 2 has another one than core 1; core 10 is on another socket. Ten cores of each of
    // four sockets are as many as ten cores of one that represents four. A line of the own last level or of memory does not queue.
    for (last_levels_per_node, busy, alike, [within, beyond]) in [
        (1, 1, 1, [0, 0]),
        (1, 2, 1, [3, 3]),
        (1, 11, 1, [19, 19]),
        (1, 40, 1, [50, 50]),
        (1, 99, 1, [50, 50]),
        (1, 10, 4, [50, 50]),
        (5, 1, 1, [0, 0]),
        (5, 40, 1, [3, 50]),
    ] {
        let topology = Topology { last_levels_per_node, ..topology };
        let cache = CacheCosts { transfer_load: 2.0, ..config().cache };
        let line = LineState::default();
        let costs = RefCell::new(Vec::new());
        let starts: [u64; 11] = std::array::from_fn(|cpu| 1000 * cpu as u64);
        run(EngineConfig { topology, cache, ..config() }, &starts, |engine, cpu| {
            if ![0, 1, 2, 10].contains(&cpu) {
                return;
            }
            engine.share(busy, alike);
            let of = |line: &LineState| {
                let begin = engine.now();
                engine.touch(line, NODE);
                (engine.now() - begin).whole_ns()
            };
            let memory = if cpu == 10 { 150 } else { 80 };
            assert_eq!(of(&LineState::default()), memory);
            costs.borrow_mut().push(of(&line));
            engine.yield_now();
        });
        let near = if last_levels_per_node > 1 { 70 + beyond } else { 50 + within };
        let expected = [50 + within, near, 120 + beyond];
        assert_eq!(costs.borrow()[1..], expected, "{busy} busy cores, {last_levels_per_node} last levels");
    }
}

#[test]
fn actions_outside_of_tasks_take_no_time() {
    let engine = Engine::new(config(), &SPECS);
    let line = LineState::default();
    engine.touch(&line, NODE);
    engine.acquire(LOCK, 0);
    engine.release(LOCK);
    assert_eq!(engine.now(), Time::ZERO);
    assert_eq!(engine.lock_stats(LOCK).count(), 0);
}

/// A random program that works inside and outside of a lock. Returns what each CPU saw, in the order of the host.
fn random_program(seed: u64) -> Vec<(u32, Time, Time)> {
    let log = RefCell::new(Vec::new());
    let line = LineState::default();
    run(EngineConfig { work_cv: 0.5, line_cv: 0.5, hold_cv: 1.0, seed, ..config() }, &[0; 8], |engine, cpu| {
        for _ in 0..200 {
            engine.work(ns(300 + engine.random_below(3000)));
            engine.acquire(LOCK, 0);
            let from = engine.now();
            engine.work(ns(200));
            engine.touch(&line, NODE);
            engine.release(LOCK);
            log.borrow_mut().push((cpu, from, engine.now()));
        }
    });
    log.into_inner()
}

/// Durations in ns of holds with equal work. Constant work outside follows each hold. One CPU never waits; several CPUs
/// always wait for each other.
fn equal_holds(hold_cv: f64, cpus: usize) -> Vec<f64> {
    const HOLDS: usize = 10_000;
    let log = RefCell::new(Vec::new());
    run(EngineConfig { hold_cv, ..config() }, &vec![0; cpus], |engine, _| {
        for _ in 0..HOLDS / cpus {
            engine.acquire(LOCK, 0);
            let from = engine.now();
            // Many small pieces must vary together.
            (0..100).for_each(|_| engine.pass(ns(10)));
            engine.release(LOCK);
            log.borrow_mut().push((engine.now() - from).ps() as f64 / 1000.0);
            let outside = engine.now();
            engine.pass(ns(1000));
            engine.yield_now();
            assert_eq!(engine.now() - outside, ns(1000));
        }
    });
    log.into_inner()
}

#[test]
fn a_whole_hold_varies_by_one_factor() {
    for cpus in [1, 4] {
        assert!(equal_holds(0.0, cpus).iter().all(|hold| (1000.0..1200.0).contains(hold)), "{cpus} CPUs");
        let holds = equal_holds(1.0, cpus);
        let mean = holds.iter().sum::<f64>() / holds.len() as f64;
        let deviation = (holds.iter().map(|hold| (hold - mean).powi(2)).sum::<f64>() / holds.len() as f64).sqrt();
        // Contended holds also fetch the lock's line back.
        assert!((970.0..1150.0).contains(&mean), "mean {mean} of {cpus} CPUs");
        assert!((0.9..1.1).contains(&(deviation / mean)), "deviation {deviation} of {cpus} CPUs");
    }
}

#[test]
fn the_line_of_an_uncontended_lock_varies_with_its_hold() {
    let log = RefCell::new(Vec::new());
    run(EngineConfig { hold_cv: 0.5, atomic: Time::ZERO, ..config() }, &[0], |engine, _| {
        for _ in 0..100 {
            let from = engine.now();
            engine.acquire(LOCK, 0);
            engine.release(LOCK);
            log.borrow_mut().push(engine.now() - from);
        }
    });
    // The first touch brings the line in. Only the line takes time here.
    let holds = &log.borrow()[1..];
    assert!(holds.iter().max().unwrap().ps() > 2 * holds.iter().min().unwrap().ps(), "{holds:?}");
}

#[test]
fn a_hold_observed_in_between_keeps_its_factor() {
    let log = RefCell::new(Vec::new());
    run(EngineConfig { hold_cv: 1.0, ..config() }, &[0, 0], |engine, cpu| {
        for _ in 0..100 {
            if cpu == 0 {
                engine.acquire(LOCK, 0);
                engine.yield_now();
                let from = engine.now();
                engine.pass(ns(1000));
                engine.yield_now();
                let middle = engine.now();
                engine.pass(ns(1000));
                engine.release(LOCK);
                log.borrow_mut().push([middle - from, engine.now() - middle].map(Time::ps));
            }
            engine.pass(ns(10));
            engine.yield_now();
        }
    });
    let halves = log.into_inner();
    assert!(halves.iter().all(|[first, second]| first == second), "{halves:?}");
    assert!(halves.iter().any(|[first, _]| *first < 800_000) && halves.iter().any(|[first, _]| *first > 1_200_000));
}

#[test]
fn holds_are_exclusive_and_ordered_by_time() {
    let log = random_program(1);
    assert_eq!(log.len(), 1600);
    for pair in log.windows(2) {
        assert!(pair[0].2 <= pair[1].1, "{pair:?}");
    }
}

#[test]
fn equal_seeds_give_equal_runs() {
    assert_eq!(random_program(1), random_program(1));
    assert_ne!(random_program(1), random_program(2));
}

#[test]
fn a_run_ends_on_time_and_can_continue() {
    let engine = Engine::new(config(), &SPECS);
    let rounds = Cell::new(0);
    scope(|fibers| {
        let (engine, rounds) = (&engine, &rounds);
        for cpu in 0..2 {
            engine
                .spawn(fibers, cpu, Time::ZERO, move || {
                    loop {
                        engine.acquire(LOCK, 0);
                        engine.pass(ns(1000));
                        engine.release(LOCK);
                        rounds.set(rounds.get() + 1);
                    }
                })
                .unwrap();
        }
        engine.run(fibers, ns(50_000), &|| true);
        let half = rounds.get();
        // Each round takes 1000 for the hold, plus a handoff.
        assert!((40..=50).contains(&half), "{half} rounds");
        engine.run(fibers, ns(100_000), &|| true);
        assert!((80..=100).contains(&rounds.get()), "{}", rounds.get());
        engine.run(fibers, Time::NEVER, &|| false);
    });
}

#[test]
fn busy_cores_divide_the_last_level_of_their_socket() {
    // A line is still in a last level of 1000 lines after 600 others, and not in half of it.
    for (busy, cpus, expected) in [(1, [0, 1], 20), (2, [0, 1], 80), (3, [2, 3], 20), (4, [2, 3], 80)] {
        let (line, cost) = (LineState::default(), Cell::new(0));
        let node = Socket(cpus[0] / 2);
        run(config(), &[0, 100_000, 0, 100_000], |engine, cpu| {
            engine.share(busy, 1);
            if cpu == cpus[0] {
                engine.touch(&line, node);
                (0..600).for_each(|_| engine.touch(&LineState::default(), node));
            }
            if cpu == cpus[1] {
                let begin = engine.now();
                engine.touch(&line, node);
                cost.set((engine.now() - begin).whole_ns());
            }
        });
        assert_eq!(cost.get(), expected, "{busy} busy cores, CPUs {cpus:?}");
    }
}

/// Two cores clear pages of node 0 for 10 ms: 800 ns a page each (80 ns a line times ten), so 2.5 million pages a second.
fn pages_cleared(bytes_per_second: u64) -> u64 {
    let config = EngineConfig { memory: Memory { bytes_per_second, bytes_per_page: 4096 }, ..config() };
    let pages = Cell::new(0);
    run(config, &[0, 0], |engine, _| {
        while engine.now() < ns(10_000_000) {
            engine.write_page(&LineState::default(), NODE);
            engine.yield_now();
            pages.set(pages.get() + 1);
        }
    });
    pages.get()
}

#[test]
fn cores_together_clear_no_more_than_the_memory_takes() {
    assert_eq!(pages_cleared(u64::MAX), 25_000);
    assert_eq!(pages_cleared(4096 * 2_600_000), 25_000, "below the limit nothing changes");
    let limited = pages_cleared(4096 * 1_000_000);
    assert!((9_900..=10_400).contains(&limited), "{limited} pages; 10,000 fit");
}

#[test]
fn a_waiting_thread_slows_its_core_by_its_own_factor() {
    // CPUs 0 and 4 share a core; CPU 1 has one of its own. CPU 4 waits for the lock of CPU 1 while CPU 0 works.
    let end = |spin_permille| {
        let config = EngineConfig { spin_permille, ..config() };
        let ends = RefCell::new([Time::ZERO; 8]);
        run(config, &[1000, 0, 0, 0, 500], |engine, cpu| {
            match cpu {
                0 => engine.work(ns(1000)),
                1 | 4 => {
                    engine.acquire(LOCK, 0);
                    engine.work(ns(if cpu == 1 { 5000 } else { 0 }));
                    engine.release(LOCK);
                }
                _ => {}
            }
            ends.borrow_mut()[cpu as usize] = engine.now();
        });
        ends.into_inner()[0]
    };
    assert_eq!(end(1000), ns(2000));
    assert_eq!(end(1300), ns(2300));
}

#[test]
fn a_slow_core_has_slow_work_and_slow_lines_from_outside_and_the_mean_stays() {
    let topology = Topology {
        sockets: 1,
        cores_per_socket: 64,
        threads_per_core: 1,
        nodes_per_package: 1,
        last_levels_per_node: 1,
    };
    let times = RefCell::new(Vec::new());
    let shared: Vec<LineState> = (0..64).map(|_| LineState::default()).collect();
    let cache = CacheCosts { transfer_load: 2.0, ..config().cache };
    run(EngineConfig { topology, cache, core_cv: 0.1, ..config() }, &[0; 64], |engine, _| {
        let cpu = engine.cpu() as usize;
        engine.touch(&shared[cpu], NODE);
        engine.yield_now();
        // Lines of other cores queue: the core's own speed counts for that part of their latency, too.
        engine.share(64, 1);
        let of = |act: &dyn Fn()| {
            let from = engine.now();
            act();
            (engine.now() - from).ps() as f64
        };
        let line = LineState::default();
        let work = of(&|| engine.work(ns(10_000)));
        let far = of(&|| engine.touch(&line, NODE));
        let near = of(&|| engine.touch(&line, NODE));
        let of_another = of(&|| engine.touch(&shared[cpu ^ 1], NODE));
        times.borrow_mut().push([work, far, near, of_another]);
    });
    let times = times.into_inner();
    let [work, far, near, of_another] = [0, 1, 2, 3].map(|what| {
        let mean = times.iter().map(|times| times[what]).sum::<f64>() / times.len() as f64;
        times.iter().map(|times| times[what] / mean).collect::<Vec<f64>>()
    });
    assert!(work.iter().zip(&far).all(|(work, far)| (work - far).abs() < 0.002), "{work:?}, {far:?}");
    assert!(work.iter().zip(&of_another).all(|(work, line)| (work - line).abs() < 0.002), "{work:?}, {of_another:?}");
    assert!(near.iter().all(|near| *near == 1.0), "the core's own caches are not further away");
    let deviation = (work.iter().map(|work| (work - 1.0).powi(2)).sum::<f64>() / work.len() as f64).sqrt();
    assert!((0.07..0.13).contains(&deviation), "{deviation}");
    let mean = times.iter().map(|times| times[0]).sum::<f64>() / times.len() as f64;
    assert!((mean / ns(10_000).ps() as f64 - 1.0).abs() < 0.001, "{mean}");
}
