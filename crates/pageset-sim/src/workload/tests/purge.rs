//! Tests of channels and of the workload with purgers.

use super::*;
use crate::os::Channel;
use crate::workload::purge::{EXTENT_PAGES, Role, fill, purge, roles};

#[test]
fn a_channel_delivers_all_items_in_order_and_blocks_both_sides() {
    const ITEMS: u32 = 100;
    /// Task 0 sends, task 1 receives, and task `SLOW` works before each item.
    fn pass<'s, const SLOW: u32>(system: &'s System<'_>, _tasks: u32) -> Result<Job<'s>, AllocError> {
        let channel = Channel::new(system, 4);
        let received = RefCell::new(Vec::new());
        let sent = Cell::new(0);
        Ok(Box::new(move |task| {
            for item in 0..ITEMS {
                if task == SLOW {
                    system.engine().work(Time::from_ps(20_000_000));
                    system.yield_now();
                }
                if task == 0 {
                    channel.send(system, item);
                    sent.set(sent.get() + 1);
                } else {
                    let item = channel.receive(system);
                    received.borrow_mut().push(item);
                    system.count();
                }
                let waiting = sent.get() - received.borrow().len() as i32;
                assert!(waiting <= 4, "{waiting} items in a channel with room for 4");
            }
            if task == 1 {
                assert_eq!(*received.borrow(), (0..ITEMS).collect::<Vec<_>>());
            }
            Ok(())
        }))
    }
    for (slow, code) in [(0, pass::<0> as Code), (1, pass::<1>)] {
        let outcome = once(code, 2);
        assert_eq!(
            outcome.operations[0],
            u64::from(ITEMS),
            "task {slow} is slow, and the other must not sleep for ever"
        );
        let (busy, time) = (outcome.busy.seconds(), outcome.time.seconds());
        assert!(busy < 1.6 * time, "task {} must sleep while it waits for task {slow}: {busy} of {time}", 1 - slow);
    }
}

#[test]
fn purgers_free_what_other_cpus_allocated() {
    const EXTENTS: u64 = 20;
    let outcome = once(
        |system, tasks| {
            let space: &'static Space = Box::leak(Box::new(Space::with_region_locks(tasks)));
            let extents = Channel::new(system, 4);
            let before = system.free_pages_of_node(0);
            Ok(Box::new(move |task| {
                if task < 3 {
                    for _ in 0..EXTENTS {
                        extents.send(system, fill(system, space, EXTENT_PAGES)?);
                    }
                    return Ok(());
                }
                for _ in 0..3 * EXTENTS {
                    purge(system, space, extents.receive(system))?;
                }
                let missing = before - system.free_pages_of_node(0);
                assert!(missing <= 4 * 186, "more pages missing than four pagesets hold: {missing}");
                for worker in 0..3 {
                    // A page table per extent.
                    assert_eq!(system.pageset_pages(worker), (EXTENTS * (EXTENT_PAGES + 1), 0), "worker {worker}");
                }
                // A gather page per extent, for all but its first eight pages.
                let gathered = 3 * EXTENTS;
                assert_eq!(system.pageset_pages(task), (gathered, 3 * EXTENTS * (EXTENT_PAGES + 1) + gathered));
                Ok(())
            }))
        },
        4,
    );
    assert_eq!(outcome.operations, [3 * EXTENTS * EXTENT_PAGES; 2], "faulted and purged pages");
}

#[test]
fn one_thread_in_four_of_a_process_purges() {
    for (tasks, nodes, groups) in
        [(1, 1, 1), (2, 1, 1), (4, 1, 1), (7, 2, 1), (88, 2, 8), (223, 2, 8), (1024, 8, 8), (64, 16, 8)]
    {
        let node_of = |task: u32| task * nodes / tasks;
        let roles = roles(tasks, groups, node_of);
        assert_eq!(roles.len(), tasks as usize);
        let processes = roles.iter().map(|role| role.process).max().unwrap() + 1;
        assert!(
            processes <= crate::workload::purge::needs(tasks).objects as usize,
            "{processes} processes of {tasks} tasks"
        );
        assert!((0..processes).all(|process| roles.iter().any(|role| role.process == process)), "each has a thread");
        for process in 0..(nodes * groups) as usize {
            let members: Vec<(usize, &Role)> =
                roles.iter().enumerate().filter(|(_, role)| role.process == process).collect();
            let count = |of: fn(&Role) -> bool| members.iter().filter(|(_, role)| of(role)).count();
            let (threads, purgers, workers) = (members.len(), count(|role| role.purges), count(|role| role.works));
            let expected = if threads == 0 { 0 } else { (threads / 4).max(1) };
            assert_eq!(purgers, expected, "{tasks} tasks, process {process} of {threads} threads");
            assert_eq!(workers, if threads == 1 { 1 } else { threads - purgers });
            let place = |task: usize| (node_of(task as u32), task as u32 % groups);
            assert!(members.iter().all(|(task, _)| place(*task) == place(members[0].0)), "one node and one group");
        }
    }
}

#[test]
fn purgers_keep_up_with_the_workers() {
    let machine = small();
    let workload = Workload::find("purge").unwrap();
    let time = Time::from_seconds(0.2);
    for tasks in [1, 2, 4] {
        let outcome = Run { warm_up: time, time, ..run_of(&machine, workload, tasks, 1) }.run(|| true).unwrap();
        let [faulted, purged] = outcome.operations.map(|pages| pages as f64);
        assert!((0.95..1.05).contains(&(purged / faulted)), "{tasks} tasks: {purged} of {faulted} pages");
    }
}
