//! One page of a tracing ring buffer, as `trace_pipe_raw` returns it: a header, then records with time deltas.
//!
//! `events/header_event` describes the layout of the records, which has not changed since Linux 2.6.30. A record begins
//! with a word of 5 bits of type or length and 27 bits of nanoseconds since the previous record.

use std::ops::Range;

use super::format::PageLayout;

/// Set in a page's commit word when events were lost before the page.
const MISSED_EVENTS: u64 = 1 << 31;
/// Set in a page's commit word when the number of events lost follows the records.
const MISSED_STORED: u64 = 1 << 30;

const TYPE_PADDING: u32 = 29;
const TYPE_TIME_EXTEND: u32 = 30;
const TYPE_TIME_STAMP: u32 = 31;
/// Bits of a record's own time delta.
const DELTA_BITS: u32 = 27;
/// Bits of an absolute time stamp; the 5 bits above come from the previous time.
const STAMP_BITS: u32 = 59;

/// A damaged page, with the byte of the damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("ring buffer page, byte {at}: {what}")]
pub struct RingError {
    /// Bytes from the start of the page.
    pub at: usize,
    /// The damage.
    pub what: &'static str,
}

/// Iterates over the records of one page. It does not own the page: the caller passes the same bytes to every call.
#[derive(Clone, Copy, Debug)]
pub struct Cursor {
    time_ns: u64,
    at: usize,
    end: usize,
    missed: bool,
}

impl Cursor {
    /// Starts at the first record of `page`, which may be shorter than a full page if its tail was never written.
    ///
    /// # Errors
    ///
    /// If the page is shorter than its header or than the length in the header.
    pub fn new(layout: &PageLayout, page: &[u8]) -> Result<Self, RingError> {
        let header = |what| RingError { at: 0, what };
        let time_ns = layout.timestamp.read(page).ok_or(header("no time stamp"))?;
        let commit = layout.commit.read(page).ok_or(header("no length"))?;
        // On 32-bit kernels the word is signed and bit 31 is sign-extended.
        let commit = commit & 0xffff_ffff;
        let length = (commit & !(MISSED_EVENTS | MISSED_STORED)) as usize;
        let end = layout.data.saturating_add(length);
        if end > page.len() || end > layout.size {
            return Err(header("the stated length is beyond the page"));
        }
        Ok(Cursor { time_ns, at: layout.data, end, missed: commit & MISSED_EVENTS != 0 })
    }

    /// The current time in nanoseconds: of the last record, or of the page before the first record.
    pub fn time_ns(&self) -> u64 {
        self.time_ns
    }

    /// Whether the kernel lost events before this page.
    pub fn missed(&self) -> bool {
        self.missed
    }

    /// The next record: its time in nanoseconds and the range of its data in `page`. `None` at the end.
    ///
    /// # Errors
    ///
    /// If a record is longer than the rest of the page.
    #[allow(clippy::should_implement_trait)] // an iterator would have to borrow the page
    pub fn next(&mut self, page: &[u8]) -> Result<Option<(u64, Range<usize>)>, RingError> {
        while self.at < self.end {
            let start = self.at;
            let header = self.word(page, start)?;
            let (kind, delta) = (header & 0x1f, u64::from(header >> 5));
            match kind {
                // A discarded record keeps its delta; padding without a delta means that the rest of the page is
                // unused.
                TYPE_PADDING if delta == 0 => break,
                TYPE_PADDING => {
                    let length = self.word(page, start + 4)? as usize;
                    self.time_ns = self.time_ns.wrapping_add(delta);
                    self.advance(start, length.saturating_add(4))?;
                }
                TYPE_TIME_EXTEND => {
                    let high = u64::from(self.word(page, start + 4)?);
                    self.time_ns = self.time_ns.wrapping_add(high << DELTA_BITS | delta);
                    self.advance(start, 8)?;
                }
                TYPE_TIME_STAMP => {
                    let high = u64::from(self.word(page, start + 4)?);
                    self.time_ns = absolute(high << DELTA_BITS | delta, self.time_ns);
                    self.advance(start, 8)?;
                }
                0 => {
                    // The length includes its own word.
                    let length = self.word(page, start + 4)? as usize;
                    if length < 4 {
                        return Err(RingError { at: start + 4, what: "a record shorter than its length word" });
                    }
                    self.time_ns = self.time_ns.wrapping_add(delta);
                    self.advance(start, length.saturating_add(4))?;
                    return Ok(Some((self.time_ns, start + 8..start + 4 + length)));
                }
                words => {
                    let length = words as usize * 4;
                    self.time_ns = self.time_ns.wrapping_add(delta);
                    self.advance(start, length + 4)?;
                    return Ok(Some((self.time_ns, start + 4..start + 4 + length)));
                }
            }
        }
        Ok(None)
    }

    fn word(&self, page: &[u8], at: usize) -> Result<u32, RingError> {
        let bytes = page.get(at..at + 4).filter(|_| at + 4 <= self.end);
        let bytes = bytes.ok_or(RingError { at, what: "a record cut off by the end of the page" })?;
        Ok(u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    /// Skips a record of `length` bytes including its header; records are a multiple of four bytes.
    fn advance(&mut self, start: usize, length: usize) -> Result<(), RingError> {
        let end = length.checked_next_multiple_of(4).and_then(|length| start.checked_add(length));
        match end {
            Some(end) if end <= self.end => {
                self.at = end;
                Ok(())
            }
            _ => Err(RingError { at: start, what: "a record longer than the rest of the page" }),
        }
    }
}

/// Extends an absolute time stamp of 59 bits to a time of 64 bits at or after `before`.
fn absolute(stamp: u64, before: u64) -> u64 {
    let high = before >> STAMP_BITS << STAMP_BITS;
    let time = high | stamp & ((1 << STAMP_BITS) - 1);
    // The low bits overflowed between the two times.
    if high != 0 && time < before { time.wrapping_add(1 << STAMP_BITS) } else { time }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn layout() -> PageLayout {
        PageLayout::parse(include_str!("../../tests/data/ring/header_page")).unwrap()
    }

    /// A page of these words after its header, with a start time of 1000 ns.
    fn page(words: &[u32]) -> Vec<u8> {
        let mut page = 1000_u64.to_ne_bytes().to_vec();
        page.extend((words.len() as u64 * 4).to_ne_bytes());
        page.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        page
    }

    fn word(kind: u32, delta: u32) -> u32 {
        delta << 5 | kind
    }

    fn all(page: &[u8]) -> Result<Vec<(u64, Vec<u8>)>, RingError> {
        let mut cursor = Cursor::new(&layout(), page)?;
        let mut records = Vec::new();
        while let Some((time, data)) = cursor.next(page)? {
            records.push((time, page[data].to_vec()));
        }
        Ok(records)
    }

    #[test]
    fn every_type_of_record() {
        let page = page(&[
            word(1, 5),
            0x1111_1111,
            word(TYPE_TIME_EXTEND, 3),
            1,
            word(2, 1),
            0x2222_2222,
            0x3333_3333,
            word(TYPE_PADDING, 7),
            8,
            0,
            word(0, 2),
            12,
            0x4444_4444,
            0x5555_5555,
            word(TYPE_TIME_STAMP, 9),
            2,
            word(1, 1),
            0x6666_6666,
            word(TYPE_PADDING, 0),
            0xffff_ffff,
        ]);
        let far = 1005 + (1 << 27) + 3;
        let absolute = (2 << 27) + 9;
        assert_eq!(
            all(&page).unwrap(),
            [
                (1005, vec![0x11; 4]),
                (far + 1, [[0x22; 4], [0x33; 4]].concat()),
                (far + 1 + 7 + 2, [[0x44; 4], [0x55; 4]].concat()),
                (absolute + 1, vec![0x66; 4]),
            ]
        );
    }

    #[test]
    fn a_time_stamp_takes_its_high_bits_from_the_previous_time() {
        assert_eq!(absolute(7, 3), 7);
        let high = 5 << STAMP_BITS;
        assert_eq!(absolute(7, high | 3), high | 7);
        assert_eq!(absolute(2, high | 3), high + (1 << STAMP_BITS) + 2);
    }

    #[test]
    fn the_missed_events_flag_is_not_part_of_the_length() {
        let mut bytes = page(&[word(1, 0), 0]);
        let commit = 8_u64 | MISSED_EVENTS | MISSED_STORED;
        bytes[8..16].copy_from_slice(&commit.to_ne_bytes());
        bytes.extend(99_u64.to_ne_bytes());
        assert!(Cursor::new(&layout(), &bytes).unwrap().missed());
        assert_eq!(all(&bytes).unwrap().len(), 1);
        assert!(!Cursor::new(&layout(), &page(&[])).unwrap().missed());
    }

    #[test]
    fn errors_name_the_damage() {
        assert_eq!(all(&page(&[word(28, 1), 0])).unwrap_err().at, 16);
        assert!(all(&page(&[word(0, 1)])).unwrap_err().what.contains("cut off"));
        assert!(all(&page(&[word(0, 1), 3])).unwrap_err().what.contains("shorter"));
        assert!(all(&page(&[word(0, 1), u32::MAX])).unwrap_err().what.contains("longer"));
        assert!(all(&page(&[word(TYPE_PADDING, 1), u32::MAX])).unwrap_err().what.contains("longer"));
        assert!(all(&[0; 15]).is_err());
        let mut long = page(&[]);
        long[8..16].copy_from_slice(&4096_u64.to_ne_bytes());
        assert!(all(&long).unwrap_err().to_string().contains("byte 0: the stated length"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let _ = all(&bytes);
        }

        #[test]
        fn any_records_are_read_or_refused(words in prop::collection::vec(
            prop_oneof![any::<u32>(), (0..32_u32, 0..4_u32).prop_map(|(kind, delta)| word(kind, delta)), 0..40_u32],
            0..100,
        )) {
            if let Ok(records) = all(&page(&words)) {
                prop_assert!(records.len() <= words.len());
            }
        }
    }
}
