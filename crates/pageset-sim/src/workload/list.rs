//! All workloads by name.

use super::{
    Length, Workload, anon_r_rand, compile, database, ebizzy, exit, fault_file, highalloc, lru_file, malloc,
    net_receive, page_fault1, parallel_free, pigz, purge, read_write, streams, thp_mix, truncate,
};
use crate::os::Needs;

/// Needs of tasks that share an address space.
const fn one_space(_tasks: u32) -> Needs {
    Needs { objects: 1, ..Needs::NOTHING }
}

const fn a_file_each(tasks: u32) -> Needs {
    Needs { objects: tasks, ..Needs::NOTHING }
}

const fn a_file_each_and_one_space(tasks: u32) -> Needs {
    Needs { objects: tasks + 1, ..Needs::NOTHING }
}

/// All workloads. The will-it-scale workloads come first. Each of their tasks is a process, or a thread in workloads
/// named `-threads`.
pub const WORKLOADS: &[Workload] = &[
    Workload::processes("page_fault1", "map 128 MiB, write a byte in each page, unmap", "pages", page_fault1::task)
        .apart(),
    Workload::threads("page_fault1-threads", "as page_fault1, in one address space", "pages", page_fault1::task)
        .needing(one_space),
    Workload::processes(
        "page_fault2",
        "as page_fault1, in a private file mapping: pages are copied",
        "pages",
        fault_file::private,
    )
    .needing(a_file_each)
    .apart(),
    Workload::threads("page_fault2-threads", "as page_fault2, in one address space", "pages", fault_file::private)
        .needing(a_file_each_and_one_space),
    Workload::processes(
        "page_fault3",
        "as page_fault1, in a shared file mapping: allocates only page tables",
        "pages",
        fault_file::shared,
    )
    .needing(a_file_each)
    .apart()
    .lasting(Length::MAPPINGS),
    Workload::threads("page_fault3-threads", "as page_fault3, in one address space", "pages", fault_file::shared)
        .needing(a_file_each_and_one_space)
        .lasting(Length::MAPPINGS),
    Workload::new("malloc1", "map 128 MiB, write in the first page, unmap", "pairs", malloc::processes)
        .needing(malloc::needs)
        .lasting(Length::ROUNDS),
    Workload::new("malloc1-threads", "as malloc1, in one address space", "pairs", malloc::threads)
        .needing(malloc::needs)
        .lasting(Length::ROUNDS),
    Workload::processes("malloc2", "allocate and free 1 KiB in user space", "pairs", malloc::user_space)
        .apart()
        .lasting(Length::ROUNDS),
    Workload::processes("malloc2-threads", "as malloc2: nothing is shared", "pairs", malloc::user_space)
        .apart()
        .lasting(Length::ROUNDS),
    Workload::processes("read1", "read a file of 1 MiB in the page cache, 4 KiB a call", "calls", read_write::read)
        .needing(a_file_each)
        .apart()
        .lasting(Length::ROUNDS),
    Workload::processes("read1-threads", "as read1: nothing is shared", "calls", read_write::read)
        .needing(a_file_each)
        .apart()
        .lasting(Length::ROUNDS),
    Workload::processes("write1", "write a file of 1 MiB in the page cache, 4 KiB a call", "calls", read_write::write)
        .needing(a_file_each)
        .apart()
        .lasting(Length::ROUNDS),
    Workload::processes("write1-threads", "as write1: nothing is shared", "calls", read_write::write)
        .needing(a_file_each)
        .apart()
        .lasting(Length::ROUNDS),
    Workload::processes(
        "anon-r-rand",
        "touch anonymous memory in random order (vm-scalability)",
        "touches",
        anon_r_rand::task,
    )
    .apart(),
    Workload::threads("anon-r-rand-mt", "as anon-r-rand, in one address space", "touches", anon_r_rand::task)
        .needing(one_space),
    Workload::new("lru-file-mmap-read", "read mapped sparse files larger than memory", "pages", lru_file::in_order)
        .needing(lru_file::needs)
        .lasting(Length::LONG_ROUNDS),
    Workload::new(
        "lru-file-mmap-read-rand",
        "read mapped files at random, all in memory",
        "pages",
        lru_file::at_random,
    )
    .needing(lru_file::needs)
    .lasting(Length::LONG_ROUNDS),
    Workload::threads("ebizzy", "threads that search in copies of chunks", "records", ebizzy::task)
        .needing(one_space)
        .lasting(Length::LONG_ROUNDS),
    Workload::new("kbuild", "a compile farm: one compiler after the other on each CPU", "pages", compile::set_up)
        .needing(|tasks| Needs { objects: 2 * tasks, groups: compile::GROUPS })
        .lasting(compile::LENGTH),
    Workload::new("sctp-stream-many", "netperf SCTP_STREAM_MANY: pairs of tasks", "messages", streams::sctp)
        .needing(streams::needs)
        .lasting(Length::MESSAGES),
    Workload::new("af-unix", "lmbench's stream over AF_UNIX: pairs of tasks", "messages", streams::af_unix)
        .needing(streams::needs)
        .lasting(Length::MESSAGES),
    Workload::new("tcp-stream", "netperf TCP_STREAM: pairs of tasks", "messages", streams::tcp)
        .needing(streams::needs)
        .lasting(Length::ROUNDS),
    Workload::new("oltp", "a database under transactions (sysbench)", "transactions", database::set_up)
        .needing(database::needs)
        .lasting(Length::LONG_ROUNDS),
    Workload::new("pigz", "threads that compress data from pipes", "KiB", pigz::set_up)
        .needing(pigz::needs)
        .lasting(Length::LONG_ROUNDS),
    Workload::new(
        "purge",
        "one thread in four unmaps what the others of its process have faulted in",
        "pages",
        purge::set_up,
    )
    .needing(purge::needs)
    .counting("pages purged")
    .lasting(Length::LONG_ROUNDS),
    Workload::new(
        "net-receive",
        "pairs of a CPU that polls a network card and a reader",
        "packets",
        net_receive::set_up,
    )
    .needing(net_receive::needs)
    .lasting(Length::MESSAGES),
    Workload::new("thp-mix", "page_fault1 on fragmented memory, one half with huge pages", "pages", thp_mix::set_up)
        .counting("pages in huge ones")
        .lasting(thp_mix::LENGTH),
    Workload::new(
        "stress-highalloc-100ms",
        "a huge page every 100 ms while compilers run",
        "successes",
        highalloc::slow,
    )
    .counting("failures")
    .once(),
    Workload::new("stress-highalloc-1ms", "a huge page every 1 ms while compilers run", "successes", highalloc::fast)
        .counting("failures")
        .once(),
    Workload::sized(
        "exit",
        "a process with much memory exits while others fault; --size is its memory in GiB",
        "pages",
        exit::set_up,
        exit::GIB,
    )
    .counting("pages faulted by others")
    .once(),
    Workload::new("parallel-free", "free a huge region, one part per task", "pages", parallel_free::set_up).once(),
    Workload::new("truncate", "truncate a sparse file of 1 GiB", "pages", truncate::set_up)
        .needing(truncate::needs)
        .once(),
];
