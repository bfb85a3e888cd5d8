//! Tests of workloads with a size, of background reclaim, and of network receive.

use super::*;
use crate::engine::Source;

fn find(name: &str) -> Workload {
    Workload::find(name).unwrap().clone()
}

#[test]
fn sizes_are_checked_and_part_of_the_title() {
    let exit = find("exit");
    assert_eq!(exit.title(), "exit, 100 GiB");
    assert_eq!(exit.clone().with_size(3).unwrap().title(), "exit, 3 GiB");
    assert_eq!(exit.clone().with_size(0).unwrap_err(), "0; allowed: 1 to 4096, GiB");
    let folios = find("page_fault1-folios");
    assert_eq!(folios.title(), "page_fault1-folios, order 4");
    for order in [0, 1, 10] {
        assert_eq!(
            folios.clone().with_size(order).unwrap_err(),
            format!("{order}; allowed: 2 to 9, the order of folios")
        );
    }
    let error = find("malloc1").with_size(3).unwrap_err();
    assert_eq!(error, "malloc1 has no size; allowed with: page_fault1-folios, exit");
    assert_eq!(find("malloc1").title(), "malloc1");

    let machine = small();
    let error = run(&machine, &exit, 1, 1).unwrap_err().to_string();
    let most = machine.cited.memory_gib.get() * 9 / 10;
    let expected = format!(
        "exit, 100 GiB on a machine of {} GiB; allowed: 1 to {most} GiB; try another --size",
        machine.cited.memory_gib.get()
    );
    assert_eq!(error, expected);
}

#[test]
fn an_exit_frees_all_memory_on_one_cpu_and_ends_the_run() {
    let workload = find("exit").with_size(1).unwrap();
    let machine = small();
    let pages = (1 << 30) / pageset::Pfn::PAGE_BYTES;
    let alone = run(&machine, &workload, 1, 1).unwrap();
    assert_eq!(alone.operations, [pages, 0]);
    let frees = |outcome: &Outcome| outcome.lru_locks[0].paths[1].holds;
    // Bundles of 8 and of 510 pages, which need 16 holds of up to 32 pages each.
    assert!((pages / 32..pages / 30).contains(&frees(&alone)), "{}", frees(&alone));
    let among = run(&machine, &workload, 4, 1).unwrap();
    assert_eq!(among.operations[0], pages);
    assert!(among.operations[1] > 1000, "others fault meanwhile: {}", among.operations[1]);
    assert!(among.time > alone.time, "{:?} alone, {:?} among others", alone.time, among.time);
    // Twice the memory takes twice as long.
    let twice = run(&machine, &workload.with_size(2).unwrap(), 1, 1).unwrap();
    let ratio = twice.time.seconds() / alone.time.seconds();
    assert!((1.9..2.1).contains(&ratio), "{ratio}");
}

#[test]
fn a_folio_takes_one_fault_and_one_block() {
    let mut machine = small();
    // As on machines before Ivy Bridge: clearing reads lines, and the memory is the limit of folios.
    machine.derived.clear_traffic_bytes = machine::Count::try_from(8192).unwrap();
    machine.cited.memory_gb_per_s = machine::Rate::try_from(20.0).unwrap();
    let of = |order: u32| {
        let workload = find("page_fault1-folios").with_size(order).unwrap();
        run(&machine, &workload, 4, 1).unwrap()
    };
    let pages = |outcome: &Outcome| outcome.moved.allocated as f64 / outcome.operations[0] as f64;
    let scores = [2, 4, 9].map(|order| {
        let outcome = of(order);
        assert!((0.99..1.01).contains(&pages(&outcome)), "order {order}: {} pages allocated a page", pages(&outcome));
        // Each folio joins the LRU by itself.
        let holds: u64 = outcome.lru_locks.iter().map(|lock| lock.paths[0].holds).sum();
        let folios = outcome.operations[0] >> order;
        assert!(holds.abs_diff(folios) <= 4, "order {order}: {holds} holds for {folios} folios");
        let gb_a_second = outcome.score() * pageset::Pfn::PAGE_BYTES as f64 / 1e9;
        // Clearing reads lines before it writes them on this machine, and some of them are still in caches.
        let most = machine.cited.memory_gb_per_s.get();
        assert!(gb_a_second < most, "order {order}: {gb_a_second} GB a second; the memory takes {most}");
        outcome.score()
    });
    let single = run(&machine, &find("page_fault1"), 4, 1).unwrap().score();
    // The memory limits all orders alike; single pages do not reach its limit.
    assert!(scores.iter().all(|score| *score > 1.05 * single), "{scores:?} with folios, {single} with pages");
}

#[test]
fn a_background_task_reclaims_for_the_readers() {
    let machine = machine::find("lkp-hsw-d01").unwrap().unwrap();
    let workload = find("page-cache-reclaim");
    let time = Time::from_seconds(0.2);
    let with = |tasks| Run { warm_up: time, time, ..run_of(&machine, &workload, tasks, 1) }.run(|| true).unwrap();
    let share = |tasks| {
        let [read, reclaimed] = with(tasks).operations.map(|pages| pages as f64);
        reclaimed / read
    };
    // The background task keeps up with one reader. Four readers are faster, so they reclaim the rest.
    let (one, four) = (share(2), share(5));
    assert!((0.95..1.05).contains(&one), "{one} pages reclaimed in the background for each that is read");
    assert!((0.4..0.9).contains(&four), "{four} pages reclaimed in the background for each that is read");
    // One task has nobody to reclaim for it.
    let one = with(1);
    assert_eq!(one.operations[1], 0);
    assert!(one.operations[0] > 0);
}

#[test]
fn a_poller_allocates_what_its_reader_frees() {
    let workload = find("net-receive");
    let outcome = run(&small(), &workload, 2, 1).unwrap();
    let pages = outcome.moved.allocated as f64 / outcome.operations[0] as f64;
    assert!((0.9..1.1).contains(&pages), "{pages} pages a packet");
    // All pages come from the zone, and all go back.
    let through = outcome.moved.from_zone as f64 / outcome.moved.allocated as f64;
    assert!((0.9..1.1).contains(&through), "{through} of the pages come from the zone");
    let alone = run(&small(), &workload, 1, 1).unwrap();
    let through = alone.moved.from_zone as f64 / alone.moved.allocated as f64;
    assert!(through < 0.1, "one CPU reuses its own pages: {through}");
    assert!(outcome.lines[Source::Transfer as usize] > alone.lines[Source::Transfer as usize]);
}
