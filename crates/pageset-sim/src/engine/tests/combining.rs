//! Exact times of combining locks, and what they share with queues.

use super::*;

/// A lock that combines up to `most` sections.
fn combining(most: u32) -> LockSpec {
    LockSpec { kind: LockKind::Combining { most }, ..SPECS[0] }
}

/// When a CPU's section began, and when the CPU had released the lock.
type Section = (u32, Time, Time);

/// Each CPU of `cpus` has one section that touches a common line and works for 1000 ns. CPU `i` starts at `starts[i]` ns.
fn sections(lock: LockSpec, starts: &[u64], cpus: &[u32]) -> (Vec<Section>, Engine) {
    let (log, line) = (RefCell::new(Vec::new()), LineState::default());
    let engine = run_with(config(), lock, starts, |engine, cpu| {
        if cpus.contains(&cpu) {
            engine.acquire(LOCK, cpu as usize % 4);
            let had = engine.now();
            engine.touch(&line, NODE);
            engine.work(ns(1000));
            engine.release(LOCK);
            log.borrow_mut().push((cpu, had, engine.now()));
        }
    });
    let mut log = log.into_inner();
    log.sort_by_key(|section| section.1);
    (log, engine)
}

#[test]
fn the_combiner_executes_the_sections_of_waiting_cpus_in_its_caches() {
    let (log, engine) = sections(combining(64), &[0, 30, 20, 10], &[0, 1, 2, 3]);
    let expected = [
        // The lock's line from memory (80), 5; then the common line (80), 1000. CPU 0 combines until the last section
        // has ended.
        (0, ns(85), ns(4748)),
        // The request from the other socket (120); then the common line in L1 (1), 1000, the request's line, which CPU 3
        // polls (120). CPU 3 gets its line back (120).
        (3, ns(1165 + 120), ns(1285 + 1 + 1000 + 120 + 120)),
        (2, ns(2406 + 120), ns(2526 + 1 + 1000 + 120 + 120)),
        // The same on the own socket (50).
        (1, ns(3647 + 50), ns(3697 + 1 + 1000 + 50 + 50)),
    ];
    assert_eq!(log, expected);
    let stats = engine.lock_stats(LOCK).paths;
    let path = |contended, wait, hold| PathStats { holds: 1, contended, wait: ns(wait), hold: ns(hold) };
    let expected = [
        // The time for others counts as a wait.
        path(0, 4748 - 1165, 1165),
        path(1, 3697 - 30 + 50, 1051),
        path(1, 2526 - 20 + 120, 1121),
        path(1, 1285 - 10 + 120, 1121),
    ];
    assert_eq!(stats[..4], expected);
}

#[test]
fn a_combiner_passes_the_lock_on_after_its_share() {
    let (log, _) = sections(combining(2), &[0, 30, 20, 10], &[0, 1, 2, 3]);
    let expected = [
        // As above up to 2406, then the lock's line back from CPU 2, which polls it (120).
        (0, ns(85), ns(2406 + 120)),
        (3, ns(1285), ns(2526)),
        // The handover (120), the common line from the other socket (120), 1000. CPU 2 combines for CPU 1.
        (2, ns(2526 + 120), ns(5007)),
        // The request (120), the common line in L1, 1000, the request's line (120) and back (120).
        (1, ns(3766 + 120), ns(3886 + 1 + 1000 + 120 + 120)),
    ];
    assert_eq!(log, expected);
}

#[test]
fn a_combiner_serves_its_sibling_in_their_common_caches() {
    let (log, _) = sections(combining(64), &[0, 0, 0, 0, 10], &[0, 4]);
    // CPU 0's work takes 1600, as CPU 4 is not yet waiting when it begins. Then the request's line and the common line are
    // in the common L1 (1), and CPU 4's work takes 1000, because CPU 0 does not work.
    let expected = [(0, ns(85), ns(1765 + 1 + 1 + 1000 + 1)), (4, ns(1766), ns(2768 + 1))];
    assert_eq!(log, expected);
}

#[test]
fn without_waiting_cpus_a_combining_lock_is_a_queue() {
    let starts = [0, 10_000, 20_000, 30_000];
    let (queue, combining) = (SPECS[0], combining(64));
    let [(queue, of_queue), (combining, of_combining)] =
        [queue, combining].map(|lock| sections(lock, &starts, &[0, 1, 2, 3]));
    assert_eq!(queue, combining);
    assert_eq!(of_queue.lock_stats(LOCK).paths, of_combining.lock_stats(LOCK).paths);
}

#[test]
fn a_served_section_runs_at_the_speed_of_the_combiners_core() {
    // CPU 0 combines for CPU 1. CPU 4, the other thread of CPU 0's core, works all the time.
    let had = RefCell::new(Vec::new());
    run_with(config(), combining(64), &[0, 10, 0, 0, 0], |engine, cpu| match cpu {
        0 | 1 => {
            engine.acquire(LOCK, 0);
            let begin = engine.now();
            engine.work(ns(1000));
            had.borrow_mut().push((cpu, engine.now() - begin));
            engine.release(LOCK);
            let begin = engine.now();
            engine.work(ns(1000));
            had.borrow_mut().push((cpu, engine.now() - begin));
        }
        4 => (0..200).for_each(|_| {
            engine.work(ns(50));
            engine.yield_now();
        }),
        _ => {}
    });
    let of = |cpu| had.borrow().iter().filter(|(of, _)| *of == cpu).map(|(_, time)| *time).collect::<Vec<_>>();
    assert_eq!(of(0), [ns(1600), ns(1600)]);
    assert_eq!(of(1), [ns(1600), ns(1000)], "on the combiner's core, then on its own");
}

#[test]
fn after_a_served_section_a_cpu_works_at_the_speed_of_its_own_core() {
    let times = RefCell::new(Vec::new());
    let config = EngineConfig { core_cv: 0.2, seed: 3, ..config() };
    run_with(config, combining(64), &[0, 700], |engine, cpu| {
        let work = || {
            let begin = engine.now();
            engine.work(ns(1000));
            engine.now() - begin
        };
        let before = work();
        engine.acquire(LOCK, 0);
        let inside = work();
        engine.release(LOCK);
        times.borrow_mut().push((cpu, [before, inside, work()]));
    });
    let times = times.into_inner();
    let of = |cpu| times.iter().find(|(of, _)| *of == cpu).unwrap().1;
    let ([own, ..], [before, inside, after]) = (of(0), of(1));
    assert_ne!(before, own, "two cores of one speed show nothing");
    assert_eq!((inside, after), (own, before));
}

/// The sections of a random program under a lock, in the order in which they began.
fn random_sections(lock: LockSpec, seed: u64) -> Vec<Held> {
    let line = LineState::default();
    let config = EngineConfig { work_cv: 0.5, line_cv: 0.5, hold_cv: 1.0, core_cv: 0.1, seed, ..config() };
    let engine = Engine::new(config, &[lock]);
    engine.keep_held(usize::MAX);
    scope(|fibers| {
        let (engine, line) = (&engine, &line);
        for cpu in 0..8 {
            let task = move || {
                for round in 0..200 {
                    engine.work(ns(300 + engine.random_below(3000)));
                    if round % 4 == 0 {
                        while !engine.try_acquire(LOCK, 0) {
                            engine.relax();
                        }
                    } else {
                        engine.acquire(LOCK, 1);
                    }
                    engine.work(ns(200));
                    engine.touch(line, NODE);
                    engine.release(LOCK);
                }
            };
            engine.spawn(fibers, cpu, Time::ZERO, task).unwrap();
        }
        engine.run(fibers, Time::NEVER, &|| true);
    });
    let mut held = engine.take_held();
    held.sort_by_key(|hold| hold.had);
    held
}

#[test]
fn sections_are_exclusive_whoever_executes_them() {
    for most in [1, 2, 64] {
        let held = random_sections(combining(most), 1);
        assert_eq!(held.len(), 8 * 200);
        for pair in held.windows(2) {
            assert!(pair[0].released <= pair[1].had, "{pair:?}");
        }
        assert_eq!(held, random_sections(combining(most), 1), "equal seeds give equal runs");
        assert_ne!(held, random_sections(combining(most), 2));
    }
}
