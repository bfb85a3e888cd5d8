//! Recordings in memory, and files of the project's own format with valid checksums around any content.

use std::fs::{self, File};
use std::io::{Read, Seek, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use pageset_trace::{Event, OpenOptions, Trace, TraceError};
use rustix::fs::{MemfdFlags, memfd_create};

/// Reads a test file of `pageset-trace`.
pub fn test_file(name: &str) -> Vec<u8> {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/pageset-trace/tests");
    fs::read(tests.join(name)).expect("the file ships with the project")
}

/// The zoneinfo files of the tests.
pub fn zoneinfos() -> impl Iterator<Item = Vec<u8>> {
    ["linux-4.4.txt", "linux-4.19.txt", "linux-5.10-two-nodes.txt", "linux-6.18-one-node.txt"]
        .into_iter()
        .map(|name| test_file(&format!("zoneinfo/{name}")))
}

/// Reads a recording from memory.
///
/// # Errors
/// The error of the reader.
pub fn read(bytes: &[u8]) -> Result<(Trace, Vec<Event>), TraceError> {
    let mut file = File::from(memfd_create("recording", MemfdFlags::CLOEXEC).expect("memory for a file"));
    file.write_all(bytes).expect("memory");
    let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let trace = Trace::open_with(&path, &OpenOptions { without_snapshots: true, ..OpenOptions::default() })?;
    let events = trace.events()?.collect::<Result<Vec<_>, _>>()?;
    Ok((trace, events))
}

const KINDS: [&[u8; 4]; 4] = [b"FACT", b"SNAP", b"EVTS", b"ENDS"];

/// A section: its kind, its claimed number of items, and its payload.
pub struct Section<'b> {
    kind: u8,
    items: u16,
    payload: &'b [u8],
}

/// Decodes bytes into sections. Each is encoded as kind (1 byte), items (2 bytes), length (2 bytes), payload.
pub fn sections(mut bytes: &[u8]) -> impl Iterator<Item = Section<'_>> {
    std::iter::from_fn(move || {
        let (head, rest) = bytes.split_first_chunk::<5>()?;
        let &[kind, items_low, items_high, low, high] = head;
        let length = usize::from(u16::from_le_bytes([low, high])).min(rest.len());
        let (payload, rest) = rest.split_at(length);
        bytes = rest;
        Some(Section { kind, items: u16::from_le_bytes([items_low, items_high]), payload })
    })
}

/// Builds a file of the project's own format from sections. All checksums are valid, so readers see the damage behind them.
pub fn own_form<'b>(sections: impl Iterator<Item = Section<'b>>) -> Vec<u8> {
    let mut file = b"\x89pstrace\x01\0\0\0".to_vec();
    seal(&mut file, 0);
    for (index, Section { kind, items, payload }) in sections.enumerate() {
        let stored = zstd::bulk::compress(payload, 1).expect("memory");
        let start = file.len();
        file.extend_from_slice(KINDS[usize::from(kind) % KINDS.len()]);
        for word in [index, usize::from(items), payload.len(), stored.len()] {
            file.extend_from_slice(&(word as u32).to_le_bytes());
        }
        file.extend_from_slice(&crc32fast::hash(&stored).to_le_bytes());
        seal(&mut file, start);
        file.extend_from_slice(&stored);
    }
    file
}

/// Appends the checksum of the bytes from `start` on.
fn seal(file: &mut Vec<u8>, start: usize) {
    let crc = crc32fast::hash(&file[start..]);
    file.extend_from_slice(&crc.to_le_bytes());
}

/// Encodes the sections of a file as bytes. [`sections`] and [`own_form`] turn the bytes into the same file again.
pub fn taken_apart(file: &[u8]) -> Vec<u8> {
    let mut input = std::io::Cursor::new(file);
    input.seek_relative(16).expect("a header");
    let mut bytes = Vec::new();
    let mut header = [0; 28];
    while input.read_exact(&mut header).is_ok() {
        let word = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("four bytes"));
        let kind = KINDS.iter().position(|kind| kind[..] == header[..4]).expect("a kind of section");
        let mut stored = vec![0; word(16) as usize];
        input.read_exact(&mut stored).expect("a whole file");
        let payload = zstd::bulk::decompress(&stored, word(12) as usize).expect("a whole file");
        let length = u16::try_from(payload.len()).expect("a short section");
        bytes.push(kind as u8);
        bytes.extend_from_slice(&(word(8) as u16).to_le_bytes());
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(&payload);
    }
    bytes
}
