//! Reading the ring buffers while the recording goes on: one thread for each CPU, which sleeps until its buffer is half
//! full and then moves that half to a file.
//!
//! A recording that fits into half of its buffers is not disturbed: nothing is read before its end. The files have no
//! name, so that nothing of them is left when the recorder is killed.

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
use rustix::fs::OFlags;

use super::error::RecordError;
use super::format::PageLayout;
use super::setup::RingStats;
use super::snapshot::now_ns;
use super::tracefs::Instance;

/// Bytes written to a file at once, at most. The half of a buffer that is smaller is taken out before any of it is
/// written, so that the disk has the time in which the whole buffer fills again.
const BATCH: usize = 8 << 20;

/// Bytes read back from a file at once. A guess.
const READ_BACK: usize = 1 << 20;

/// What direct input and output is aligned to. Source: the largest block of a disk, and a page.
const ALIGNMENT: usize = 4096;

/// Bytes of ring buffer that a CPU fills in a second, at most: several times the busiest traffic known. A guess that
/// only decides how often a kernel is asked that does not wake a reader at half.
const FILL_RATE: u64 = 200 << 20;

/// Above the processes that are recorded: a reader that has to wait for them comes too late. Unit: nice.
const PRIORITY: i32 = -10;

/// What the reader of one CPU has moved to its file.
#[derive(Debug)]
pub(super) struct Spool {
    pub(super) cpu: u32,
    /// Whole pages of the ring buffer, from the first on.
    file: File,
    /// Bytes in the file.
    bytes: u64,
    /// Until when, on the trace clock, the kernel is known to have refused no event.
    whole_until_ns: u64,
    /// Why the file could not be written on.
    failed: Option<io::Error>,
}

/// Tells threads something once, and for good. A file descriptor, so that one can wait for it.
#[derive(Debug)]
struct Flag(OwnedFd);

impl Flag {
    fn new() -> io::Result<Flag> {
        Ok(Flag(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    fn raise(&self) {
        // It cannot be full, and there is nobody to tell.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    fn is_raised(&self) -> bool {
        let mut fds = [PollFd::new(&self.0, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ready| ready > 0)
    }
}

/// What all readers share.
#[derive(Debug)]
struct Shared {
    layout: PageLayout,
    buffer_bytes: u64,
    /// Bytes in the files of all CPUs together.
    spooled: AtomicU64,
    max_bytes: u64,
    /// Whether a buffer that refuses events ends the recording, since only its own size or a signal would.
    ends_when_full: bool,
    /// The recording has ended.
    stop: Flag,
    /// The files have reached their limit, one cannot be written, or a buffer has refused events.
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
    /// Starts a reader for each CPU, before the recording. Their files lie in `folder` and together get no larger than
    /// `max_bytes`. With `ends_when_full` the recording should end when a buffer refuses events.
    pub(super) fn start(
        instance: &Instance,
        layout: PageLayout,
        buffer_bytes: u64,
        max_bytes: Option<u64>,
        ends_when_full: bool,
        folder: &Path,
    ) -> Result<Readers, RecordError> {
        let failed = |source| RecordError::io("start the readers of the ring buffers", source);
        // The kernel's own default; kernels that cannot wait for a part of the buffer do not have it.
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
            let file = tempfile::tempfile_in(folder).map_err(RecordError::on("make a file in", folder))?;
            let mut reader = Reader {
                ring: open_ring(instance, cpu)?,
                stats: open(&instance.path(&format!("per_cpu/cpu{cpu}/stats")))?,
                shared: Arc::clone(&readers.shared),
                batch: Batch::new(layout.size, usize::try_from(buffer_bytes / 2).unwrap_or(BATCH).min(BATCH)),
                direct: rustix::fs::fcntl_setfl(&file, OFlags::DIRECT).is_ok(),
                spool: Spool { cpu, file, bytes: 0, whole_until_ns: now_ns(), failed: None },
            };
            let sender = sender.clone();
            let thread = thread::Builder::new().name(format!("pageset-cpu{cpu}")).spawn(move || {
                // Without the right to, it reads with the priority that it has.
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

    /// The readers' threads, as the events name them.
    pub(super) fn tids(&self) -> &[u32] {
        &self.tids
    }

    /// Whether the recording should end because of the files or of a full buffer.
    pub(super) fn is_full(&self) -> bool {
        self.shared.full.is_raised()
    }

    /// Ends the readers. What they have not read is still in the ring buffers.
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
        // An instance cannot be removed as long as its files are open.
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn open(path: &Path) -> Result<File, RecordError> {
    File::open(path).map_err(RecordError::on("open", path))
}

/// A CPU's ring buffer: each read gives one page, and takes it out.
pub(super) fn open_ring(instance: &Instance, cpu: u32) -> Result<File, RecordError> {
    let path = instance.path(&format!("per_cpu/cpu{cpu}/trace_pipe_raw"));
    let nonblocking = OFlags::NONBLOCK.bits().cast_signed();
    OpenOptions::new().read(true).custom_flags(nonblocking).open(&path).map_err(RecordError::on("open", &path))
}

/// Room for pages, aligned for direct writing.
struct Batch {
    room: Vec<u8>,
    start: usize,
    page: usize,
    used: usize,
}

impl Batch {
    fn new(page: usize, bytes: usize) -> Batch {
        let bytes = (bytes / page).max(1) * page;
        // Written to, so that it is there before the recording begins.
        let room = vec![1; bytes + ALIGNMENT];
        let start = room.as_ptr().align_offset(ALIGNMENT);
        // Without an offset there is no alignment, and a direct write fails: then it is done the other way.
        Batch { start: if start < ALIGNMENT { start } else { 0 }, room, page, used: 0 }
    }

    fn is_full(&self) -> bool {
        self.start + self.used + self.page > self.room.len()
    }

    fn bytes(&self) -> &[u8] {
        &self.room[self.start..self.start + self.used]
    }

    /// Adds a page of the ring. False when there is none.
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
        // A page that was read short is whole in the file.
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
    /// Past the page cache, whose pages would be a part of what is recorded.
    direct: bool,
    spool: Spool,
}

impl Reader {
    fn run(&mut self) {
        let buffer = self.shared.buffer_bytes;
        // The time in which a quarter of the buffer fills.
        let quarter = Duration::from_nanos((buffer / 4).saturating_mul(1_000_000_000) / FILL_RATE);
        let early = quarter.clamp(Duration::from_millis(1), Duration::from_millis(250));
        // A kernel that forgets to wake a reader is asked now and then.
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
            match self.look() {
                // Refused events leave a gap after which nothing is worth reading; what is there stays.
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
                // Woken for less than half: this kernel wakes at the first event. It is asked by time then.
                Some(_) if woken => (watch, wait) = (false, early),
                Some(_) => {}
            }
        }
    }

    fn wait_for_stop(&self) {
        let mut fds = [PollFd::new(&self.shared.stop.0, PollFlags::IN)];
        while let Err(rustix::io::Errno::INTR) = poll(&mut fds, None) {}
    }

    /// Bytes in the buffer; nothing once it has refused an event.
    fn look(&mut self) -> Option<u64> {
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

    /// Moves half a buffer to the file, so that the page that is written to is left alone. On an error also returns the
    /// time of the first page that is lost.
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
            // The file system takes the flag and refuses the write.
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

/// A CPU's pages in their order: those in the file, then those still in the ring buffer. Each read gives one page.
pub(super) struct Pages {
    spooled: Option<BufReader<File>>,
    ring: File,
}

impl Pages {
    /// Pages of a ring buffer of which nothing was moved.
    pub(super) fn of_ring(ring: File) -> Pages {
        Pages { spooled: None, ring }
    }
}

impl Read for Pages {
    fn read(&mut self, page: &mut [u8]) -> io::Result<usize> {
        if let Some(spooled) = &mut self.spooled {
            // The buffer holds whole pages, so that none is read in part.
            match spooled.read(page)? {
                0 => self.spooled = None,
                length => return Ok(length),
            }
        }
        self.ring.read(page)
    }
}

impl Spool {
    /// Whether anything was moved.
    pub(super) fn is_used(&self) -> bool {
        self.bytes > 0 || self.failed.is_some()
    }

    /// The time before which nothing is missing of a buffer that refused events or whose file failed.
    pub(super) fn whole_until_ns(&self) -> u64 {
        self.whole_until_ns
    }

    /// Why the file could not be written on.
    pub(super) fn failed(&self) -> Option<&io::Error> {
        self.failed.as_ref()
    }

    /// The pages that were moved, and those of `ring` after them.
    pub(super) fn pages(mut self, layout: &PageLayout, ring: File) -> io::Result<Pages> {
        let _ = rustix::fs::fcntl_setfl(&self.file, OFlags::empty());
        // A batch that failed may be there in part.
        self.file.set_len(self.bytes)?;
        self.file.rewind()?;
        let capacity = (READ_BACK / layout.size).max(1) * layout.size;
        Ok(Pages { spooled: Some(BufReader::with_capacity(capacity, self.file)), ring })
    }
}
