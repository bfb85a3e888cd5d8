//! A recording of any form.

pub(crate) mod compact;

use std::ffi::OsString;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::error::{Place, TraceError};
use crate::event::{Event, Kind};
use crate::facts::{Facts, Recipe};
use crate::file;
use crate::lines::{self, Dialect, LineReader};
use crate::perf;
use crate::resources::Resources;
use crate::snapshots::{Collector, MAX_SNAPSHOT_BYTES, Snapshots};
use crate::source::{Cursor, Source};
use crate::text::{self, TextReader};
use crate::trace::compact::Compact;
use crate::trace_dat;
use crate::tracepoint::decode::{Decoder, TRACEPOINTS};
use crate::tracepoint::tracing_data;

/// The first bytes of a zstd frame.
const ZSTD_MAGIC: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

/// The largest accepted window of a zstd stream, as a power of two of bytes: 128 MiB, the default limit of `zstd`. The
/// decoder allocates the window.
const WINDOW_LOG_MAX: u32 = 27;

/// Files to use with the opened file, and other options.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    /// A text of `/proc/zoneinfo` from the start of the recording; replaces `FILE.zoneinfo` next to a form of another tool.
    pub zoneinfo: Option<PathBuf>,
    /// The snapshots of a text form; replaces `NAME.snap.zst` or `NAME.snap` next to `NAME.events…`.
    pub snapshots: Option<PathBuf>,
    /// Whether to open a recording without zoneinfo, whose events can be viewed or converted but not replayed.
    pub without_snapshots: bool,
}

/// The number of bytes that [`is_recording`] needs. A text of another tool may begin with some KB of headings.
pub const START_BYTES: usize = 16 << 10;

/// Whether a file that starts with these bytes is a recording of a known form.
pub fn is_recording(start: &[u8]) -> bool {
    let forms = [&file::MAGIC[..], ZSTD_MAGIC, text::MAGIC, perf::MAGIC, perf::OTHER_ORDER_MAGIC, tracing_data::MAGIC];
    forms.into_iter().any(|magic| start.starts_with(magic)) || lines::is_trace(start)
}

/// The form of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Form {
    /// The project's own form: [`mod@file`].
    Own,
    /// The text form of `trace-replay.md` 2, compressed or not.
    Text,
    /// A `perf.data` of `perf record`.
    Perf,
    /// A `trace.dat` of `trace-cmd record`.
    TraceDat,
    /// The text of `perf script`.
    PerfScript,
    /// The text of ftrace's `trace` and `trace_pipe`, or of `trace-cmd report`.
    Ftrace,
}

impl Form {
    /// The name in tables and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Form::Own => "pstrace",
            Form::Text => "text",
            Form::Perf => "perf.data",
            Form::TraceDat => "trace.dat",
            Form::PerfScript => "perf script",
            Form::Ftrace => "ftrace text",
        }
    }
}

/// An opened recording. Its facts and snapshots are in memory; its events are read on demand.
#[derive(Debug)]
pub struct Trace {
    name: String,
    path: PathBuf,
    form: Form,
    source: Source,
    facts: Facts,
    snapshots: Snapshots,
    body: Body,
    resources: Resources,
    /// The events for replays, as long as a replay of this recording exists.
    compact: Mutex<Weak<Compact>>,
}

/// The data that each form needs to read its events.
#[derive(Debug)]
enum Body {
    Own(file::Totals, file::Start),
    Text { compressed: bool },
    Perf(Box<Decoder>),
    TraceDat(Box<trace_dat::Buffers>),
    Lines { compressed: bool },
}

impl Trace {
    /// Opens a recording of any form, detected by its content; `-` is standard input.
    ///
    /// The text form needs its snapshots next to it (`NAME.snap.zst` or `NAME.snap` for `NAME.events…`), and a form of
    /// another tool its zoneinfo (`PATH.zoneinfo`).
    ///
    /// # Errors
    ///
    /// The kinds of [`TraceError::kind`](crate::TraceError::kind). Damage in the events is detected when they are read.
    pub fn open(path: &Path) -> Result<Trace, TraceError> {
        Self::open_with(path, &OpenOptions::default())
    }

    /// Opens a recording with other files than [`Trace::open`] would find.
    pub fn open_with(path: &Path, options: &OpenOptions) -> Result<Trace, TraceError> {
        Self::checked(path, Source::open(path)?, options)
    }

    /// Opens a recording that a program contains, under a name.
    pub fn of_bytes(name: &str, bytes: &[u8]) -> Result<Trace, TraceError> {
        let path = Path::new(name);
        let source = Source::of_bytes(bytes).map_err(|e| TraceError::io("cannot be copied", e).in_file(path))?;
        Self::checked(path, source, &OpenOptions::default())
    }

    fn checked(path: &Path, source: Source, options: &OpenOptions) -> Result<Trace, TraceError> {
        let trace = Self::of_source(path, source, options).map_err(|e| e.in_file(path))?;
        trace.facts.check().map_err(|(what, allowed)| {
            let what = format!("the facts of the machine are wrong: {what}");
            TraceError::damaged(Place::WholeFile, what).allowed(allowed).in_file(path)
        })?;
        if trace.snapshots.zoneinfo.is_empty() && !options.without_snapshots {
            return Err(TraceError::missing_snapshots("the recording has no zoneinfo")
                .allowed("at least the zoneinfo of its start, which a replay needs")
                .in_file(path));
        }
        Ok(trace)
    }

    fn of_source(path: &Path, source: Source, options: &OpenOptions) -> Result<Trace, TraceError> {
        let start = source.start(START_BYTES).map_err(|e| TraceError::io("cannot be read", e))?;
        let forms = "a recording of pageset (.pstrace), its text form (.events, also .zst), a perf.data, a trace.dat, or \
                     the text of perf script, trace-cmd report or ftrace";
        if start.is_empty() {
            return Err(TraceError::damaged(Place::WholeFile, "the file is empty").allowed(forms));
        }
        if start.starts_with(file::MAGIC) {
            let file::Layout { facts, snapshots, totals, first } = file::Layout::read(&source)?;
            let (name, form, path) = (name_of(path), Form::Own, path.to_owned());
            return Ok(Self::of_parts((name, path, form), source, facts, snapshots, Body::Own(totals, first)));
        }
        let compressed = start.starts_with(ZSTD_MAGIC);
        let mut begin = Vec::new();
        if compressed {
            let read = plain(&source, true)?.take(START_BYTES as u64).read_to_end(&mut begin);
            read.map_err(|e| TraceError::reading(Place::WholeFile, e))?;
        } else {
            begin.clone_from(&start);
        }
        if begin.starts_with(text::MAGIC) {
            return Self::of_text(path, source, compressed, options);
        }
        if lines::is_trace(&begin) {
            let lines::Opened { facts, dialect } = lines::open(plain(&source, compressed)?)?;
            let form = if dialect == Dialect::Perf { Form::PerfScript } else { Form::Ftrace };
            return Self::imported(path, form, source, facts, Body::Lines { compressed }, options);
        }
        if start.starts_with(tracing_data::MAGIC) {
            let trace_dat::Opened { facts, buffers } = trace_dat::open(&source)?;
            return Self::imported(path, Form::TraceDat, source, facts, Body::TraceDat(Box::new(buffers)), options);
        }
        if start.starts_with(perf::MAGIC) {
            let perf::Opened { facts, decoder } = perf::open(&source)?;
            return Self::imported(path, Form::Perf, source, facts, Body::Perf(Box::new(decoder)), options);
        }
        if start.starts_with(perf::OTHER_ORDER_MAGIC) {
            let what = "this perf.data is of a machine of the other byte order";
            return Err(TraceError::unsupported(what).allowed("little-endian machines"));
        }
        // The text form reports what is wrong with its header.
        if compressed {
            return Self::of_text(path, source, compressed, options);
        }
        if lines::has_events(&begin) {
            let what = "the text does not say of each event which task it was in, on which CPU and when";
            let allowed =
                "`perf script --ns` without -F, `trace-cmd report -t`, or ftrace's trace without latency-format";
            return Err(TraceError::unsupported(what).allowed(allowed));
        }
        Err(TraceError::unsupported("this is not a recording").allowed(forms))
    }

    fn of_text(path: &Path, source: Source, compressed: bool, options: &OpenOptions) -> Result<Trace, TraceError> {
        // A wrong header is reported now, not when the events are read.
        TextReader::new(plain(&source, compressed)?)?;
        let snapshot_file = match &options.snapshots {
            Some(path) => Some(path.clone()),
            None => snapshots_beside(path).into_iter().find(|p| p.exists()),
        };
        let (snapshots, facts) = match &snapshot_file {
            Some(path) => read_snapshots(path).map_err(|e| e.in_file(path))?,
            None if options.without_snapshots => (Snapshots::default(), Facts::default()),
            None => {
                let wanted = snapshots_beside(path);
                let wanted = wanted.iter().map(|p| p.display().to_string()).collect::<Vec<_>>().join(" or ");
                let wanted = if wanted.is_empty() { "snapshots, named by an option".to_owned() } else { wanted };
                return Err(TraceError::missing_snapshots("there are no snapshots beside the events").allowed(wanted));
            }
        };
        let (name, form, path) = (name_of(path), Form::Text, path.to_owned());
        Ok(Self::of_parts((name, path, form), source, facts, snapshots, Body::Text { compressed }))
    }

    /// A recording of another tool, with the zoneinfo in a file beside it.
    fn imported(
        path: &Path,
        form: Form,
        source: Source,
        mut facts: Facts,
        body: Body,
        options: &OpenOptions,
    ) -> Result<Trace, TraceError> {
        let required = |recipe: &Recipe| {
            let missing = |name: &&str| recipe.events.as_ref().is_some_and(|events| !events.iter().any(|e| e == name));
            TRACEPOINTS.iter().filter(|point| point.without.is_none()).map(|point| point.name).find(missing)
        };
        if let Some(name) = facts.recipe.as_ref().and_then(required).filter(|_| !options.without_snapshots) {
            let what = format!("kmem:{name} was not recorded, so nothing can be replayed");
            return Err(TraceError::unsupported(what)
                .allowed("all events of the kmem recipe; `pageset trace info` shows what the file has"));
        }
        let snapshots = match (&options.snapshots, zoneinfo_beside(path, options)) {
            (Some(path), _) => read_snapshots(path).map_err(|e| e.in_file(path))?.0,
            (None, Some(zoneinfo)) => {
                let mut collector = Collector::default();
                let text = read_text(&zoneinfo).map_err(|e| e.in_file(&zoneinfo))?;
                collector.add(ZONEINFO_TAG, text).map_err(|e| e.in_file(&zoneinfo))?;
                collector.snapshots
            }
            (None, None) if options.without_snapshots => Snapshots::default(),
            (None, None) => {
                let allowed = format!(
                    "/proc/zoneinfo as of the recording's start, in {}.zoneinfo; `pageset trace info` needs none",
                    path.display()
                );
                let what = format!("this {} has no zoneinfo of its own", form.name());
                return Err(TraceError::missing_snapshots(what).allowed(allowed));
            }
        };
        let from_snapshots = snapshots.facts()?;
        (facts.nodes, facts.pageblock_order) = (from_snapshots.nodes, from_snapshots.pageblock_order);
        if facts.cpus == 0 {
            facts.cpus = from_snapshots.cpus;
        }
        Ok(Self::of_parts((name_of(path), path.to_owned(), form), source, facts, snapshots, body))
    }

    fn of_parts(
        (name, path, form): (String, PathBuf, Form),
        source: Source,
        facts: Facts,
        snapshots: Snapshots,
        body: Body,
    ) -> Trace {
        let (resources, compact) = (Resources::default(), Mutex::default());
        Trace { name, path, form, source, facts, snapshots, body, resources, compact }
    }

    /// Sets the memory and the threads that replays of this recording may use.
    pub fn with_resources(self, resources: Resources) -> Trace {
        Trace { resources, ..self }
    }

    /// Adds what kernels from 6.7 to 6.12 do not print: the bounds of `high`, in pages, that a program set in all pagesets while recording.
    /// Replays under the kernel's rules use them as they use printed bounds: from the first move that shows them, else from the first
    /// snapshot after the start.
    #[must_use]
    pub fn with_bounds_set(mut self, high_min: u64, high_max: u64) -> Trace {
        self.snapshots.set_bounds(high_min, high_max);
        self
    }

    /// The memory and the threads that replays of this recording may use.
    pub fn resources(&self) -> Resources {
        self.resources
    }

    /// The recording's name: its file name without the suffixes of its form.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The recording's form.
    pub fn form(&self) -> Form {
        self.form
    }

    /// The facts about the machine and losses.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// The texts of `/proc` in the recording.
    pub fn snapshots(&self) -> &Snapshots {
        &self.snapshots
    }

    /// The counts and times of the events, if the form has them without reading the events.
    pub fn totals(&self) -> Option<&file::Totals> {
        match &self.body {
            Body::Own(totals, _) => Some(totals),
            Body::Text { .. } | Body::Perf(_) | Body::TraceDat(_) | Body::Lines { .. } => None,
        }
    }

    /// An iterator over the events from the first on. Each call starts a new pass.
    ///
    /// # Errors
    ///
    /// If the beginning of the events cannot be read. A later error is the iterator's last item.
    pub fn events(&self) -> Result<Events<'_>, TraceError> {
        let inner = match self.body {
            Body::Perf(ref decoder) => {
                let reader = perf::PerfReader::new(&self.source, decoder).map_err(|e| self.named(e))?;
                Inner::Perf(Box::new(reader))
            }
            Body::TraceDat(ref buffers) => {
                let reader = trace_dat::Reader::new(&self.source, buffers).map_err(|e| self.named(e))?;
                Inner::TraceDat(Box::new(reader))
            }
            Body::Lines { compressed } => {
                let text = plain(&self.source, compressed).map_err(|e| self.named(e))?;
                Inner::Lines(Box::new(LineReader::new(text)))
            }
            Body::Own(_, start) => Inner::Own(Box::new(file::EventReader::new(&self.source, start))),
            Body::Text { compressed } => {
                let reader = plain(&self.source, compressed).and_then(TextReader::new).map_err(|e| self.named(e))?;
                let last = self.snapshots.zoneinfo.last().map(|(tag, _)| tag.as_str());
                Inner::Text(Box::new(TextEvents { reader, last, marked: false }))
            }
        };
        Ok(Events { trace: self, inner, done: false })
    }

    /// The events for replays. Decodes them and reports the number of events read to `progress`, unless a replay has
    /// them already.
    ///
    /// # Errors
    /// The errors of [`Trace::events`]; an error if the events are of too many pages.
    pub(crate) fn compact(&self, progress: &mut dyn FnMut(u64)) -> Result<Arc<Compact>, TraceError> {
        // The lock is held while decoding, so that two threads do not decode the same events. A panic leaves no trace.
        let mut compact = self.compact.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(compact) = compact.upgrade() {
            return Ok(compact);
        }
        let decoded = Arc::new(Compact::new(self, progress)?);
        *compact = Arc::downgrade(&decoded);
        Ok(decoded)
    }

    fn named(&self, error: TraceError) -> TraceError {
        error.in_file(&self.path)
    }
}

/// The events of a recording in the order of time; times never go back. After an error or the end, it returns `None`.
pub struct Events<'a> {
    trace: &'a Trace,
    inner: Inner<'a>,
    done: bool,
}

enum Inner<'a> {
    Own(Box<file::EventReader>),
    Text(Box<TextEvents<'a>>),
    Perf(Box<perf::PerfReader>),
    TraceDat(Box<trace_dat::Reader>),
    Lines(Box<LineReader<Box<dyn Read + Send>>>),
}

impl Iterator for Events<'_> {
    type Item = Result<Event, TraceError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let event = match &mut self.inner {
            Inner::Own(reader) => reader.event(),
            Inner::Text(events) => events.event(),
            Inner::Perf(reader) => reader.event(),
            Inner::TraceDat(reader) => reader.event(),
            Inner::Lines(reader) => reader.event(),
        };
        self.done = !matches!(event, Ok(Some(_)));
        event.map_err(|error| self.trace.named(error)).transpose()
    }
}

impl std::fmt::Debug for Events<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Events of {}", self.trace.path.display())
    }
}

/// The events of the text form, which has no end marker. A text that was truncated at the end of a line lacks the
/// markers of the last snapshots, which shows the truncation.
struct TextEvents<'a> {
    reader: TextReader<Box<dyn Read + Send>>,
    /// The tag of the last zoneinfo, until its end is read.
    last: Option<&'a str>,
    /// Whether the end of any snapshot has been read; a recording without markers is not truncated.
    marked: bool,
}

impl TextEvents<'_> {
    #[inline]
    fn event(&mut self) -> Result<Option<Event>, TraceError> {
        let event = self.reader.next().transpose()?;
        match &event {
            Some(Event { kind: Kind::SnapshotEnd(tag), .. }) => {
                self.marked = true;
                self.last.take_if(|last| last == tag);
            }
            Some(_) => {}
            None => self.end()?,
        }
        Ok(event)
    }

    #[cold]
    fn end(&self) -> Result<(), TraceError> {
        let Some(last) = self.last.filter(|_| self.marked) else { return Ok(()) };
        let what = format!("the events end before the snapshot {last}");
        Err(TraceError::damaged(Place::WholeFile, what).allowed("events up to the last zoneinfo of the snapshots"))
    }
}

/// The decompressed text of a source.
fn plain(source: &Source, compressed: bool) -> Result<Box<dyn Read + Send>, TraceError> {
    if compressed { Ok(Box::new(decompressed(source.at(0))?)) } else { Ok(Box::new(source.at(0))) }
}

fn decompressed(cursor: Cursor) -> Result<zstd::Decoder<'static, BufReader<Cursor>>, TraceError> {
    let decoder = zstd::Decoder::new(cursor).and_then(|mut decoder| {
        decoder.window_log_max(WINDOW_LOG_MAX)?;
        Ok(decoder)
    });
    decoder.map_err(|e| TraceError::io("cannot be decompressed", e))
}

/// Reads a file of snapshots, compressed or not.
/// The facts are those in the file, or else those that the snapshots show.
fn read_snapshots(path: &Path) -> Result<(Snapshots, Facts), TraceError> {
    let (snapshots, facts) = Snapshots::parse(&read_text(path)?)?;
    let facts = facts.map_or_else(|| snapshots.facts(), Ok)?;
    Ok((snapshots, facts))
}

/// Reads a whole text, compressed or not.
fn read_text(path: &Path) -> Result<String, TraceError> {
    let source = Source::open(path)?;
    let start = source.start(ZSTD_MAGIC.len()).map_err(|e| TraceError::io("cannot be read", e))?;
    let mut text = String::new();
    let input = plain(&source, start == ZSTD_MAGIC)?;
    let read = input.take(MAX_SNAPSHOT_BYTES + 1).read_to_string(&mut text);
    read.map_err(|e| match e.kind() {
        std::io::ErrorKind::InvalidData => TraceError::damaged(Place::WholeFile, "this is not text").allowed("UTF-8"),
        _ => TraceError::reading(Place::WholeFile, e),
    })?;
    if text.len() as u64 > MAX_SNAPSHOT_BYTES {
        let what = "the text is too long";
        return Err(TraceError::damaged(Place::WholeFile, what).allowed(format!("{MAX_SNAPSHOT_BYTES} bytes")));
    }
    Ok(text)
}

/// The tag of a zoneinfo from a separate file.
const ZONEINFO_TAG: &str = "init0";

/// The zoneinfo file for a recording of another tool of this name.
fn zoneinfo_beside(path: &Path, options: &OpenOptions) -> Option<PathBuf> {
    if let Some(zoneinfo) = &options.zoneinfo {
        return Some(zoneinfo.clone());
    }
    let mut name = path.as_os_str().to_owned();
    name.push(".zoneinfo");
    Some(PathBuf::from(name)).filter(|path| path.exists())
}

/// The suffixes of event files.
const EVENT_ENDINGS: [&str; 2] = [".events.zst", ".events"];

/// The possible snapshot files of an event file of this name.
fn snapshots_beside(path: &Path) -> Vec<PathBuf> {
    let Some(name) = path.file_name().and_then(|n| n.to_str()) else { return Vec::new() };
    // For any other name, such as `a.txt`: `a.txt.snap`.
    let stem = EVENT_ENDINGS.iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(name);
    [".snap.zst", ".snap"].iter().map(|ending| path.with_file_name(format!("{stem}{ending}"))).collect()
}

/// The file's name without the suffixes of its form.
fn name_of(path: &Path) -> String {
    let name = path.file_name().map(OsString::from).unwrap_or_default().to_string_lossy().into_owned();
    let endings = EVENT_ENDINGS.into_iter().chain([".pstrace", ".perf.data", ".data", ".dat"]);
    let stem = endings.into_iter().find_map(|ending| name.strip_suffix(ending)).filter(|stem| !stem.is_empty());
    stem.map(str::to_owned).unwrap_or(name)
}
