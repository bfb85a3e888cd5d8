use std::time::Duration;

use super::*;
use crate::sample::allowed_cpus;

fn host(places: Vec<Place>) -> Host {
    Host { places, cache_bytes: [32 << 10, 1 << 20, 38 << 20], memory_bytes: 1 << 30 }
}

fn place(cpu: usize, core: usize, socket: usize) -> Place {
    Place { cpu, socket, core, last_level: socket }
}

#[test]
fn buffers_fit_the_caches() {
    let mut host = host(vec![place(0, 0, 0)]);
    assert_eq!((host.last_level_bytes(), host.memory_bytes()), (4 << 20, Ok(128 << 20)));
    host.cache_bytes = [48 << 10, 2 << 20, 260 << 20];
    assert_eq!((host.last_level_bytes(), host.memory_bytes()), (16 << 20, Ok(512 << 20)), "half of 1 GiB");
    host.memory_bytes = 100 << 20;
    assert_eq!(host.memory_bytes(), Err("100 MiB of memory are free; needed: 128 MiB".to_owned()));
    // A part of a last level that is hardly larger than the second.
    host.cache_bytes = [32 << 10, 1 << 20, 2 << 20];
    assert_eq!(host.last_level_bytes(), 1 << 20);
}

#[test]
fn quantities_without_hardware_have_a_reason() {
    let effort = Effort { samples: 1, window: Duration::from_millis(1), limit: Duration::from_millis(1) };
    let missing = |host: &Host, quantity| host.measure(quantity, effort, &|| true).missing;
    let one = host(vec![place(allowed_cpus()[0], 0, 0)]);
    for (quantity, why) in [
        (Quantity::AtomicShared, "only one CPU"),
        (Quantity::Turbo, "only one core"),
        (Quantity::RemoteMemory, "only one socket"),
        (Quantity::SameCore, "no two CPUs of the same core"),
        (Quantity::OtherSocket, "no two CPUs of two sockets"),
    ] {
        assert_eq!(missing(&one, quantity).as_deref(), Some(why));
    }
    assert_eq!(missing(&host(vec![]), Quantity::L1).as_deref(), Some("no CPU"));
    // Two threads of one core cannot show how clocks differ.
    let threads = host(vec![place(0, 0, 0), place(1, 0, 0)]);
    assert_eq!(missing(&threads, Quantity::Turbo).as_deref(), Some("only one core"));
    assert_eq!(threads.pairs_in_socket(), [0, 0]);
    assert_eq!(host(vec![place(0, 0, 0), place(1, 1, 0), place(2, 2, 1)]).pairs_in_socket(), [1, 0]);
}

/// All quantities that this machine has, as if its CPUs were cores of one socket.
#[test]
fn quantities_are_measured() {
    let effort = Effort { samples: 1, window: Duration::from_millis(1), limit: Duration::from_millis(1) };
    let mut cpus = allowed_cpus();
    cpus.truncate(2);
    let host = host(cpus.iter().map(|&cpu| place(cpu, cpu, 0)).collect());
    for quantity in Quantity::ALL {
        let figure = host.measure(quantity, effort, &|| true);
        match figure.median() {
            Some(value) => assert!(value > 0.0 && value < 1e9, "{quantity:?}: {figure:?}"),
            None => assert!(figure.missing.is_some_and(|why| why.contains("only one") || why.contains("no two CPUs"))),
        }
        assert!(!quantity.about().is_empty());
    }
}
