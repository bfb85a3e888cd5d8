//! Merges the events of all CPUs by time, with one page per CPU in memory.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, Read, Seek as _, Write as _};

use pageset::CpuId;

use super::bulk::Pairing;
use super::decode::{Decoder, Record};
use super::format::PageLayout;
use super::ring::Cursor;
use crate::event::Event;

/// Reads a page of a ring buffer into `page`; an empty page marks the end.
fn read_page(source: &mut impl Read, page: &mut Vec<u8>, size: usize) -> io::Result<()> {
    page.resize(size, 0);
    let length = loop {
        match source.read(page) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // An empty ring buffer has no end of file: a read would block.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break 0,
            result => break result?,
        }
    };
    page.truncate(length);
    Ok(())
}

fn damaged(cpu: CpuId) -> impl Fn(super::ring::RingError) -> io::Error {
    move |error| io::Error::new(io::ErrorKind::InvalidData, format!("{cpu}: {error}"))
}

/// Copies a ring buffer that was full into `copy`. Returns the time in nanoseconds from which events may be missing.
///
/// That is the begin of its last page: an event that did not fit there may have been followed by a shorter one that
/// did. `None` if the buffer is empty.
///
/// # Errors
///
/// If reading or writing fails, or a page is damaged.
pub fn copy_full(layout: &PageLayout, cpu: CpuId, mut source: impl Read, copy: &mut File) -> io::Result<Option<u64>> {
    let mut page = Vec::new();
    let mut last_ns = None;
    loop {
        read_page(&mut source, &mut page, layout.size)?;
        if page.is_empty() {
            copy.rewind()?;
            return Ok(last_ns);
        }
        last_ns = Some(Cursor::new(layout, &page).map_err(damaged(cpu))?.time_ns());
        // The copy is read back in whole pages.
        page.resize(layout.size, 0);
        copy.write_all(&page)?;
    }
}

/// Reads one CPU's ring buffer page by page and returns its events.
struct CpuStream<R> {
    cpu: CpuId,
    source: R,
    page: Vec<u8>,
    cursor: Option<Cursor>,
    missed_pages: u64,
    time_ns: u64,
    head: Option<Record>,
}

/// Counts of a merge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MergeCounts {
    /// Bytes of ring buffer pages read.
    pub raw_bytes: u64,
    /// Records of other events or with values out of range.
    pub skipped: u64,
    /// Bulk allocations with only a begin or only an end in the recording.
    pub unpaired: u64,
}

/// Merges the ring buffers of several CPUs. Each source returns one page per read, like `trace_pipe_raw`.
///
/// Events of the same nanosecond are ordered by CPU; events of one CPU keep their order.
pub struct Merge<R> {
    layout: PageLayout,
    decoder: Decoder,
    end_ns: u64,
    streams: Vec<CpuStream<R>>,
    /// The times of the streams' next records.
    heads: BinaryHeap<Reverse<(u64, usize)>>,
    pairing: Pairing,
    counts: MergeCounts,
}

impl<R: Read> Merge<R> {
    /// Merges these CPUs' events before the time `end_ns`.
    ///
    /// # Errors
    ///
    /// If a first page cannot be read or is damaged.
    pub fn new(
        layout: PageLayout,
        decoder: Decoder,
        end_ns: u64,
        sources: impl IntoIterator<Item = (CpuId, R)>,
    ) -> io::Result<Self> {
        let counts = MergeCounts::default();
        let (streams, heads, pairing) = (Vec::new(), BinaryHeap::new(), Pairing::default());
        let mut merge = Merge { layout, decoder, end_ns, streams, heads, pairing, counts };
        for (cpu, source) in sources {
            let page = Vec::new();
            merge.streams.push(CpuStream { cpu, source, page, cursor: None, missed_pages: 0, time_ns: 0, head: None });
            merge.advance(merge.streams.len() - 1)?;
        }
        Ok(merge)
    }

    /// The next event by time, or `None` at the end.
    ///
    /// # Errors
    ///
    /// If a page cannot be read or is damaged; the error names the CPU.
    pub fn next_event(&mut self) -> io::Result<Option<Event>> {
        while let Some(Reverse((time_ns, index))) = self.heads.pop() {
            if time_ns >= self.end_ns {
                self.heads.clear();
                break;
            }
            let record = self.streams[index].head.take();
            self.advance(index)?;
            if let Some(event) = record.and_then(|record| self.pairing.event(record)) {
                return Ok(Some(event));
            }
        }
        Ok(None)
    }

    /// The counts so far.
    pub fn counts(&self) -> MergeCounts {
        MergeCounts { unpaired: self.pairing.unpaired(), ..self.counts }
    }

    /// The number of pages so far that the kernel marked as missing events before them, by source.
    pub fn missed_pages(&self) -> impl Iterator<Item = (CpuId, u64)> + '_ {
        self.streams.iter().map(|stream| (stream.cpu, stream.missed_pages))
    }

    /// Reads a stream up to its next event or its end.
    fn advance(&mut self, index: usize) -> io::Result<()> {
        let stream = &mut self.streams[index];
        loop {
            if let Some(cursor) = &mut stream.cursor {
                while let Some((time_ns, data)) = cursor.next(&stream.page).map_err(damaged(stream.cpu))? {
                    // Only a faulty clock goes backwards; the written order is correct.
                    stream.time_ns = stream.time_ns.max(time_ns);
                    match self.decoder.record(stream.time_ns, stream.cpu, &stream.page[data]) {
                        Some(record) => {
                            self.heads.push(Reverse((record.time_ns, index)));
                            stream.head = Some(record);
                            return Ok(());
                        }
                        None => self.counts.skipped += 1,
                    }
                }
            }
            stream.cursor = None;
            read_page(&mut stream.source, &mut stream.page, self.layout.size)?;
            if stream.page.is_empty() {
                return Ok(());
            }
            self.counts.raw_bytes += stream.page.len() as u64;
            let cursor = Cursor::new(&self.layout, &stream.page).map_err(damaged(stream.cpu))?;
            stream.missed_pages += u64::from(cursor.missed());
            stream.cursor = Some(cursor);
        }
    }
}
