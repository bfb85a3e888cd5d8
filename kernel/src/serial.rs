//! Text for the host: the first serial port. And the end of the machine, with an exit code for the host.

use core::fmt::{self, Write};

use spin::Mutex;
use x86_64::instructions::port::{Port, PortWriteOnly};

/// The registers of the first serial port: data, and the line status with the bit "ready to send".
const DATA: u16 = 0x3F8;
const LINE_STATUS: u16 = 0x3FD;
const READY_TO_SEND: u8 = 0x20;
/// The port of QEMU's device isa-debug-exit, as the script `run` configures it. QEMU exits with 2 x value + 1.
const DEBUG_EXIT: u16 = 0xF4;
/// How often [`print_in_panic`] tries to get the port. A guess: longer than a line takes.
const PANIC_TRIES: u32 = 1_000_000;

struct Serial;

static SERIAL: Mutex<Serial> = Mutex::new(Serial);

impl Write for Serial {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let (mut status, mut data) = (Port::<u8>::new(LINE_STATUS), PortWriteOnly::<u8>::new(DATA));
        for byte in text.bytes() {
            // SAFETY: these ports belong to the serial port, and reading the status has no effect on it.
            while unsafe { status.read() } & READY_TO_SEND == 0 {}
            // SAFETY: as above; the port is ready for a byte.
            unsafe { data.write(byte) };
        }
        Ok(())
    }
}

/// Prints a line. Not for interrupts: one could interrupt a holder of the port.
pub fn print(line: fmt::Arguments<'_>) {
    // The port accepts all text.
    let _ = writeln!(SERIAL.lock(), "{line}");
}

/// Prints a line, also where the holder of the port never returns.
pub fn print_in_panic(line: fmt::Arguments<'_>) {
    let guard = (0..PANIC_TRIES).find_map(|_| SERIAL.try_lock());
    let _ = writeln!(Serial, "{line}");
    drop(guard);
}

/// Prints a line to the serial port.
macro_rules! say {
    ($($text:tt)*) => { $crate::serial::print(format_args!($($text)*)) };
}
pub(crate) use say;

/// Ends the machine. QEMU's exit code is 33 for a success and 35 for a failure; 0 is a machine that crashed.
pub fn exit(success: bool) -> ! {
    // SAFETY: the port belongs to isa-debug-exit, or to nobody.
    unsafe { PortWriteOnly::<u8>::new(DEBUG_EXIT).write(if success { 0x10 } else { 0x11 }) };
    loop {
        x86_64::instructions::hlt();
    }
}
