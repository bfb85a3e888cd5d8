//! Reads the ring buffers during the recording. One thread per CPU sleeps until its buffer is half full, then moves
//! that half to a file.
//!
//! A recording that fits into half of its buffers is not disturbed, because nothing is read before its end. The files
//! have no name, so a killed recorder leaves no file.

use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Read, Seek as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::{FallocateFlags, OFlags, fallocate};

use crate::error::RecordError;
use crate::setup::RingStats;
use crate::snapshot::now_ns;
use crate::tracefs::Instance;
use pageset_trace::tracepoint::format::PageLayout;

/// The largest write to a file. Up to this size, half of a buffer is read completely before the write, so that the disk
/// can write while the buffer fills again. Unit: bytes.
const BATCH_BYTES_MAX: usize = 8 << 20;

/// The size of reads from a file, in bytes. A guess.
const READ_BYTES: usize = 1 << 20;

/// The alignment of direct input and output. Source: the largest block of a disk, and a page. Unit: bytes.
const ALIGNMENT: usize = 4096;

/// The highest rate at which a CPU fills its ring buffer: several times the busiest known traffic. A guess. It only
/// sets the polling interval on kernels that do not wake a reader at half. Unit: bytes per second.
const FILL_RATE: u64 = 200 << 20;

/// The readers' priority, above the recorded processes: a reader that waits for them comes too late. Unit: nice.
const PRIORITY: i32 = -10;

/// The ring buffer pages that one CPU's reader moved to its file.
#[derive(Debug)]
pub(super) struct Spool {
    pub(super) cpu: u32,
    /// Whole pages of the ring buffer, from the first page on.
    file: File,
    bytes: u64,
    /// The time on the trace clock up to which the kernel has certainly refused no event, in nanoseconds.
    whole_until_ns: u64,
    /// The error that ended writing to the file, if any.
    failed: Option<io::Error>,
}

/// A flag that threads can wait for. Once raised, it stays raised.
#[derive(Debug)]
struct Flag(OwnedFd);

impl Flag {
    fn new() -> io::Result<Flag> {
        Ok(Flag(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    fn raise(&self) {
        // The counter cannot overflow, so the write cannot fail.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    fn is_raised(&self) -> bool {
        let mut fds = [PollFd::new(&self.0, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ready| ready > 0)
    }
}

/// The state that all readers share.
#[derive(Debug)]
struct Shared {
    layout: PageLayout,
    buffer_bytes: u64,
    /// Bytes in the files of all CPUs together.
    spooled: AtomicU64,
    max_bytes: u64,
    /// Whether a buffer that refuses events ends the recording. Otherwise only a limit or a signal would end it.
    ends_when_full: bool,
    /// Raised when the recording has ended.
    stop: Flag,
    /// Raised when the files have reached their limit, a file cannot be written, or a buffer has refused events.
    full: Flag,
}

/// The readers of all CPUs.
#[derive(Debug)]
pub(super) struct Readers {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<Spool>>,
    tids: Vec<u32>,
}

impl Readers {
    /// Starts a reader for each CPU before the recording. Their files are in `folder` and together at most `max_bytes`
    /// large. With `ends_when_full`, a buffer that refuses events ends the recording. `check` is called before each; its error ends the start.
    pub(super) fn start(
        instance: &Instance,
        layout: PageLayout,
        buffer_bytes: u64,
        max_bytes: Option<u64>,
        ends_when_full: bool,
        folder: &Path,
        check: &mut dyn FnMut() -> Result<(), RecordError>,
    ) -> Result<Readers, RecordError> {
        let failed = |source| RecordError::io("start the readers of the ring buffers", source);
        // 50 is the kernel's default. Kernels that cannot wait for a part of the buffer lack this file.
        let _ = instance.write("buffer_percent", "50");
        let shared = Arc::new(Shared {
            layout,
            buffer_bytes,
            spooled: AtomicU64::new(0),
            max_bytes: max_bytes.unwrap_or(u64::MAX),
            ends_when_full,
            stop: Flag::new().map_err(failed)?,
            full: Flag::new().map_err(failed)?,
        });
        let mut readers = Readers { shared, threads: Vec::new(), tids: Vec::new() };
        let (sender, ready) = mpsc::channel();
        for cpu in instance.cpus()? {
            check()?;
            let file = tempfile::tempfile_in(folder).map_err(RecordError::writing("make a file in", folder))?;
            let mut reader = Reader {
                ring: open_ring(instance, cpu)?,
                stats: open(&instance.path(&format!("per_cpu/cpu{cpu}/stats")))?,
                shared: Arc::clone(&readers.shared),
                batch: Batch::new(
                    layout.size,
                    usize::try_from(buffer_bytes / 2).unwrap_or(BATCH_BYTES_MAX).min(BATCH_BYTES_MAX),
                ),
                direct: rustix::fs::fcntl_setfl(&file, OFlags::DIRECT).is_ok(),
                spool: Spool { cpu, file, bytes: 0, whole_until_ns: now_ns(), failed: None },
            };
            let sender = sender.clone();
            let thread = thread::Builder::new().name(format!("pageset-cpu{cpu}")).spawn(move || {
                // Without the privilege, the reader keeps its normal priority.
                let tid = rustix::thread::gettid();
                let _ = rustix::process::setpriority_process(Some(tid), PRIORITY);
                let _ = sender.send(tid.as_raw_nonzero().get().cast_unsigned());
                reader.run();
                reader.spool
            });
            readers.threads.push(thread.map_err(failed)?);
        }
        readers.tids.extend(ready.iter().take(readers.threads.len()));
        Ok(readers)
    }

    /// The readers' thread numbers, as in events.
    pub(super) fn tids(&self) -> &[u32] {
        &self.tids
    }

    /// Whether the recording should end because of the files or of a full buffer.
    pub(super) fn is_full(&self) -> bool {
        self.shared.full.is_raised()
    }

    /// Ends the readers. Unread events stay in the ring buffers.
    pub(super) fn finish(mut self) -> Vec<Spool> {
        self.shared.stop.raise();
        std::mem::take(&mut self.threads).into_iter().filter_map(|thread| thread.join().ok()).collect()
    }
}

/// Readable when [`Readers::is_full`].
impl AsFd for Readers {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.shared.full.0.as_fd()
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.shared.stop.raise();
        // The kernel cannot remove an instance with open files.
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn open(path: &Path) -> Result<File, RecordError> {
    File::open(path).map_err(RecordError::on("open", path))
}

/// Opens a CPU's ring buffer: each read returns and removes one page.
pub(super) fn open_ring(instance: &Instance, cpu: u32) -> Result<File, RecordError> {
    let path = instance.path(&format!("per_cpu/cpu{cpu}/trace_pipe_raw"));
    let nonblocking = OFlags::NONBLOCK.bits().cast_signed();
    OpenOptions::new().read(true).custom_flags(nonblocking).open(&path).map_err(RecordError::on("open", &path))
}

/// A buffer for pages, aligned for direct writing.
struct Batch {
    room: Vec<u8>,
    start: usize,
    page: usize,
    used: usize,
}

impl Batch {
    fn new(page: usize, bytes: usize) -> Batch {
        let bytes = (bytes / page).max(1) * page;
        // Filled with ones, so that the memory is allocated before the recording begins.
        let room = vec![1; bytes + ALIGNMENT];
        let start = room.as_ptr().align_offset(ALIGNMENT);
        // Without an aligned offset a direct write fails, and the reader falls back to normal writes.
        Batch { start: if start < ALIGNMENT { start } else { 0 }, room, page, used: 0 }
    }

    fn is_full(&self) -> bool {
        self.start + self.used + self.page > self.room.len()
    }

    fn bytes(&self) -> &[u8] {
        &self.room[self.start..self.start + self.used]
    }

    /// Adds a page of the ring. Returns false if there is none.
    fn read(&mut self, ring: &mut impl Read) -> io::Result<bool> {
        let at = self.start + self.used;
        let page = &mut self.room[at..at + self.page];
        let length = loop {
            match ring.read(page) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break 0,
                result => break result?,
            }
        };
        // A partially filled page takes a whole page in the file.
        page[length..].fill(0);
        self.used += if length > 0 { self.page } else { 0 };
        Ok(length > 0)
    }
}

/// One CPU's reader.
struct Reader {
    ring: File,
    stats: File,
    shared: Arc<Shared>,
    batch: Batch,
    /// Whether writes bypass the page cache, whose pages the recording would contain.
    direct: bool,
    spool: Spool,
}

impl Reader {
    fn run(&mut self) {
        let buffer = self.shared.buffer_bytes;
        // The shortest time in which a quarter of the buffer fills.
        let quarter = Duration::from_nanos((buffer / 4).saturating_mul(1_000_000_000) / FILL_RATE);
        let early = quarter.clamp(Duration::from_millis(1), Duration::from_millis(250));
        // A timeout covers kernels that fail to wake a reader.
        let late = early.max(Duration::from_millis(20));
        let mut wait = late;
        let mut watch = true;
        loop {
            let mut fds = [
                PollFd::new(&self.shared.stop.0, PollFlags::IN),
                PollFd::new(&self.ring, if watch { PollFlags::IN } else { PollFlags::empty() }),
            ];
            let timeout = Timespec { tv_sec: wait.as_secs().cast_signed(), tv_nsec: wait.subsec_nanos().into() };
            let woken = match poll(&mut fds[..if watch { 2 } else { 1 }], Some(&timeout)) {
                Ok(ready) => ready > 0,
                Err(rustix::io::Errno::INTR) => continue,
                Err(_) => return,
            };
            if !fds[0].revents().is_empty() {
                return;
            }
            match self.fill_level() {
                // Events after a gap are useless; earlier events stay in the buffer.
                None => {
                    if self.shared.ends_when_full {
                        self.shared.full.raise();
                    }
                    return self.wait_for_stop();
                }
                Some(filled) if filled >= buffer / 8 * 3 => {
                    if let Err((error, lost_ns)) = self.move_half() {
                        self.spool.whole_until_ns = lost_ns.unwrap_or(self.spool.whole_until_ns);
                        self.spool.failed = Some(error);
                        self.shared.full.raise();
                        return self.wait_for_stop();
                    }
                    if self.shared.spooled.load(Ordering::Relaxed) >= self.shared.max_bytes {
                        self.shared.full.raise();
                    }
                    (watch, wait) = (true, late);
                }
                // Woken below half, so this kernel wakes a reader at the first event. Poll by time instead.
                Some(_) if woken => (watch, wait) = (false, early),
                Some(_) => {}
            }
        }
    }

    fn wait_for_stop(&self) {
        let mut fds = [PollFd::new(&self.shared.stop.0, PollFlags::IN)];
        while let Err(rustix::io::Errno::INTR) = poll(&mut fds, None) {}
    }

    /// Bytes in the buffer; `None` once it has refused an event.
    fn fill_level(&mut self) -> Option<u64> {
        let now = now_ns();
        let mut text = [0; 1024];
        let length = self.stats.read_at(&mut text, 0).ok()?;
        let stats = RingStats::parse(str::from_utf8(&text[..length]).ok()?);
        if stats.dropped > 0 {
            return None;
        }
        self.spool.whole_until_ns = now;
        Some(stats.bytes)
    }

    /// Moves half of the buffer to the file and leaves the page that the kernel writes to. An error also has the time
    /// of the first lost page.
    fn move_half(&mut self) -> Result<(), (io::Error, Option<u64>)> {
        let page = self.shared.layout.size as u64;
        let mut pages = (self.shared.buffer_bytes / 2 / page).max(1);
        while pages > 0 {
            self.batch.used = 0;
            let mut more = true;
            while more && pages > 0 && !self.batch.is_full() {
                more = self.batch.read(&mut self.ring).map_err(|error| (error, None))?;
                pages -= u64::from(more);
            }
            if let Err(error) = self.write_batch() {
                return Err((error, self.shared.layout.timestamp.read(self.batch.bytes())));
            }
            if !more {
                break;
            }
        }
        Ok(())
    }

    fn write_batch(&mut self) -> io::Result<()> {
        let bytes = self.batch.bytes();
        let mut result = self.spool.file.write_all_at(bytes, self.spool.bytes);
        if self.direct && result.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::InvalidInput) {
            // The file system accepts the flag but refuses the write.
            self.direct = false;
            rustix::fs::fcntl_setfl(&self.spool.file, OFlags::empty())?;
            result = self.spool.file.write_all_at(bytes, self.spool.bytes);
        }
        result?;
        self.spool.bytes += bytes.len() as u64;
        self.shared.spooled.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Ok(())
    }
}

/// A CPU's pages in order: first those in the file, then those in the ring buffer. Each read returns one page.
pub(super) struct Pages {
    spooled: Option<Spooled>,
    ring: File,
}

/// The pages in a file. What has been read leaves the disk, so that the recording can take its place.
struct Spooled {
    file: BufReader<File>,
    read: u64,
    freed: u64,
}

impl Spooled {
    fn read(&mut self, page: &mut [u8]) -> io::Result<usize> {
        let length = self.file.read(page)?;
        self.read += length as u64;
        if self.read - self.freed >= READ_BYTES as u64 {
            // A file system without holes keeps the pages until the end.
            let holes = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            let _ = fallocate(self.file.get_ref(), holes, self.freed, self.read - self.freed);
            self.freed = self.read;
        }
        Ok(length)
    }
}

impl Pages {
    /// The pages of a ring buffer that no reader read.
    pub(super) fn of_ring(ring: File) -> Pages {
        Pages { spooled: None, ring }
    }
}

impl Read for Pages {
    fn read(&mut self, page: &mut [u8]) -> io::Result<usize> {
        if let Some(spooled) = &mut self.spooled {
            // The buffer's capacity is whole pages, so no read returns part of a page.
            match spooled.read(page)? {
                0 => self.spooled = None,
                length => return Ok(length),
            }
        }
        self.ring.read(page)
    }
}

impl Spool {
    /// Whether the reader moved pages or failed.
    pub(super) fn is_used(&self) -> bool {
        self.bytes > 0 || self.failed.is_some()
    }

    /// The time before which no event is missing, if the buffer refused events or the file failed. Unit: ns.
    pub(super) fn whole_until_ns(&self) -> u64 {
        self.whole_until_ns
    }

    /// The error that ended writing to the file, if any.
    pub(super) fn failed(&self) -> Option<&io::Error> {
        self.failed.as_ref()
    }

    /// The moved pages, followed by those of `ring`.
    pub(super) fn pages(mut self, layout: &PageLayout, ring: File) -> io::Result<Pages> {
        let _ = rustix::fs::fcntl_setfl(&self.file, OFlags::empty());
        // Part of a failed batch may be in the file.
        self.file.set_len(self.bytes)?;
        self.file.rewind()?;
        let capacity = (READ_BYTES / layout.size).max(1) * layout.size;
        let file = BufReader::with_capacity(capacity, self.file);
        Ok(Pages { spooled: Some(Spooled { file, read: 0, freed: 0 }), ring })
    }
}
