//! Timelines in the JSON form that Perfetto's viewer opens.

use std::io::{self, BufWriter, Write};

use serde_json::{Value, json};

use crate::error::Failure;

/// Nanoseconds as microseconds with three decimals, as the form requires, without loss.
pub fn micros(time_ns: u64) -> Value {
    let text = format!("{}.{:03}", time_ns / 1000, time_ns % 1000);
    text.parse().map_or(Value::Null, |number: serde_json::Number| Value::Number(number))
}

/// The number of thread numbers per process. The kernel supports at most 8192 CPUs.
const CPUS: usize = 1 << 16;

/// The thread number of a CPU's track. It is unique and differs from all process numbers. Perfetto takes thread 0, and
/// a thread with the number of its process, for the main thread: tracks would merge, and overlapping slices would be
/// dropped.
fn thread(process: usize, cpu: u32) -> usize {
    process * CPUS + cpu as usize
}

/// A writer of a timeline, event by event.
pub struct Writer<W: Write> {
    out: BufWriter<W>,
    any: bool,
}

impl<W: Write> Writer<W> {
    /// Begins the timeline.
    pub fn new(out: W) -> io::Result<Self> {
        let mut out = BufWriter::new(out);
        out.write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n")?;
        Ok(Writer { out, any: false })
    }

    /// Writes an event.
    pub fn event(&mut self, event: &Value) -> io::Result<()> {
        if std::mem::replace(&mut self.any, true) {
            self.out.write_all(b",\n")?;
        }
        Ok(serde_json::to_writer(&mut self.out, event)?)
    }

    /// Names a process.
    pub fn process(&mut self, process: usize, name: &str) -> io::Result<()> {
        self.event(&json!({"ph": "M", "name": "process_name", "pid": process, "args": {"name": name}}))
    }

    /// Names a CPU's track.
    pub fn track(&mut self, process: usize, cpu: u32) -> io::Result<()> {
        let name = format!("CPU {cpu}");
        let tid = thread(process, cpu);
        self.event(&json!({"ph": "M", "name": "thread_name", "pid": process, "tid": tid, "args": {"name": name}}))
    }

    /// Writes a slice on a CPU's track, from `begin` to `end` in nanoseconds.
    pub fn slice(
        &mut self,
        process: usize,
        cpu: u32,
        name: &str,
        begin: u64,
        end: u64,
        args: &Value,
    ) -> io::Result<()> {
        let (ts, dur) = (micros(begin), micros(end.saturating_sub(begin)));
        let tid = thread(process, cpu);
        self.event(&json!({"ph": "X", "name": name, "pid": process, "tid": tid, "ts": ts, "dur": dur, "args": args}))
    }

    /// Ends the timeline.
    pub fn finish(mut self) -> Result<(), Failure> {
        self.out.write_all(b"\n]}\n")?;
        Ok(self.out.flush()?)
    }
}
