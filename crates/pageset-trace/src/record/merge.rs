//! The events of all CPUs in one order of time, a page of each CPU in memory at once.

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

/// Reads a page of a ring buffer into `page`; it is empty at the end.
fn read_page(source: &mut impl Read, page: &mut Vec<u8>, size: usize) -> io::Result<()> {
    page.resize(size, 0);
    let length = loop {
        match source.read(page) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // An empty buffer does not end, it would block.
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

/// Copies a ring buffer that was full into `copy`, and returns the time from which on it may lack events.
///
/// That is the begin of its last page: an event that no longer fitted there may have been followed by a shorter one
/// that did. Nothing when the buffer is empty.
///
/// # Errors
///
/// Those of reading and writing; a page that makes no sense.
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
        // Reading back, too, goes by whole pages.
        page.resize(layout.size, 0);
        copy.write_all(&page)?;
    }
}

/// Reads one CPU's ring buffer page by page and hands out its events.
struct CpuStream<R> {
    cpu: CpuId,
    source: R,
    page: Vec<u8>,
    cursor: Option<Cursor>,
    missed_pages: u64,
    time_ns: u64,
    /// The next record.
    head: Option<Record>,
}

/// Counts of what a merge has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MergeCounts {
    /// Bytes of ring buffer pages read.
    pub raw_bytes: u64,
    /// Records that were none of a recording's events, or whose values were out of range.
    pub skipped: u64,
    /// Bulk allocations of which only the begin or only the end was recorded.
    pub unpaired: u64,
}

/// Merges the ring buffers of several CPUs, each given as a reader that returns one page a call, as `trace_pipe_raw`.
///
/// Events of the same nanosecond come in the order of the CPUs; events of one CPU stay in the order written.
pub struct Merge<R> {
    layout: PageLayout,
    decoder: Decoder,
    end_ns: u64,
    streams: Vec<CpuStream<R>>,
    /// The times of the streams' heads.
    heads: BinaryHeap<Reverse<(u64, usize)>>,
    pairing: Pairing,
    counts: MergeCounts,
}

impl<R: Read> Merge<R> {
    /// A merge of these CPUs' events before the time `end_ns`.
    ///
    /// # Errors
    ///
    /// When a first page cannot be read or makes no sense.
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

    /// The next event in time, or nothing at the end.
    ///
    /// # Errors
    ///
    /// When a page cannot be read or makes no sense; the error says which CPU's.
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

    /// What has been seen so far.
    #[must_use]
    pub fn counts(&self) -> MergeCounts {
        MergeCounts { unpaired: self.pairing.unpaired(), ..self.counts }
    }

    /// Pages so far that the kernel marked as missing events before them, in the order of the sources.
    pub fn missed_pages(&self) -> impl Iterator<Item = (CpuId, u64)> + '_ {
        self.streams.iter().map(|stream| (stream.cpu, stream.missed_pages))
    }

    /// Reads on in a stream until its next event or its end.
    fn advance(&mut self, index: usize) -> io::Result<()> {
        let stream = &mut self.streams[index];
        loop {
            if let Some(cursor) = &mut stream.cursor {
                while let Some((time_ns, data)) = cursor.next(&stream.page).map_err(damaged(stream.cpu))? {
                    // Only a fault of the clock would go backwards; the order written is the truth.
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
