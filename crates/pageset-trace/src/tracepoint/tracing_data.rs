//! The kernel's descriptions of its events as `perf record` and `trace-cmd record` copy them: the TRACING_DATA section
//! of a `perf.data`, and the start of a `trace.dat`.

use crate::bytes::Bytes;

/// The first bytes of such a copy.
pub(crate) const MAGIC: &[u8; 10] = b"\x17\x08\x44tracing";

/// The head of a copy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head<'a> {
    /// The version of the form.
    pub(crate) version: &'a [u8],
    /// Whether the machine is little-endian; if not, the page size is not read.
    pub(crate) little_endian: bool,
    /// The page size of the recorded machine, in bytes.
    pub(crate) page_size: u32,
}

/// Takes the head.
pub(crate) fn head<'a>(bytes: &mut Bytes<'a>) -> Option<Head<'a>> {
    if bytes.take(10)? != MAGIC {
        return None;
    }
    let version = bytes.c_string()?;
    let [big_endian, _long_size] = *bytes.take(2)? else { return None };
    Some(Head { version, little_endian: big_endian == 0, page_size: bytes.u32()? })
}

/// Takes the texts of `events/header_page`, which it returns, and `events/header_event`.
pub(crate) fn header_page<'a>(bytes: &mut Bytes<'a>) -> Option<&'a str> {
    let mut texts = [""; 2];
    for (name, text) in [&b"header_page"[..], b"header_event"].into_iter().zip(&mut texts) {
        if bytes.c_string()? != name {
            return None;
        }
        *text = sized(bytes)?;
    }
    Some(texts[0])
}

/// Takes a count, and that number of texts of `events/SYSTEM/NAME/format`.
pub(crate) fn formats<'a>(bytes: &mut Bytes<'a>, into: &mut Vec<&'a str>) -> Option<()> {
    for _ in 0..bytes.u32()? {
        into.push(sized(bytes)?);
    }
    Some(())
}

/// Takes the number of systems, and the texts of each.
pub(crate) fn systems<'a>(bytes: &mut Bytes<'a>, into: &mut Vec<&'a str>) -> Option<()> {
    for _ in 0..bytes.u32()? {
        let _system = bytes.c_string()?;
        formats(bytes, into)?;
    }
    Some(())
}

/// Takes a text after its length.
fn sized<'a>(bytes: &mut Bytes<'a>) -> Option<&'a str> {
    let size = bytes.u64()?;
    std::str::from_utf8(bytes.take(size)?).ok()
}
