use super::*;

fn text() -> &'static str {
    SHIPPED[0].1
}

/// The error after a change of the first machine's text.
fn changed(from: &str, to: &str) -> String {
    assert!(text().contains(from), "{from}");
    Machine::parse("m.toml", &text().replacen(from, to, 1)).unwrap_err().to_string()
}

fn line_of(key: &str) -> usize {
    text().lines().position(|line| line.starts_with(key)).unwrap() + 1
}

#[test]
fn shipped_descriptions_are_valid_and_have_the_names_of_their_files() {
    for (name, text) in SHIPPED {
        let machine = Machine::parse(name, text).unwrap();
        assert_eq!(machine.name, *name);
        assert_eq!(find(name).unwrap().unwrap(), machine);
        // The engine uses the times of the file.
        let config = machine.engine_config(0);
        assert_eq!(config.cache.line[0], machine.time(machine.cited.l1_ns));
        assert!(config.cache.line[..3].is_sorted(), "{name}: a nearer cache must be faster");
        assert!(config.topology.cpus() >= 4);
    }
    assert!(find("pdp-11").is_none());
}

#[test]
fn machines_of_the_research_pages_are_valid() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/archive");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let machines: Vec<_> = files.filter(|file| file.extension().is_some_and(|end| end == "toml")).collect();
    for file in &machines {
        Machine::parse(&file.display().to_string(), &std::fs::read_to_string(file).unwrap()).unwrap();
    }
    assert!(machines.len() >= 2, "{machines:?}");
}

/// The table and key of each line that sets a value.
fn keys(text: &str) -> Vec<(String, String)> {
    let mut table = String::new();
    let mut keys = Vec::new();
    for line in text.lines() {
        if line.starts_with('[') {
            table = line.to_owned();
        } else if let Some((key, value)) = line.split_once(" = ").filter(|_| !line.starts_with('#')) {
            keys.push((table.clone(), format!("{key} = {value}")));
        }
    }
    keys
}

#[test]
fn at_most_one_number_of_a_machine_is_fitted() {
    for (name, text) in SHIPPED {
        let fitted: Vec<_> = keys(text).into_iter().filter(|(table, _)| table == "[fitted]").collect();
        assert!(matches!(&fitted[..], [(_, pace)] if pace.starts_with("pace = ")), "{name}: {fitted:?}");
        let machine = find(name).unwrap().unwrap();
        if crate::calibrate::Goal::of(&machine).unwrap().is_none() && *name != crate::compare::TASKS_MACHINE {
            assert_eq!(machine.fitted.pace, Rate::ONE, "{name}: there is no row to fit to");
        }
    }
    let more = text().replace("[fitted]", "[fitted]\ntransfer_ns = 3");
    let error = Machine::parse("m.toml", &more).unwrap_err().to_string();
    assert!(error.contains("unknown field `transfer_ns`, expected `pace`"), "{error}");
}

#[test]
fn all_machines_share_costs_and_those_of_a_microarchitecture_share_latencies() {
    // What differs between machines of one microarchitecture: counts, sizes, the clock. Larger machines have longer ways to
    // memory, and spr-2s48 has fewer memory modules.
    let own = [
        "sockets",
        "cores_per_socket",
        "threads_per_core",
        "memory_gib",
        "clock_ghz",
        "llc_kib",
        "memory_ns",
        "remote_memory_ns",
    ];
    let value = |name: &str, key: &str| {
        let text = SHIPPED.iter().find(|(shipped, _)| *shipped == name).unwrap().1;
        keys(text).into_iter().map(|(_, line)| line).find(|line| line.starts_with(&format!("{key} = ")))
    };
    let names = || SHIPPED.iter().map(|(name, _)| *name);
    for (a, b) in names().flat_map(|a| names().map(move |b| (a, b))) {
        let [of_a, of_b] = [a, b].map(|name| find(name).unwrap().unwrap());
        // Streams are evicted first in last levels since Ivy Bridge.
        for (table, line) in keys(SHIPPED.iter().find(|(shipped, _)| *shipped == a).unwrap().1) {
            let key = line.split(' ').next().unwrap();
            if ["[shared]", "[guessed]"].contains(&table.as_str()) && key != "llc_reuse_factor" {
                assert_eq!(Some(line.clone()), value(b, key), "{a}, {b}");
            }
        }
        if of_a.microarchitecture != of_b.microarchitecture {
            continue;
        }
        for (table, line) in keys(SHIPPED.iter().find(|(shipped, _)| *shipped == a).unwrap().1) {
            let key = line.split(' ').next().unwrap();
            let fewer_modules = key == "memory_gb_per_s" && [a, b].contains(&"spr-2s48");
            if !table.is_empty() && table != "[fitted]" && !own.contains(&key) && !fewer_modules {
                assert_eq!(Some(line.clone()), value(b, key), "{a}, {b}");
            }
        }
    }
}

#[test]
fn a_socket_may_have_several_nodes_and_last_levels() {
    let xeon = find("srf-2s288").unwrap().unwrap();
    let topology = xeon.topology();
    assert_eq!((topology.sockets, topology.cores_per_socket, topology.nodes_per_package), (4, 72, 2));
    assert_eq!(xeon.node_pages() * 4, xeon.cited.memory_gib.get() << 18);
    let config = xeon.engine_config(0);
    let whole = find("srf-2s288").map(|machine| machine.unwrap()).map(|mut machine| {
        machine.cited.nodes_per_socket = Count::one();
        machine.engine_config(0)
    });
    assert_eq!(config.cache.llc_lines * 2, whole.unwrap().cache.llc_lines, "each node has half of the last level");
    assert_eq!(config.memory.bytes_per_second * 2, whole.unwrap().memory.bytes_per_second);
    // Farther lines take longer on an idle machine: node, package, machine.
    let line = |source: crate::engine::Source| config.cache.line[source as usize];
    use crate::engine::Source::{Memory, NearMemory, NearTransfer, RemoteMemory, Transfer};
    assert_eq!(line(NearTransfer) - line(Transfer), Time::from_ns(15.0));
    assert!(line(Memory) < line(NearMemory) && line(NearMemory) < line(RemoteMemory));
    // A node alone is a machine with the same parts.
    let node = xeon.one_node().unwrap();
    assert_eq!(
        (node.topology().sockets, node.topology().cores_per_socket, node.node_pages()),
        (1, 72, xeon.node_pages())
    );
    assert_eq!(node.engine_config(0).cache.llc_lines, config.cache.llc_lines);
    assert_eq!(node.engine_config(0).memory.bytes_per_second, config.memory.bytes_per_second);

    let epyc = find("epyc-2s512").unwrap().unwrap();
    assert_eq!((epyc.topology().sockets, epyc.topology().cores_per_last_level()), (2, 8));
    assert_eq!(epyc.engine_config(0).cache.llc_lines, 16 * 1024 * 1024 / 64);
    assert_eq!(epyc.cache_slice_pages(), 256, "16 MiB among 16 CPUs");
}

#[test]
fn nodes_and_last_levels_must_divide_the_cores() {
    let with = |key: &str| {
        let text = text().replace("sockets = 4\n", &format!("sockets = 4\n{key}\n"));
        Machine::parse("m.toml", &text).unwrap_err().to_string()
    };
    let line = line_of("sockets = 4") + 1;
    for (key, message) in [
        ("nodes_per_socket = 5", "nodes_per_socket: 5; allowed: a divisor of the 24 cores_per_socket"),
        ("nodes_per_socket = 2", "nodes_per_socket: 2 without near_memory_ns; allowed: 1, or with near_memory_ns"),
        ("last_levels_per_node = 7", "last_levels_per_node: 7; allowed: a divisor of the 24 cores of a node"),
        (
            "last_levels_per_node = 3",
            "last_levels_per_node: 3 without near_transfer_ns; allowed: 1, or with near_transfer_ns",
        ),
        ("nodes_per_socket = 0", "nodes_per_socket: 0; allowed: 1 and above"),
    ] {
        assert_eq!(with(key), format!("m.toml, line {line}, {message}"));
    }
}

#[test]
fn pace_scales_every_duration() {
    let machine = find("lkp-sb02").unwrap().unwrap();
    let at = |pace: f64| {
        let mut machine = machine.clone();
        machine.fitted.pace = Rate::try_from(pace).unwrap();
        machine.engine_config(0)
    };
    let (one, two) = (at(1.0), at(2.0));
    let twice = |a: Time, b: Time| a.ps().abs_diff(2 * b.ps()) <= 2;
    assert!(two.cache.line.iter().zip(one.cache.line).all(|(a, b)| twice(*a, b)));
    assert!(twice(two.atomic, one.atomic));
    assert!(two.work_permille.abs_diff(2 * one.work_permille) <= 1);
    // The engine scales work, and with it the pages that it clears.
    assert_eq!(two.cache.page, one.cache.page);
    assert!(two.memory.bytes_per_second.abs_diff(one.memory.bytes_per_second / 2) <= 1);
}

#[test]
fn the_engine_has_the_cores_of_the_description() {
    let machine = find("lkp-bdw-ep2").unwrap().unwrap();
    assert!(machine.guessed.core_cv.get() > 0.0);
    assert_eq!(machine.engine_config(0).core_cv, machine.guessed.core_cv.get());
}

#[test]
fn cpu_counts_match_the_specification() {
    let cpus: Vec<_> =
        SHIPPED.iter().map(|(name, text)| Machine::parse(name, text).unwrap().topology().cpus()).collect();
    assert_eq!(cpus, [192, 192, 112, 88, 72, 40, 24, 8, 8, 4, 224, 128, 80, 8, 512, 288, 192, 48]);
}

#[test]
fn errors_name_the_file_the_line_and_the_key() {
    let line = line_of("sockets");
    assert_eq!(changed("sockets = 4", "sockets = 0"), format!("m.toml, line {line}, sockets: 0; allowed: 1 and above"));
    assert_eq!(
        changed("sockets = 4", "sockets = -4"),
        format!("m.toml, line {line}, sockets: -4; allowed: 1 and above")
    );
    let line = line_of("llc_ns");
    assert_eq!(
        changed("llc_ns = ", "llc_ns = -"),
        format!("m.toml, line {line}, llc_ns: -22 ns; allowed: 0 to 1000000000 ns")
    );
    let error = changed("llc_ns = ", "llc_ms = ");
    assert!(
        error.starts_with(&format!("m.toml, line {line}, llc_ms: unknown field `llc_ms`, expected one of")),
        "{error}"
    );
    let error = changed("llc_ns = ", "llc_ns = \"fast\" #");
    assert!(error.starts_with(&format!("m.toml, line {line}, llc_ns: invalid type")), "{error}");
    let error = changed("llc_ns = ", "# ");
    assert!(error.contains("[cited]: missing field `llc_ns`"), "{error}");
    let error = changed("llc_ns = ", "llc_ns ");
    assert!(error.starts_with(&format!("m.toml, line {line}")), "{error}");
    let line = line_of("descriptor_bytes");
    assert_eq!(
        changed("descriptor_bytes = 64", "descriptor_bytes = 65"),
        format!("m.toml, line {line}, descriptor_bytes: 65; allowed: 16, 32, 64, 128 or 256")
    );
    let line = line_of("memory_gib");
    assert_eq!(
        changed("memory_gib = 768", "memory_gib = 3"),
        format!("m.toml, line {line}, memory_gib: 3 GiB; allowed: 4 (one a socket) to 8192")
    );
    // 2^30 - 1 of each is the most that a count can be.
    let most = (1 << 30) - 1;
    let counts = format!("sockets = {most}\ncores_per_socket = {most}\nthreads_per_core = {most}");
    let many = changed("sockets = 4\ncores_per_socket = 24\nthreads_per_core = 2", &counts);
    assert!(many.contains(&format!("{} CPUs in all; allowed: 1 to 4096", u64::MAX)), "{many}");
    assert!(changed("pace = ", "pace = 1000 # ").contains("pace: 1000; allowed: 0.01 to 100"));
    assert!(changed("sockets = 4", "sockets = 1000").contains("sockets: 48000 CPUs in all; allowed: 1 to 4096"));
    assert!(changed("llc_ns = 22", "llc_ns = nan").contains("allowed: 0 to"));
    assert_eq!(changed("smt_slowdown = 1.6", "smt_slowdown = 0.5").split(": ").last(), Some("1 to 100"));
}

#[test]
fn detection_reads_counts_memory_and_caches_from_linux() {
    let root = std::env::temp_dir().join(format!("pageset-detect-{}", std::process::id()));
    let put = |file: &str, text: &str| {
        let file = root.join(file);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    };
    put("proc/meminfo", "MemTotal:       33554432 kB\nMemFree: 1 kB\n");
    put("sys/devices/system/cpu/online", "0-2,5-9\n");
    for (cpu, package, core) in [(0, 0, 0), (1, 0, 1), (2, 1, 0), (5, 1, 1), (6, 0, 0), (7, 0, 1), (8, 1, 0), (9, 1, 1)]
    {
        put(&format!("sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id"), &format!("{package}\n"));
        put(&format!("sys/devices/system/cpu/cpu{cpu}/topology/core_id"), &format!("{core}\n"));
    }
    for (index, level, kind, size) in
        [(0, 1, "Data", "48K"), (1, 1, "Instruction", "32K"), (2, 2, "Unified", "2048K"), (3, 3, "Unified", "30720K")]
    {
        for (name, text) in [("level", level.to_string()), ("type", kind.to_owned()), ("size", size.to_owned())] {
            put(&format!("sys/devices/system/cpu/cpu0/cache/index{index}/{name}"), &text);
        }
    }
    let text = detect(&root, "host").unwrap();
    // Each number says whose it is, and no comment on this host's numbers tells of another machine's sources.
    for line in ["sockets = 2 # this host", "memory_gib = 32 # this host", "memory_ns = 55 # lkp-skl-d01"] {
        assert!(text.contains(&format!("\n{line}\n")), "{line:?} is missing:\n{text}");
    }
    assert!(!text.contains("data sheet") && !text.contains("test farm"), "{text}");
    assert!(text.contains("about = \"this host: 8 CPUs, 32 GiB; latencies and costs of lkp-skl-d01\""), "{text}");
    let machine = Machine::parse("host", &text).unwrap();
    let topology = machine.topology();
    assert_eq!((topology.sockets, topology.cores_per_socket, topology.threads_per_core), (2, 2, 2));
    let h = machine.cited;
    assert_eq!((h.memory_gib.get(), h.l1_kib.get(), h.l2_kib.get(), h.llc_kib.get()), (32, 48, 2048, 30_720));
    assert_eq!(machine.name, "host");
    // A socket of the model is a memory node with CPUs, not a package.
    put("sys/devices/system/node/has_cpu", "0\n");
    put("sys/devices/system/node/node0/cpulist", "0-9\n");
    let topology = Machine::parse("host", &detect(&root, "host").unwrap()).unwrap().topology();
    assert_eq!((topology.sockets, topology.cores_per_socket, topology.threads_per_core), (1, 4, 2));

    for (cpu, shared) in [(0, "0,6\n"), (1, "1,7\n"), (6, "0,6\n"), (7, "1,7\n")] {
        put(&format!("sys/devices/system/cpu/cpu{cpu}/cache/index3/shared_cpu_list"), shared);
        for index in 0..3 {
            put(&format!("sys/devices/system/cpu/cpu{cpu}/cache/index{index}/id"), "0\n");
        }
    }
    // The key has all last levels of a socket together, and none that ends at a lower level.
    for (level, size, kib) in [("3", "98304K", 129_024), ("2", "2048K", 30_720)] {
        put("sys/devices/system/cpu/cpu1/cache/index3/level", level);
        put("sys/devices/system/cpu/cpu1/cache/index3/size", size);
        let text = detect(&root, "host").unwrap();
        let line = text.lines().find(|line| line.starts_with("llc_kib = ")).unwrap();
        let several = if kib == 30_720 { "" } else { ": 2 caches, described as one that all cores of a socket share" };
        assert_eq!(line, format!("llc_kib = {kib} # this host{several}"));
    }
    // Five CPUs on four cores, as of a hybrid processor.
    put("sys/devices/system/cpu/online", "0-2,5-6\n");
    let text = detect(&root, "host").unwrap();
    let about = "this host: 5 CPUs, described as 8, since its cores or sockets differ, 32 GiB";
    assert!(text.contains(about), "{text}");
    put("sys/devices/system/cpu/online", "0-2,5-9\n");

    put("proc/meminfo", "nothing");
    let error = detect(&root, "host").unwrap_err().to_string();
    assert!(error.ends_with("proc/meminfo: unexpected: no MemTotal in kB"), "{error}");
    std::fs::remove_dir_all(&root).unwrap();
}
