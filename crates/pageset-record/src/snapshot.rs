//! Snapshots of `/proc`, read between two markers of the recording into preallocated memory.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use rustix::io::Errno;

use crate::error::RecordError;
use crate::proctext::{ProcText, room};

/// Time between two snapshots. Source: `trace-replay.md` 3 i and 4.
pub(super) const SNAPSHOT_INTERVAL: Duration = Duration::from_millis(100);

/// The buffer for snapshots of a small zoneinfo: 5 minutes of 10 snapshots a second of a small machine. Unit: bytes.
const BUFFER_BYTES: usize = 16 << 20;
/// The buffer for snapshots of a large zoneinfo: a minute of 10 snapshots a second. Unit: snapshots.
const BUFFER_SNAPSHOTS: usize = 600;
/// The largest buffer for snapshots, half of a recording's limit. On a machine for which a minute does not fit, the
/// interval grows towards the end. Unit: bytes.
const MAX_BUFFER_BYTES: usize = 128 << 20;

/// How often a marker is tried. A guess: NUMA balancing unmaps a page at most once a second.
const MARKER_TRIES: u32 = 10;

/// The text of one snapshot.
#[derive(Clone, Debug)]
struct Taken {
    tag: String,
    text: Range<usize>,
    /// The end of the read on the clock `mono`, in nanoseconds.
    end_ns: u64,
}

/// Takes zoneinfo snapshots during the recording. After its creation it allocates no memory and opens no file, because
/// the recording would contain both.
#[derive(Debug)]
pub(super) struct Snapshots {
    zoneinfo: ProcText,
    marker: File,
    room: Vec<u8>,
    used: usize,
    taken: Vec<Taken>,
    /// Takes one of every `stride` requested snapshots.
    stride: u32,
    requested: u32,
    next_mid: u32,
    line: String,
}

impl Snapshots {
    /// The tag prefix of snapshots during the recording, before their number.
    const MID: &str = "mid";

    /// Prepares snapshots whose markers are written to `trace_marker`.
    pub(super) fn new(trace_marker: &Path) -> Result<Self, RecordError> {
        let zoneinfo = ProcText::open("/proc/zoneinfo")?;
        let size = zoneinfo.length()?;
        let bytes = size.saturating_mul(BUFFER_SNAPSHOTS).clamp(BUFFER_BYTES, MAX_BUFFER_BYTES);
        let marker =
            OpenOptions::new().write(true).open(trace_marker).map_err(RecordError::on("open", trace_marker))?;
        Ok(Snapshots {
            zoneinfo,
            marker,
            room: room(bytes),
            used: 0,
            taken: Vec::with_capacity(bytes / size.max(1) + 16),
            stride: 1,
            requested: 0,
            next_mid: 0,
            line: String::with_capacity(64),
        })
    }

    /// Reads zoneinfo once without markers, so that the kernel allocates its buffer.
    pub(super) fn warm_up(&mut self) -> Result<(), RecordError> {
        let used = self.used;
        self.read_zoneinfo()?;
        self.used = used;
        Ok(())
    }

    /// Takes a snapshot under `tag`. Fails if it does not fit into the buffer.
    pub(super) fn take(&mut self, tag: std::fmt::Arguments<'_>) -> Result<(), RecordError> {
        self.mark("ZB", tag)?;
        let start = self.used;
        self.read_zoneinfo()?;
        self.mark("ZE", tag)?;
        self.taken.push(Taken { tag: tag.to_string(), text: start..self.used, end_ns: now_ns() });
        Ok(())
    }

    /// Writes a marker into the recording.
    fn mark(&mut self, word: &str, tag: std::fmt::Arguments<'_>) -> Result<(), RecordError> {
        use std::fmt::Write as _;
        let (line, marker) = (&mut self.line, &mut self.marker);
        let written = despite_faults(|| {
            line.clear();
            let _ = write!(line, "{word} {tag}");
            marker.write(line.as_bytes())
        });
        match written {
            // A full buffer refuses the marker; the recording ends before it.
            Err(error) if Errno::from_io_error(&error) == Some(Errno::BADF) => Ok(()),
            result => result.map(drop).map_err(|source| RecordError::io("write a marker into the recording", source)),
        }
    }

    /// Takes the next snapshot during the recording, if its turn has come.
    pub(super) fn take_mid(&mut self) -> Result<(), RecordError> {
        let wanted = self.requested.is_multiple_of(self.stride);
        self.requested = self.requested.wrapping_add(1);
        if !wanted {
            return Ok(());
        }
        // The buffer keeps room for the snapshots at the end.
        let largest = self.taken.iter().map(|taken| taken.text.len()).max().unwrap_or(0);
        if self.room.len() - self.used < 4 * largest {
            self.thin_out();
        }
        let number = self.next_mid;
        self.next_mid += 1;
        self.take(format_args!("{}{number}", Self::MID))
    }

    /// Drops every second snapshot of the recording so far, and halves the rate from now on.
    fn thin_out(&mut self) {
        let (mut used, mut mids) = (0, 0_u32);
        let room = &mut self.room;
        self.taken.retain_mut(|taken| {
            let keep = !taken.tag.starts_with(Self::MID) || {
                mids += 1;
                mids % 2 == 1
            };
            if keep {
                let length = taken.text.len();
                room.copy_within(taken.text.clone(), used);
                taken.text = used..used + length;
                used += length;
            }
            keep
        });
        self.used = used;
        self.stride = self.stride.saturating_mul(2);
    }

    fn read_zoneinfo(&mut self) -> Result<(), RecordError> {
        self.used += self.zoneinfo.read(&mut self.room[self.used..])?;
        Ok(())
    }

    /// Returns the snapshots in order and closes the files.
    pub(super) fn finish(self) -> Texts {
        Texts { room: self.room, taken: self.taken, interval_stride: self.stride }
    }
}

/// The time in nanoseconds on the clock of the trace clock `mono`.
pub(super) fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}

/// The snapshots of a finished recording.
#[derive(Debug)]
pub(super) struct Texts {
    room: Vec<u8>,
    taken: Vec<Taken>,
    /// 1, or 2, 4, … if the buffer was too small for all snapshots.
    pub(super) interval_stride: u32,
}

impl Texts {
    /// The tags and texts of the snapshots.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, std::borrow::Cow<'_, str>)> {
        self.taken.iter().map(|taken| (taken.tag.as_str(), String::from_utf8_lossy(&self.room[taken.text.clone()])))
    }

    /// Whether the snapshot `tag` was kept.
    pub(super) fn has(&self, tag: &str) -> bool {
        self.taken.iter().any(|taken| taken.tag == tag)
    }

    /// Drops the snapshots that ended at `end_ns` or later.
    pub(super) fn cut(&mut self, end_ns: u64) {
        self.taken.retain(|taken| taken.end_ns < end_ns);
    }
}

/// Writes a text to `trace_marker`, whose page the writer has just touched. The kernel copies the text without page faults: NUMA balancing
/// or reclaim may have unmapped the page since. The next try maps it again. The event of a failed try has another text.
fn despite_faults(mut write: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    for _ in 1..MARKER_TRIES {
        let result = write();
        if !result.as_ref().is_err_and(|error| Errno::from_io_error(error) == Some(Errno::FAULT)) {
            return result;
        }
    }
    write()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_marker_is_written_despite_faults() {
        let tries = |faults: u32, then: Errno| {
            let mut tries = 0;
            let result = despite_faults(|| {
                tries += 1;
                if tries <= faults {
                    Err(Errno::FAULT.into())
                } else if then == Errno::FAULT {
                    Ok(7)
                } else {
                    Err(then.into())
                }
            });
            (tries, result.map_err(|error| Errno::from_io_error(&error)))
        };
        assert_eq!(tries(0, Errno::FAULT), (1, Ok(7)));
        assert_eq!(tries(3, Errno::FAULT), (4, Ok(7)));
        assert_eq!(tries(0, Errno::BADF), (1, Err(Some(Errno::BADF))));
        assert_eq!(tries(99, Errno::FAULT), (MARKER_TRIES, Err(Some(Errno::FAULT))));
    }

    /// Snapshots with a small buffer, and a file in place of `trace_marker`.
    fn small(name: &str) -> (Snapshots, std::path::PathBuf) {
        let marker = std::env::temp_dir().join(format!("pageset-{name}-{}", std::process::id()));
        fs::write(&marker, "").unwrap();
        let mut snapshots = Snapshots::new(&marker).unwrap();
        let size = fs::read("/proc/zoneinfo").unwrap().len();
        snapshots.room.truncate(size * 12);
        (snapshots, marker)
    }

    #[test]
    fn a_long_recording_keeps_its_ends_and_thins_its_middle() {
        let (mut snapshots, marker) = small("thin");
        snapshots.warm_up().unwrap();
        for number in 0..3 {
            snapshots.take(format_args!("init{number}")).unwrap();
        }
        for _ in 0..100 {
            snapshots.take_mid().unwrap();
        }
        snapshots.take(format_args!("fini0")).unwrap();
        snapshots.take(format_args!("fini1")).unwrap();
        let texts = snapshots.finish();
        assert!(texts.interval_stride > 1);
        let tags: Vec<&str> = texts.iter().map(|(tag, _)| tag).collect();
        assert_eq!(tags[..4], ["init0", "init1", "init2", "mid0"]);
        assert_eq!(tags[tags.len() - 2..], ["fini0", "fini1"]);
        assert!(texts.iter().all(|(_, text)| text.starts_with("Node 0")), "a moved text is damaged");
        assert!(texts.has("mid0") && !texts.has("mid1"));
        let mut cut = texts;
        cut.cut(cut.taken[3].end_ns);
        assert!(cut.has("init2") && !cut.has("mid0") && !cut.has("fini0"));
        assert!(fs::read_to_string(&marker).unwrap().starts_with("ZB init0ZE init0ZB init1"));
        fs::remove_file(marker).unwrap();
    }
}
