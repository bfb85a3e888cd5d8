//! `trace.dat` files of `trace-cmd record`, versions 6 and 7, compressed with zstd or not.
//!
//! Such a file has the kernel's descriptions of its events ([`tracing_data`]) and each CPU's ring buffer, page by page.
//! The decoder and the merge of the recorder read them. Source: the manual pages `trace-cmd.dat.v6` and `.v7`.

use std::io::{self, Read};

use pageset::CpuId;

use crate::bytes::Bytes;
use crate::error::{Place, TraceError};
use crate::event::Event;
use crate::facts::{Facts, Recipe};
use crate::limits::{self, MAX_CPUS};
use crate::snapshots::losses;
use crate::source::{Cursor, Source};
use crate::tracepoint::decode::{Decoder, VMSTAT_UPDATE, VMSTAT_WORK};
use crate::tracepoint::format::{Format, PageLayout};
use crate::tracepoint::merge::Merge;
use crate::tracepoint::tracing_data;

/// The largest size of everything except the ring buffers, which is kept in memory while a file is opened. The symbols
/// of a kernel have 5 MB. Unit: bytes.
const MAX_HEAD_BYTES: u64 = 64 << 20;

/// The largest decompressed chunk of a ring buffer. trace-cmd's have some pages. Unit: bytes.
const MAX_CHUNK_BYTES: u32 = 16 << 20;

/// The size of the header of a section of version 7, in bytes.
const SECTION_HEADER: u64 = 16;

/// The data of the file that is read before its events.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) facts: Facts,
    pub(crate) buffers: Buffers,
}

/// What a pass over the events needs.
#[derive(Clone, Debug)]
pub(crate) struct Buffers {
    decoder: Decoder,
    layout: PageLayout,
    compressed: bool,
    parts: Vec<Part>,
}

/// The place of a CPU's ring buffer.
#[derive(Clone, Copy, Debug)]
struct Part {
    cpu: CpuId,
    offset: u64,
    size: u64,
}

/// Numbers of options, as trace-cmd has them.
mod option {
    pub(super) const DONE: u16 = 0;
    pub(super) const CPU_STAT: u16 = 2;
    pub(super) const BUFFER: u16 = 3;
    pub(super) const TRACE_CLOCK: u16 = 4;
    pub(super) const UNAME: u16 = 5;
    pub(super) const CPU_COUNT: u16 = 8;
    pub(super) const HEADERS: u16 = 16;
    pub(super) const EVENT_FORMATS: u16 = 18;
    pub(super) const KALLSYMS: u16 = 19;
}

/// What the head of a file of either version says.
#[derive(Debug, Default)]
struct Contents {
    header_page: String,
    formats: Vec<String>,
    /// The address of the work that decays pagesets.
    vmstat_update: Option<u64>,
    clock: Option<String>,
    release: Option<String>,
    stats: String,
    cpus: u32,
    parts: Vec<Part>,
}

fn damaged(what: impl Into<String>) -> TraceError {
    TraceError::damaged(Place::WholeFile, what).allowed("a trace.dat that `trace-cmd record` wrote to its end")
}

/// Reads the facts about the machine, and where the events are.
pub(crate) fn open(source: &Source) -> Result<Opened, TraceError> {
    let start = source.start(MAX_HEAD_BYTES as usize).map_err(|e| TraceError::io("cannot be read", e))?;
    let mut bytes = Bytes(&start);
    let short = || damaged("the header is cut short");
    let head = tracing_data::head(&mut bytes).ok_or_else(short)?;
    if !head.little_endian {
        let what = "this trace.dat is of a machine of the other byte order";
        return Err(TraceError::unsupported(what).allowed("little-endian machines"));
    }
    let (contents, compressed) = match head.version {
        b"6" => (version_6(&mut bytes, source.bytes())?, false),
        b"7" => version_7(&mut bytes, source)?,
        other => {
            let what = format!("version {} of a trace.dat is not known", String::from_utf8_lossy(other));
            return Err(TraceError::unsupported(what).allowed("versions 6 and 7"));
        }
    };
    let mut formats = Vec::new();
    for text in &contents.formats {
        formats.push(Format::parse(text).map_err(|e| damaged(e.to_string()))?);
    }
    let layout = PageLayout::parse(&contents.header_page).map_err(|e| damaged(e.to_string()))?;
    let recorded: Vec<String> = formats
        .iter()
        .map(|format| format.name.clone())
        .filter(|name| Recipe::EVENTS.contains(&name.as_str()))
        .collect();
    if recorded.is_empty() {
        return Err(TraceError::unsupported("no event of the page allocator was recorded")
            .allowed("`trace-cmd record -e kmem:mm_page_alloc -e kmem:mm_page_free …`"));
    }
    formats.retain(|f| recorded.contains(&f.name) && (f.name != VMSTAT_WORK.name || contents.vmstat_update.is_some()));
    let decoder = Decoder::new(&formats).map_err(|e| damaged(e.to_string()))?;
    let decoder = decoder.only_work(contents.vmstat_update);
    let cpus = contents.parts.iter().map(|part| part.cpu.0 + 1).max().unwrap_or(0).max(contents.cpus);
    let events = formats.into_iter().map(|format| format.name).collect();
    let facts = Facts {
        kernel_release: contents.release,
        cpus,
        page_size: head.page_size,
        clock: contents.clock.unwrap_or_else(|| "unknown".to_owned()),
        loss: losses(&contents.stats)?,
        recipe: Some(Recipe { tool: "trace-cmd record".to_owned(), events: Some(events), ..Recipe::default() }),
        ..Facts::default()
    };
    let mut parts = contents.parts;
    parts.retain(|part| part.size > 0);
    Ok(Opened { facts, buffers: Buffers { decoder, layout, compressed, parts } })
}

/// Version 6: everything in a fixed order.
fn version_6(bytes: &mut Bytes<'_>, file: u64) -> Result<Contents, TraceError> {
    let mut contents = Contents::default();
    let mut read = || {
        headers(bytes, &mut contents)?;
        tracing_data::formats(bytes, &mut Vec::new())?; // the events of ftrace itself
        event_formats(bytes, &mut contents)?;
        let symbols = bytes.u32()?;
        contents.vmstat_update = symbol(bytes.take(symbols.into())?);
        let printk = bytes.u32()?;
        bytes.take(printk.into())?;
        let command_lines = bytes.u64()?;
        bytes.take(command_lines)?;
        contents.cpus = bytes.u32()?;
        let mut word = bytes.take(10)?;
        if word == b"options  \0" {
            loop {
                let number = bytes.u16()?;
                if number == option::DONE {
                    break;
                }
                let size = bytes.u32()?;
                contents.option(number, bytes.take(size.into())?);
            }
            word = bytes.take(10)?;
        }
        if word != b"flyrecord\0" || contents.cpus > MAX_CPUS {
            return None;
        }
        for cpu in 0..contents.cpus {
            contents.parts.push(Part { cpu: CpuId(cpu), offset: bytes.u64()?, size: bytes.u64()? });
        }
        Some(())
    };
    read().ok_or_else(|| damaged("the file is cut short or has no ring buffers"))?;
    contents.check(file)?;
    Ok(contents)
}

/// Version 7: sections, which options name.
fn version_7(bytes: &mut Bytes<'_>, source: &Source) -> Result<(Contents, bool), TraceError> {
    let short = || damaged("the header is cut short");
    let algorithm = bytes.c_string().ok_or_else(short)?;
    let _version = bytes.c_string().ok_or_else(short)?;
    if !matches!(algorithm, b"none" | b"" | b"zstd") {
        let what = format!("the file is compressed with {}", String::from_utf8_lossy(algorithm));
        return Err(TraceError::unsupported(what)
            .allowed("zstd or none: `trace-cmd convert -i FILE -o OUT --compression none`"));
    }
    let compressed = algorithm == b"zstd";
    let mut next = bytes.u64().ok_or_else(short)?;
    let mut contents = Contents::default();
    let mut left = MAX_HEAD_BYTES;
    // Each section of options has 16 bytes at least, so a chain that returns to itself ends.
    while next != 0 {
        let section = section(source, next, &mut left)?;
        let (mut options, mut after) = (Bytes(&section), 0);
        while let (Some(number), Some(size)) = (options.u16(), options.u32()) {
            let data = options.take(size.into()).ok_or_else(|| damaged("an option is cut short"))?;
            let offset = Bytes(data).u64();
            match (number, offset) {
                (option::DONE, _) => {
                    after = offset.unwrap_or(0);
                    break;
                }
                (option::HEADERS, Some(at)) => {
                    let section = self::section(source, at, &mut left)?;
                    headers(&mut Bytes(&section), &mut contents).ok_or_else(short)?;
                }
                (option::EVENT_FORMATS, Some(at)) => {
                    let section = self::section(source, at, &mut left)?;
                    let read = event_formats(&mut Bytes(&section), &mut contents);
                    read.ok_or_else(|| damaged("the descriptions of the events cannot be understood"))?;
                }
                (option::KALLSYMS, Some(at)) => {
                    let section = self::section(source, at, &mut left)?;
                    contents.vmstat_update = symbol(&section);
                }
                (option::BUFFER, Some(_)) => {
                    contents.buffer(Bytes(data)).ok_or_else(|| damaged("the list of ring buffers is cut short"))?;
                }
                _ => contents.option(number, data),
            }
        }
        next = after;
    }
    contents.check(source.bytes())?;
    Ok((contents, compressed))
}

/// Reads a section of version 7 and takes its size from `left`.
fn section(source: &Source, at: u64, left: &mut u64) -> Result<Vec<u8>, TraceError> {
    let read = |at: u64, bytes: u64| {
        let mut section = Vec::new();
        let read = source.at(at).take(bytes).read_to_end(&mut section);
        read.map_err(|e| TraceError::reading(Place::Byte(at), e))?;
        if (section.len() as u64) < bytes { Err(damaged("the file is cut short")) } else { Ok(section) }
    };
    let mut take = |bytes: u64| {
        *left = left.checked_sub(bytes).ok_or_else(|| {
            damaged("the sections beside the ring buffers are too long").allowed(format!("{MAX_HEAD_BYTES} bytes"))
        })?;
        Ok::<u64, TraceError>(bytes)
    };
    let header = read(at, take(SECTION_HEADER)?)?;
    let mut header = Bytes(&header);
    let (_id, flags, _text, size) = (header.u16(), header.u16(), header.u32(), header.u64());
    let (compressed, size) = (flags.is_some_and(|flags| flags & 1 != 0), size.unwrap_or(0));
    let start = at.saturating_add(SECTION_HEADER);
    if !compressed {
        return read(start, take(size)?);
    }
    let packed = read(start, take(size)?)?;
    let mut packed = Bytes(&packed);
    let (bytes, plain) = (packed.u32(), packed.u32());
    let (Some(bytes), Some(plain)) = (bytes, plain) else { return Err(damaged("a section is cut short")) };
    let packed = packed.take(bytes.into()).ok_or_else(|| damaged("a section is cut short"))?;
    unpacked(packed, take(plain.into())?, Place::Byte(start))
}

/// Decompresses a section or a chunk to its stated size.
fn unpacked(packed: &[u8], bytes: u64, place: Place) -> Result<Vec<u8>, TraceError> {
    zstd::bulk::decompress(packed, bytes as usize).map_err(|e| TraceError::reading(place, e))
}

fn headers(bytes: &mut Bytes<'_>, contents: &mut Contents) -> Option<()> {
    contents.header_page = tracing_data::header_page(bytes)?.to_owned();
    Some(())
}

fn event_formats(bytes: &mut Bytes<'_>, contents: &mut Contents) -> Option<()> {
    let mut formats = Vec::new();
    tracing_data::systems(bytes, &mut formats)?;
    contents.formats = formats.into_iter().map(str::to_owned).collect();
    Some(())
}

/// The address of [`VMSTAT_UPDATE`] in a text of `/proc/kallsyms`; `None` if it is hidden.
fn symbol(text: &[u8]) -> Option<u64> {
    let mut name = Vec::from(b" ");
    name.extend_from_slice(VMSTAT_UPDATE.as_bytes());
    name.push(b'\n');
    let at = memchr::memmem::find(text, &name)?;
    let line = text[..at].rsplit(|&byte| byte == b'\n').next()?;
    let address = std::str::from_utf8(line).ok()?.split_ascii_whitespace().next()?;
    u64::from_str_radix(address, 16).ok().filter(|&address| address != 0)
}

impl Contents {
    /// An option that both versions have.
    fn option(&mut self, number: u16, data: &[u8]) {
        let text = String::from_utf8_lossy(data);
        let text = text.trim_end_matches('\0');
        match number {
            option::CPU_STAT => {
                self.stats += text;
                self.stats += "\n";
            }
            option::TRACE_CLOCK => {
                let clock = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
                self.clock = clock.map(|(clock, _)| clock.to_owned());
            }
            // `Linux HOST RELEASE MACHINE`
            option::UNAME => self.release = text.split_ascii_whitespace().nth(2).map(str::to_owned),
            option::CPU_COUNT => self.cpus = Bytes(data).u32().unwrap_or(0),
            _ => {}
        }
    }

    /// The ring buffers of one instance. The first instance with data counts.
    fn buffer(&mut self, mut data: Bytes<'_>) -> Option<()> {
        let _section = data.u64()?;
        let _instance = data.c_string()?;
        let clock = data.c_string()?;
        let _page_bytes = data.u32()?;
        let mut parts = Vec::new();
        for _ in 0..data.u32()? {
            let cpu = limits::cpu(data.u32()?.into())?;
            parts.push(Part { cpu, offset: data.u64()?, size: data.u64()? });
        }
        if self.parts.iter().all(|part| part.size == 0) {
            self.parts = parts;
            self.clock = Some(String::from_utf8_lossy(clock).into_owned());
        }
        Some(())
    }

    /// Checks that the ring buffers lie within a file of `bytes`.
    fn check(&self, bytes: u64) -> Result<(), TraceError> {
        let inside = |part: &Part| part.offset.checked_add(part.size).is_some_and(|end| end <= bytes);
        match self.parts.iter().find(|part| !inside(part)) {
            Some(part) => {
                Err(damaged(format!("the ring buffer of {} lies outside the file, which is cut short", part.cpu)))
            }
            None if self.parts.is_empty() => Err(damaged("the file has no ring buffers: the recording was not ended")),
            None => Ok(()),
        }
    }
}

/// The ring buffer of one CPU; each read returns one page.
struct Pages {
    cursor: io::Take<Cursor>,
    compressed: bool,
    page_bytes: usize,
    /// Chunks that are left, if compressed; `None` before the first.
    left: Option<u32>,
    chunk: io::Cursor<Vec<u8>>,
}

impl Pages {
    fn number(&mut self) -> io::Result<u32> {
        let mut bytes = [0; 4];
        self.cursor.read_exact(&mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }
}

impl Read for Pages {
    fn read(&mut self, page: &mut [u8]) -> io::Result<usize> {
        let bytes = page.len().min(self.page_bytes);
        let page = &mut page[..bytes];
        if !self.compressed {
            return self.cursor.read(page);
        }
        loop {
            let read = self.chunk.read(page)?;
            let left = match self.left {
                _ if read > 0 => return Ok(read),
                None => self.number()?,
                Some(left) => left,
            };
            let Some(rest) = left.checked_sub(1) else { return Ok(0) };
            self.left = Some(rest);
            let (packed, plain) = (self.number()?, self.number()?);
            if plain > MAX_CHUNK_BYTES || u64::from(packed) > self.cursor.limit() {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "a chunk of a ring buffer is too long"));
            }
            let mut bytes = vec![0; packed as usize];
            self.cursor.read_exact(&mut bytes)?;
            self.chunk = io::Cursor::new(zstd::bulk::decompress(&bytes, plain as usize)?);
        }
    }
}

/// A pass over the events. After an error or the end, it returns `None`.
pub(crate) struct Reader {
    merge: Merge<Pages>,
    time_ns: u64,
}

impl Reader {
    /// Starts a pass over the file.
    pub(crate) fn new(source: &Source, buffers: &Buffers) -> Result<Reader, TraceError> {
        // The size of a compressed buffer is that of its chunks, without their count before them.
        let count = if buffers.compressed { size_of::<u32>() as u64 } else { 0 };
        let pages = |part: &Part| {
            let pages = Pages {
                cursor: source.at(part.offset).take(part.size.saturating_add(count)),
                compressed: buffers.compressed,
                page_bytes: buffers.layout.size,
                left: None,
                chunk: io::Cursor::default(),
            };
            (part.cpu, pages)
        };
        let pages = buffers.parts.iter().map(pages);
        let merge = Merge::new(buffers.layout, buffers.decoder.clone(), u64::MAX, pages).map_err(wrong)?;
        Ok(Reader { merge, time_ns: 0 })
    }

    /// The next event. Not called again after an error or the end.
    pub(crate) fn event(&mut self) -> Result<Option<Event>, TraceError> {
        let Some(event) = self.merge.next_event().map_err(wrong)? else { return Ok(None) };
        if limits::check(&event.kind).is_err() || event.time_ns < self.time_ns {
            return Err(damaged("an event has a value that is not allowed")
                .allowed("times that do not go back, and page frame numbers below 2^52"));
        }
        self.time_ns = event.time_ns;
        Ok(Some(event))
    }
}

fn wrong(error: io::Error) -> TraceError {
    TraceError::reading(Place::WholeFile, error)
}
