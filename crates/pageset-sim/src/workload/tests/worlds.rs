//! Tests of workloads with a size, and of network receive.

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
    let error = find("malloc1").with_size(3).unwrap_err();
    assert_eq!(error, "malloc1 has no size; allowed with: exit");
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
