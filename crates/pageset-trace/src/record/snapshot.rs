//! Snapshots of `/proc`, read between two markers of the recording into memory that is there beforehand.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use super::error::RecordError;
use super::proctext::{ProcText, room};

/// Time between two snapshots. Source: `trace-replay.md` 3 i and 4.
pub(super) const SNAPSHOT_INTERVAL: Duration = Duration::from_millis(100);

/// Room for snapshots, in bytes, where zoneinfo is small: 5 minutes of 10 a second of a small machine.
const ROOM: usize = 16 << 20;
/// Room in snapshots where zoneinfo is large: a minute of 10 a second.
const ROOM_SNAPSHOTS: usize = 600;
/// The most room, in bytes, half of what a recording may hold: a machine so large that a minute does not fit reads less
/// often towards the end.
const MAX_ROOM: usize = 128 << 20;

/// The text of one snapshot.
#[derive(Clone, Debug)]
struct Taken {
    tag: String,
    text: Range<usize>,
    /// When it was there, on the clock `mono`.
    end_ns: u64,
}

/// Takes zoneinfo snapshots while recording. It asks for no memory and opens no file after it is made, since both
/// would show in the recording.
#[derive(Debug)]
pub(super) struct Snapshots {
    zoneinfo: ProcText,
    marker: File,
    room: Vec<u8>,
    used: usize,
    taken: Vec<Taken>,
    /// Take every so many of the snapshots asked for.
    stride: u32,
    asked: u32,
    next_mid: u32,
    line: String,
}

impl Snapshots {
    /// The tag of the snapshots taken meanwhile, before their number.
    const MID: &str = "mid";

    /// Snapshots whose markers go to `trace_marker`.
    pub(super) fn new(trace_marker: &Path) -> Result<Self, RecordError> {
        let zoneinfo = ProcText::open("/proc/zoneinfo")?;
        let size = zoneinfo.length()?;
        let bytes = size.saturating_mul(ROOM_SNAPSHOTS).clamp(ROOM, MAX_ROOM);
        let marker =
            OpenOptions::new().write(true).open(trace_marker).map_err(RecordError::on("open", trace_marker))?;
        Ok(Snapshots {
            zoneinfo,
            marker,
            room: room(bytes),
            used: 0,
            taken: Vec::with_capacity(bytes / size.max(1) + 16),
            stride: 1,
            asked: 0,
            next_mid: 0,
            line: String::with_capacity(64),
        })
    }

    /// Reads zoneinfo once, without markers, so that the kernel has its buffer for it.
    pub(super) fn warm_up(&mut self) -> Result<(), RecordError> {
        let used = self.used;
        self.read_zoneinfo()?;
        self.used = used;
        Ok(())
    }

    /// A snapshot under `tag`. One that does not fit is left out, markers and all.
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
        self.line.clear();
        let _ = write!(self.line, "{word} {tag}");
        match self.marker.write(self.line.as_bytes()) {
            // A full buffer refuses it; the recording ends before.
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::BADF.raw_os_error()) => Ok(()),
            result => result.map(drop).map_err(|source| RecordError::io("write a marker into the recording", source)),
        }
    }

    /// The next of the snapshots taken meanwhile.
    pub(super) fn take_mid(&mut self) -> Result<(), RecordError> {
        let wanted = self.asked.is_multiple_of(self.stride);
        self.asked = self.asked.wrapping_add(1);
        if !wanted {
            return Ok(());
        }
        // Two largest ones of room are kept for the end.
        let largest = self.taken.iter().map(|taken| taken.text.len()).max().unwrap_or(0);
        if self.room.len() - self.used < 4 * largest {
            self.thin_out();
        }
        let number = self.next_mid;
        self.next_mid += 1;
        self.take(format_args!("{}{number}", Self::MID))
    }

    /// Forgets every second of the snapshots taken meanwhile, and takes half as many from now on.
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

    /// What was taken, in order. The files are closed.
    pub(super) fn finish(self) -> Texts {
        Texts { room: self.room, taken: self.taken, interval_stride: self.stride }
    }
}

/// The time on the clock that the trace clock `mono` reads as well.
pub(super) fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}

/// The snapshots of a recording that has ended.
#[derive(Debug)]
pub(super) struct Texts {
    room: Vec<u8>,
    taken: Vec<Taken>,
    /// 1, or 2, 4, … when the room did not suffice for all.
    pub(super) interval_stride: u32,
}

impl Texts {
    /// Tags and texts.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, std::borrow::Cow<'_, str>)> {
        self.taken.iter().map(|taken| (taken.tag.as_str(), String::from_utf8_lossy(&self.room[taken.text.clone()])))
    }

    /// Whether the snapshot `tag` was kept.
    pub(super) fn has(&self, tag: &str) -> bool {
        self.taken.iter().any(|taken| taken.tag == tag)
    }

    /// Forgets the snapshots that ended at `end_ns` or later.
    pub(super) fn cut(&mut self, end_ns: u64) {
        self.taken.retain(|taken| taken.end_ns < end_ns);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Snapshots with room for only a few, into a file that stands for `trace_marker`.
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
        assert!(texts.iter().all(|(_, text)| text.starts_with("Node 0")), "a text was moved wrongly");
        assert!(texts.has("mid0") && !texts.has("mid1"));
        let mut cut = texts;
        cut.cut(cut.taken[3].end_ns);
        assert!(cut.has("init2") && !cut.has("mid0") && !cut.has("fini0"));
        assert!(fs::read_to_string(&marker).unwrap().starts_with("ZB init0ZE init0ZB init1"));
        fs::remove_file(marker).unwrap();
    }
}
