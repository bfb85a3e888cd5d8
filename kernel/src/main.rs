//! A bare kernel with pageset as its frame allocator: it boots on emulated machines with several CPUs and nodes, and allocates in
//! normal code, page faults, interrupts and NMIs at the same time.
//!
//! Modules, bottom to top. Each uses only those above it in this table.
//!
//! | module | contents |
//! | --- | --- |
//! | [`serial`], [`random`], [`settings`] | output, random numbers, the command line |
//! | [`cpu`] | the current CPU's number; what each CPU has of its own |
//! | [`pvh`], [`acpi`] | the memory map; CPUs and nodes |
//! | [`stack`], [`lock`], [`early`], [`frames`] | used stack; the allocator: its lock, its metadata, its zones |
//! | [`measure`] | instructions per call |
//! | [`owned_block`], [`mailboxes`] | blocks with marks that show a second owner; blocks that move and that are reclaimed |
//! | [`apic`], [`paging`], [`interrupts`] | the local APIC, demand-paged memory, interrupts and NMIs that allocate |
//! | [`smp`] | CPUs that come and go |
//! | [`work`], [`hotplug`], [`report`] | random operations; CPUs and memory that go offline; the audit at the end |
#![no_std]
#![no_main]

mod acpi;
mod apic;
mod cpu;
mod early;
mod frames;
mod hotplug;
mod interrupts;
mod lock;
mod mailboxes;
mod measure;
mod owned_block;
mod paging;
mod pvh;
mod random;
mod report;
mod serial;
mod settings;
mod smp;
mod stack;
mod work;

use core::arch::global_asm;
use core::panic::PanicInfo;
use core::sync::atomic::{AtomicBool, Ordering};

use pageset::CpuId;

use crate::cpu::COUNTS;
use crate::hotplug::Hotplug;
use crate::serial::say;
use crate::smp::State;

global_asm!(include_str!("boot.s"), options(att_syntax));

/// Operations of the first CPU between two steps of hotplug. A guess.
const OPERATIONS_PER_HOTPLUG: u64 = 100;

/// Whether the first CPU has done all its operations and steps of hotplug.
static HOTPLUG_ENDS: AtomicBool = AtomicBool::new(false);

/// The first CPU, from `boot.s`.
#[unsafe(no_mangle)]
extern "sysv64" fn kernel_main(start_info: u64) -> ! {
    cpu::set_number(CpuId(0));
    interrupts::set_up_cpu();
    // SAFETY: `boot.s` passes what the boot loader passed. Nobody has written below 1 MiB, and nobody will write the tables.
    let boot = unsafe { pvh::read(start_info) };
    settings::read(boot.command_line);
    // SAFETY: the boot loader gives the address of the root pointer.
    let topology = unsafe { acpi::read(boot.rsdp) };
    assert!(topology.cpus[0].apic_id == apic::id(), "cannot start: the first CPU of the ACPI tables is another");
    say!("settings: {}", settings::get());
    // SAFETY: only the kernel's image is in use, and only the boot loader's data are below 1 MiB, not on the trampoline's page.
    unsafe {
        frames::build(&boot.usable, &topology);
        smp::set_up(&topology);
    }
    measure::pairs();

    let (hotplug, stack_bytes) = run();

    report::zones();
    report::work(&hotplug, stack_bytes);
    say!("passed");
    serial::exit(true)
}

/// Does all operations on all CPUs, and frees everything. Returns what came and went, and the bytes used of a stack.
fn run() -> (Hotplug, usize) {
    let (seed, operations) = (settings::get().seed, settings::get().operations);
    for cpu in 0..smp::count() {
        work::RANDOM.of(CpuId(cpu)).seed(seed, u64::from(cpu));
        interrupts::RANDOM.of(CpuId(cpu)).seed(seed, u64::from(cpu) + 0x100);
        frames::INTERLEAVING.of(CpuId(cpu)).seed(seed, u64::from(cpu) + 0x200);
    }
    for cpu in smp::others() {
        frames::frames().cpu_online(cpu).unwrap_or_else(|error| panic!("{error}"));
        smp::start(cpu);
    }
    let mut hotplug = Hotplug::default();
    paging::enter();
    interrupts::start();
    for operation in 1..=operations {
        work::operation();
        if operation % OPERATIONS_PER_HOTPLUG == 0 {
            hotplug.step(work::RANDOM.here());
        }
    }
    // Release: pairs with the acquire in `started_cpu_main`.
    HOTPLUG_ENDS.store(true, Ordering::Release);
    hotplug.finish();
    interrupts::stop();
    paging::leave();

    interrupts::free_all_blocks();
    mailboxes::empty();
    (hotplug, smp::free_stacks())
}

/// Another CPU, from `boot.s`. It works until it is asked to stop, or its operations are done and hotplug has ended.
#[unsafe(no_mangle)]
extern "sysv64" fn started_cpu_main(cpu: u64) -> ! {
    smp::live(CpuId(cpu as u32), || {
        // Acquire: pairs with the release in `run`. CPUs that come and go need work to interrupt until the last step.
        while COUNTS.here().operations.get() < settings::get().operations || !HOTPLUG_ENDS.load(Ordering::Acquire) {
            if smp::is_asked_to_stop() {
                return State::Stopped;
            }
            work::operation();
        }
        State::Finished
    })
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    serial::print_in_panic(format_args!("PANIC on {}: {info}\nsettings: {}", cpu::number(), settings::get()));
    serial::exit(false)
}
