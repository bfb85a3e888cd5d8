//! The TRACING_DATA section: the kernel's descriptions of the events, which `perf record` copied.

use super::Bytes;

/// The used parts of the section.
#[derive(Debug)]
pub(super) struct TracingData<'a> {
    /// The page size of the recorded machine, in bytes.
    pub(super) page_size: u32,
    /// The texts of `events/SYSTEM/NAME/format`.
    pub(super) formats: Vec<&'a str>,
}

/// Parses the section; `None` if it is truncated or has another form.
pub(super) fn parse(section: &[u8]) -> Option<TracingData<'_>> {
    let mut bytes = Bytes(section);
    if bytes.take(10)? != b"\x17\x08\x44tracing" {
        return None;
    }
    let _version = bytes.c_string()?;
    let [big_endian, _long_size] = *bytes.take(2)? else { return None };
    if big_endian != 0 {
        return None;
    }
    let page_size = bytes.u32()?;
    for name in [&b"header_page"[..], b"header_event"] {
        if bytes.c_string()? != name {
            return None;
        }
        let size = bytes.u64()?;
        bytes.take(size)?;
    }
    let mut formats = Vec::new();
    // The events of ftrace itself are not used.
    texts(&mut bytes, &mut Vec::new())?;
    for _ in 0..bytes.u32()? {
        let _system = bytes.c_string()?;
        texts(&mut bytes, &mut formats)?;
    }
    Some(TracingData { page_size, formats })
}

/// Reads a count, and that number of texts, each after its length.
fn texts<'a>(bytes: &mut Bytes<'a>, into: &mut Vec<&'a str>) -> Option<()> {
    for _ in 0..bytes.u32()? {
        let size = bytes.u64()?;
        into.push(std::str::from_utf8(bytes.take(size)?).ok()?);
    }
    Some(())
}
