//! Writing our own form.

use std::collections::HashSet;
use std::io::{self, Write};

use super::encode::{Encoder, refused};
use super::section::{Packer, SectionKind};
use super::{MAGIC, Totals, VERSION};
use crate::event::Event;
use crate::facts::{Facts, Loss};
use crate::limits::{self, TAG_ALLOWED};
use crate::snapshots::MAX_SNAPSHOT_BYTES;

/// How hard zstd tries. Measured on the recordings of `traces`: level 3 writes 10 to 18 million events/s into 2.4 to 3.6
/// bytes each; level 9 saves 3 to 6 % of that at a third of the speed.
const LEVEL: i32 = 3;

/// Bytes of snapshots gathered into one section, so that what is alike in them is stored once.
const SNAPSHOTS_TOGETHER: usize = 1 << 20;

/// Writes a recording: its facts, then the snapshots, then the events in the order of time, then its end.
///
/// A file whose writer was not [finished](Writer::finish) is told to be cut short by every reader. Memory: one section.
pub struct Writer<W: Write> {
    out: W,
    packer: Packer,
    /// Snapshots not yet written, in the form of a payload.
    snapshots: Vec<u8>,
    gathered: u32,
    snapshot_bytes: u64,
    tags: HashSet<String>,
    encoder: Encoder,
    raw: Vec<u8>,
    totals: Totals,
}

impl<W: Write> std::fmt::Debug for Writer<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").field("totals", &self.totals).finish_non_exhaustive()
    }
}

impl<W: Write> Writer<W> {
    /// Starts a recording on `out`, which needs no buffer of its own.
    ///
    /// # Errors
    ///
    /// Those of the output.
    pub fn create(mut out: W, facts: &Facts) -> io::Result<Self> {
        let mut header = MAGIC.to_vec();
        header.extend_from_slice(&VERSION.to_le_bytes());
        let crc = crc32fast::hash(&header);
        header.extend_from_slice(&crc.to_le_bytes());
        out.write_all(&header)?;
        let mut packer = Packer::new(LEVEL)?;
        packer.write(&mut out, SectionKind::Facts, 1, &serde_json::to_vec(facts)?)?;
        Ok(Writer {
            out,
            packer,
            snapshots: Vec::new(),
            gathered: 0,
            snapshot_bytes: 0,
            tags: HashSet::new(),
            encoder: Encoder::default(),
            raw: Vec::new(),
            totals: Totals::default(),
        })
    }

    /// Adds a snapshot: what `tag` says (`init0`, `mid0`, `fini0`, `buddyinfo.0`, …). All come before the first event.
    ///
    /// # Errors
    ///
    /// Those of the output; [`io::ErrorKind::InvalidInput`] for a snapshot after an event, a tag twice or not of 1 to 64
    /// visible ASCII characters, and more text than [`MAX_SNAPSHOT_BYTES`].
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
        if !self.snapshots.is_empty() && self.snapshots.len() + text.len() > SNAPSHOTS_TOGETHER {
            self.flush_snapshots()?;
        }
        self.snapshots.push(tag.len() as u8); // at most 64, as was checked
        self.snapshots.extend_from_slice(tag.as_bytes());
        self.snapshots.extend_from_slice(&(text.len() as u32).to_le_bytes());
        self.snapshots.extend_from_slice(text.as_bytes());
        self.gathered += 1;
        self.totals.snapshots += 1;
        Ok(())
    }

    /// Adds an event.
    ///
    /// # Errors
    ///
    /// Those of the output; [`io::ErrorKind::InvalidInput`] for a time before the last event's and for values beyond
    /// those of [`limits`]. The event is not added then.
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

    /// Says what was lost, where that is known only after the events; it takes the place of the facts' `loss`.
    pub fn set_loss(&mut self, loss: Vec<Loss>) {
        self.totals.loss = Some(loss);
    }

    /// Ends the recording and gives the output back, flushed.
    ///
    /// # Errors
    ///
    /// Those of the output.
    pub fn finish(mut self) -> io::Result<W> {
        self.flush_snapshots()?;
        self.flush_events()?;
        let totals = serde_json::to_vec(&self.totals)?;
        self.packer.write(&mut self.out, SectionKind::End, 1, &totals)?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn flush_snapshots(&mut self) -> io::Result<()> {
        if self.gathered > 0 {
            self.packer.write(&mut self.out, SectionKind::Snapshots, self.gathered, &self.snapshots)?;
            self.snapshots.clear();
            self.gathered = 0;
        }
        Ok(())
    }

    fn flush_events(&mut self) -> io::Result<()> {
        let events = self.encoder.events();
        if events > 0 {
            self.encoder.finish(&mut self.raw);
            self.packer.write(&mut self.out, SectionKind::Events, events, &self.raw)?;
        }
        Ok(())
    }
}
