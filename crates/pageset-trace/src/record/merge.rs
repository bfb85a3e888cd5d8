//! The events of all CPUs in one order of time, a page of each CPU in memory at once.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, Read};

use pageset::CpuId;

use super::decode::Decoder;
use super::format::PageLayout;
use super::ring::Cursor;
use crate::event::Event;

/// Reads one CPU's ring buffer page by page and hands out its events.
struct CpuStream<R> {
    cpu: CpuId,
    source: R,
    page: Vec<u8>,
    cursor: Option<Cursor>,
    /// The page after `page`, read ahead: only so is it known which page is the last.
    ahead: Vec<u8>,
    /// The last page holds events from after the first that was dropped, so it does not count.
    distrust_last: bool,
    time_ns: u64,
}

impl<R: Read> CpuStream<R> {
    /// Reads a page into `ahead`; it stays empty at the end.
    fn read_ahead(&mut self, size: usize) -> io::Result<()> {
        self.ahead.resize(size, 0);
        let length = loop {
            match self.source.read(&mut self.ahead) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // An empty buffer does not end, it would block; a CPU that is offline has none.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break 0,
                result => break result?,
            }
        };
        self.ahead.truncate(length);
        Ok(())
    }
}

/// Counts of what a merge has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MergeCounts {
    /// Bytes of ring buffer pages read.
    pub raw_bytes: u64,
    /// Records that were none of a recording's events, or whose values were out of range.
    pub skipped: u64,
    /// The CPU whose full buffer ended the recording before its time.
    pub cut_by: Option<CpuId>,
}

/// Merges the ring buffers of several CPUs, each given as a reader that returns one page a call, as `trace_pipe_raw`.
///
/// Events of the same nanosecond come in the order of the CPUs; events of one CPU stay in the order written.
pub struct Merge<R> {
    layout: PageLayout,
    decoder: Decoder,
    streams: Vec<CpuStream<R>>,
    /// The next event of each stream that has one.
    heads: BinaryHeap<Reverse<(u64, usize)>>,
    pending: Vec<Option<Event>>,
    missed_pages: Vec<u64>,
    counts: MergeCounts,
    cut: bool,
}

impl<R: Read> Merge<R> {
    /// A merge of these CPUs. `full` says of each whether its buffer had no room for further events: then the
    /// recording is whole only up to the end of that buffer, and the merge ends there for all CPUs.
    ///
    /// # Errors
    ///
    /// When a first page cannot be read or makes no sense.
    pub fn new(
        layout: PageLayout,
        decoder: Decoder,
        sources: impl IntoIterator<Item = (CpuId, R, bool)>,
    ) -> io::Result<Self> {
        let mut merge = Merge {
            layout,
            decoder,
            streams: Vec::new(),
            heads: BinaryHeap::new(),
            pending: Vec::new(),
            missed_pages: Vec::new(),
            counts: MergeCounts::default(),
            cut: false,
        };
        for (cpu, source, full) in sources {
            let (page, ahead) = (Vec::new(), Vec::new());
            let mut stream = CpuStream { cpu, source, page, cursor: None, ahead, distrust_last: full, time_ns: 0 };
            stream.read_ahead(layout.size)?;
            merge.streams.push(stream);
            merge.pending.push(None);
            merge.missed_pages.push(0);
            merge.advance(merge.streams.len() - 1)?;
        }
        Ok(merge)
    }

    /// The next event in time, or nothing at the end.
    ///
    /// # Errors
    ///
    /// When a page cannot be read or makes no sense; the error says which CPU's.
    pub fn next_event(&mut self) -> io::Result<Option<Event>> {
        if self.cut {
            return Ok(None);
        }
        let Some(Reverse((_, index))) = self.heads.pop() else { return Ok(None) };
        let event = self.pending[index].take();
        self.advance(index)?;
        Ok(event)
    }

    /// What has been seen so far.
    #[must_use]
    pub fn counts(&self) -> MergeCounts {
        self.counts
    }

    /// Pages so far that the kernel marked as missing events before them, in the order of the sources.
    pub fn missed_pages(&self) -> impl Iterator<Item = (CpuId, u64)> + '_ {
        self.streams.iter().map(|stream| stream.cpu).zip(self.missed_pages.iter().copied())
    }

    /// Reads on in a stream until its next event or its end.
    fn advance(&mut self, index: usize) -> io::Result<()> {
        let stream = &mut self.streams[index];
        let damaged = |cpu: CpuId, error| io::Error::new(io::ErrorKind::InvalidData, format!("{cpu}: {error}"));
        loop {
            if let Some(cursor) = &mut stream.cursor {
                while let Some((time_ns, data)) = cursor.next(&stream.page).map_err(|e| damaged(stream.cpu, e))? {
                    // Only a fault of the clock would go backwards; the order written is the truth.
                    stream.time_ns = stream.time_ns.max(time_ns);
                    match self.decoder.decode(stream.time_ns, stream.cpu, &stream.page[data]) {
                        Some(event) => {
                            self.heads.push(Reverse((event.time_ns, index)));
                            self.pending[index] = Some(event);
                            return Ok(());
                        }
                        None => self.counts.skipped += 1,
                    }
                }
            }
            stream.cursor = None;
            if stream.ahead.is_empty() {
                return Ok(());
            }
            std::mem::swap(&mut stream.page, &mut stream.ahead);
            self.counts.raw_bytes += stream.page.len() as u64;
            stream.read_ahead(self.layout.size)?;
            if stream.ahead.is_empty() && stream.distrust_last {
                self.cut = true;
                self.counts.cut_by = Some(stream.cpu);
                return Ok(());
            }
            let cursor = Cursor::new(&self.layout, &stream.page).map_err(|e| damaged(stream.cpu, e))?;
            self.missed_pages[index] += u64::from(cursor.missed());
            stream.cursor = Some(cursor);
        }
    }
}
