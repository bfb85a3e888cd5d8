//! Writes the project's own form.

use std::collections::HashSet;
use std::io::{self, Write};

use super::encode::{Encoder, refused};
use super::section::{Packer, SectionKind};
use super::{MAGIC, Totals, VERSION};
use crate::event::Event;
use crate::facts::{Facts, Loss};
use crate::limits::{self, TAG_ALLOWED};
use crate::snapshots::MAX_SNAPSHOT_BYTES;

/// The compression level of zstd. Measured on the recordings of `traces`: level 3 writes 10 to 18 million events/s in
/// 2.4 to 3.6 bytes each; level 9 saves 3 to 6 % of that at a third of the speed.
const LEVEL: i32 = 3;

/// The size of snapshots in one section, in bytes, so that zstd stores their common parts once.
const SNAPSHOT_SECTION_BYTES: usize = 1 << 20;

/// Writes a recording: its facts, the snapshots, the events in the order of time, and its end.
///
/// Readers report a file as truncated if its writer was not [finished](Writer::finish). Memory: one section.
pub struct Writer<W: Write> {
    out: W,
    packer: Packer,
    /// Snapshots not yet written, in the form of a payload.
    snapshots: Vec<u8>,
    pending: u32,
    snapshot_bytes: u64,
    tags: HashSet<String>,
    encoder: Encoder,
    raw: Vec<u8>,
    totals: Totals,
    /// The whole sections so far: their end in the output in bytes, and their totals.
    whole: (u64, Totals),
}

impl<W: Write> std::fmt::Debug for Writer<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").field("totals", &self.totals).finish_non_exhaustive()
    }
}

impl<W: Write> Writer<W> {
    /// Starts a recording on `out`, which needs no buffer.
    pub fn create(mut out: W, facts: &Facts) -> io::Result<Self> {
        let mut header = MAGIC.to_vec();
        header.extend_from_slice(&VERSION.to_le_bytes());
        let crc = crc32fast::hash(&header);
        header.extend_from_slice(&crc.to_le_bytes());
        out.write_all(&header)?;
        let mut packer = Packer::new(LEVEL)?;
        let bytes = packer.write(&mut out, SectionKind::Facts, 1, &serde_json::to_vec(facts)?)?;
        Ok(Writer {
            out,
            packer,
            snapshots: Vec::new(),
            pending: 0,
            snapshot_bytes: 0,
            tags: HashSet::new(),
            encoder: Encoder::default(),
            raw: Vec::new(),
            totals: Totals::default(),
            whole: (header.len() as u64 + bytes, Totals::default()),
        })
    }

    /// Adds a snapshot of the kind in `tag` (`init0`, `mid0`, `fini0`, `buddyinfo.0`, …). All snapshots come before the
    /// first event.
    ///
    /// # Errors
    ///
    /// If the output fails; [`io::ErrorKind::InvalidInput`] for a snapshot after an event, a repeated tag, a tag that
    /// is not 1 to 64 visible ASCII characters, and more text than [`MAX_SNAPSHOT_BYTES`].
    pub fn snapshot_text(&mut self, tag: &str, text: &str) -> io::Result<()> {
        let invalid = |what: String| Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        if self.totals.events > 0 {
            return invalid(format!("the snapshot {tag} comes after the first event"));
        }
        if limits::tag(tag.as_bytes()).is_none() {
            return Err(refused("tag", format_args!("{tag:?}"), TAG_ALLOWED));
        }
        self.snapshot_bytes += text.len() as u64;
        if self.snapshot_bytes > MAX_SNAPSHOT_BYTES {
            return invalid(format!("more than {MAX_SNAPSHOT_BYTES} bytes of snapshots"));
        }
        if !self.tags.insert(tag.to_owned()) {
            return invalid(format!("two snapshots of the tag {tag}"));
        }
        if !self.snapshots.is_empty() && self.snapshots.len() + text.len() > SNAPSHOT_SECTION_BYTES {
            self.flush_snapshots()?;
        }
        self.snapshots.push(tag.len() as u8); // at most 64, as checked above
        self.snapshots.extend_from_slice(tag.as_bytes());
        self.snapshots.extend_from_slice(&(text.len() as u32).to_le_bytes());
        self.snapshots.extend_from_slice(text.as_bytes());
        self.pending += 1;
        self.totals.snapshots += 1;
        Ok(())
    }

    /// Adds an event.
    ///
    /// # Errors
    ///
    /// If the output fails; [`io::ErrorKind::InvalidInput`] for a time before the last event's and for values beyond
    /// [`limits`]. The event is then not added.
    pub fn event(&mut self, event: &Event) -> io::Result<()> {
        if self.totals.events == 0 {
            self.flush_snapshots()?;
        } else if event.time_ns < self.totals.last_ns {
            let what = format!("time goes back from {} to {} ns", self.totals.last_ns, event.time_ns);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        self.encoder.event(event)?;
        if self.totals.events == 0 {
            self.totals.first_ns = event.time_ns;
        }
        self.totals.last_ns = event.time_ns;
        self.totals.events += 1;
        if self.encoder.is_full() {
            self.flush_events()?;
        }
        Ok(())
    }

    /// Sets the lost events, if they are known only after the events; they replace the facts' `loss`.
    pub fn set_loss(&mut self, loss: Vec<Loss>) {
        self.totals.loss = Some(loss);
    }

    /// The output.
    pub fn output(&mut self) -> &mut W {
        &mut self.out
    }

    /// Writes the events so far as a section. No snapshot or event needs to follow.
    pub fn flush(&mut self) -> io::Result<()> {
        self.flush_snapshots()?;
        self.flush_events()
    }

    /// Gives up what is not in a whole section, after the output failed. Returns the length in bytes to which the caller
    /// shortens the output, and the totals of the recording up to there, which [`Writer::finish`] then ends.
    pub fn keep_whole_sections(&mut self) -> (u64, &Totals) {
        self.snapshots.clear();
        self.pending = 0;
        self.encoder = Encoder::default();
        self.totals = Totals { loss: self.totals.loss.take(), ..self.whole.1.clone() };
        (self.whole.0, &self.totals)
    }

    /// Ends the recording and returns the flushed output.
    pub fn finish(mut self) -> io::Result<W> {
        self.flush()?;
        let totals = serde_json::to_vec(&self.totals)?;
        self.packer.write(&mut self.out, SectionKind::End, 1, &totals)?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn flush_snapshots(&mut self) -> io::Result<()> {
        if self.pending > 0 {
            let bytes = self.packer.write(&mut self.out, SectionKind::Snapshots, self.pending, &self.snapshots)?;
            self.whole.0 += bytes;
            self.whole.1.snapshots += u64::from(self.pending);
            self.snapshots.clear();
            self.pending = 0;
        }
        Ok(())
    }

    fn flush_events(&mut self) -> io::Result<()> {
        let events = self.encoder.events();
        if events > 0 {
            self.encoder.finish(&mut self.raw);
            let bytes = self.packer.write(&mut self.out, SectionKind::Events, events, &self.raw)?;
            self.whole = (self.whole.0 + bytes, self.totals.clone());
        }
        Ok(())
    }
}
