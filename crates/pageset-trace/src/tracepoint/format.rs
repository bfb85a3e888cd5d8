//! The kernel's own descriptions of its trace records: `events/*/format` and `events/header_page`.

/// The position and type of a field in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Bytes from the start of the record (common fields included).
    pub offset: usize,
    /// Size in bytes; 0 for text up to the end of the record.
    pub size: usize,
    /// Whether the number is signed.
    pub signed: bool,
}

impl Field {
    /// Reads the number in this field of `record`, sign-extended to 64 bits if signed. The byte order is this
    /// machine's.
    ///
    /// Returns `None` if the record is too short or the size is not 1, 2, 4 or 8.
    pub fn read(&self, record: &[u8]) -> Option<u64> {
        let bytes = record.get(self.offset..self.offset.checked_add(self.size)?)?;
        // The casts sign-extend on purpose.
        Some(match (bytes.len(), self.signed) {
            (1, false) => u64::from(bytes[0]),
            (1, true) => i64::from(bytes[0] as i8) as u64,
            (2, false) => u64::from(u16::from_ne_bytes(bytes.try_into().ok()?)),
            (2, true) => i64::from(i16::from_ne_bytes(bytes.try_into().ok()?)) as u64,
            (4, false) => u64::from(u32::from_ne_bytes(bytes.try_into().ok()?)),
            (4, true) => i64::from(i32::from_ne_bytes(bytes.try_into().ok()?)) as u64,
            (8, _) => u64::from_ne_bytes(bytes.try_into().ok()?),
            _ => return None,
        })
    }

    /// Whether `value`, as [`Field::read`] returned it, is all ones in this field's width.
    pub fn is_all_ones(&self, value: u64) -> bool {
        match self.size {
            size @ 1..=7 if !self.signed => value == (1 << (8 * size)) - 1,
            _ => value == u64::MAX,
        }
    }
}

/// A description that lacks required data.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct FormatError(String);

impl From<String> for FormatError {
    fn from(what: String) -> Self {
        FormatError(what)
    }
}

/// The description of one event: its id and its fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format {
    /// The event's name, without its system.
    pub name: String,
    /// The type number of its records, which differs from boot to boot.
    pub id: u16,
    fields: Vec<(String, Field)>,
}

impl Format {
    /// Parses the text of an `events/SYSTEM/NAME/format` file.
    ///
    /// # Errors
    ///
    /// If the name or the id is missing, or a field line is invalid.
    pub fn parse(text: &str) -> Result<Self, FormatError> {
        let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
        let name = value("name:").ok_or_else(|| FormatError("no name: line".into()))?.to_owned();
        let id = value("ID:")
            .and_then(|id| id.parse().ok())
            .ok_or_else(|| FormatError(format!("{name}: no ID: line with a number of 16 bits")))?;
        Ok(Format { name, id, fields: parse_fields(text)? })
    }

    /// The field `name`.
    ///
    /// # Errors
    ///
    /// If the event has no such field, as in a kernel with an unknown form of the event.
    pub fn field(&self, name: &str) -> Result<Field, FormatError> {
        find(&self.fields, name).ok_or_else(|| FormatError(format!("event {} has no field {name}", self.name)))
    }
}

/// The layout of one page of a ring buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageLayout {
    /// The time of the page's first event, in nanoseconds of the trace clock.
    pub timestamp: Field,
    /// The number of bytes written, with flags for missed events in the high bits.
    pub commit: Field,
    /// The offset of the first record in bytes.
    pub data: usize,
    /// Bytes in a page: header and records.
    pub size: usize,
}

impl PageLayout {
    /// The largest page that the kernel supports: 128 base pages of 64 KiB. A guard against invalid texts. Unit: bytes.
    const MAX_SIZE: usize = 128 << 16;

    /// Parses the text of `events/header_page`.
    ///
    /// # Errors
    ///
    /// If a field is missing, or the records do not follow the header.
    pub fn parse(text: &str) -> Result<Self, FormatError> {
        let fields = parse_fields(text)?;
        let field = |name: &str| {
            find(&fields, name).ok_or_else(|| FormatError(format!("events/header_page has no field {name}")))
        };
        let (timestamp, commit, data) = (field("timestamp")?, field("commit")?, field("data")?);
        let end = |field: Field| field.offset.saturating_add(field.size);
        let size = end(data);
        if timestamp.size != 8 || end(timestamp).max(end(commit)) > data.offset || size > Self::MAX_SIZE {
            return Err(FormatError("events/header_page describes a page that this program does not know".into()));
        }
        Ok(PageLayout { timestamp, commit, data: data.offset, size })
    }
}

fn find(fields: &[(String, Field)], name: &str) -> Option<Field> {
    fields.iter().find(|(known, _)| known == name).map(|&(_, field)| field)
}

/// Parses all lines of the form `field:TYPE NAME; offset:N; size:N; signed:N;`.
fn parse_fields(text: &str) -> Result<Vec<(String, Field)>, FormatError> {
    text.lines().map(str::trim).filter(|line| line.starts_with("field:")).map(parse_field).collect()
}

fn parse_field(line: &str) -> Result<(String, Field), FormatError> {
    let wrong = || FormatError(format!("cannot parse the field line {line:?}"));
    let (mut name, mut offset, mut size, mut signed) = (None, None, None, false);
    for part in line.split(';').map(str::trim).filter(|part| !part.is_empty()) {
        let (key, value) = part.split_once(':').ok_or_else(wrong)?;
        match key {
            "field" => {
                // `char buf[]`, `unsigned long pfn`, `struct page *page`
                let declared = value.split('[').next().unwrap_or(value);
                name = declared.rsplit([' ', '*']).next().filter(|name| !name.is_empty());
            }
            "offset" => offset = value.parse().ok(),
            "size" => size = value.parse().ok(),
            "signed" => signed = value != "0",
            _ => {}
        }
    }
    let field = Field { offset: offset.ok_or_else(wrong)?, size: size.ok_or_else(wrong)?, signed };
    Ok((name.ok_or_else(wrong)?.to_owned(), field))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALLOC: &str = include_str!("../../tests/data/ring/mm_page_alloc.format");
    const PAGE: &str = include_str!("../../tests/data/ring/header_page");

    #[test]
    fn event_format_of_6_18() {
        let format = Format::parse(ALLOC).unwrap();
        assert_eq!(format.name, "mm_page_alloc");
        assert_ne!(format.id, 0);
        assert_eq!(format.field("pfn").unwrap(), Field { offset: 8, size: 8, signed: false });
        assert_eq!(format.field("gfp_flags").unwrap(), Field { offset: 24, size: 8, signed: false });
        assert_eq!(format.field("migratetype").unwrap(), Field { offset: 32, size: 4, signed: true });
        assert_eq!(format.field("nonsense").unwrap_err().to_string(), "event mm_page_alloc has no field nonsense");
    }

    #[test]
    fn page_layout_of_6_18() {
        let layout = PageLayout::parse(PAGE).unwrap();
        assert_eq!((layout.data, layout.size), (16, 4096));
        assert_eq!((layout.timestamp.offset, layout.commit.offset), (0, 8));
    }

    #[test]
    fn names_of_arrays_and_pointers() {
        let field = |text: &str| parse_field(text).unwrap().0;
        assert_eq!(field("field:char buf[];\toffset:16;\tsize:0;\tsigned:0;"), "buf");
        assert_eq!(field("field:void * work;\toffset:8;\tsize:8;\tsigned:0;"), "work");
        assert_eq!(field("field:struct page *page;\toffset:8;\tsize:8;\tsigned:0;"), "page");
    }

    #[test]
    fn numbers_of_every_width() {
        let record = [0xff; 16];
        let read = |size, signed| Field { offset: 8, size, signed }.read(&record);
        assert_eq!(read(1, false), Some(0xff));
        assert_eq!(read(2, false), Some(0xffff));
        assert_eq!(read(4, true), Some(u64::MAX));
        assert_eq!(read(8, false), Some(u64::MAX));
        assert_eq!(read(3, false), None);
        assert_eq!(Field { offset: 9, size: 8, signed: false }.read(&record), None);
        assert!(Field { offset: 0, size: 4, signed: false }.is_all_ones(0xffff_ffff));
        assert!(!Field { offset: 0, size: 8, signed: false }.is_all_ones(0xffff_ffff));
    }

    #[test]
    fn errors_name_the_missing_part() {
        assert!(Format::parse("").unwrap_err().to_string().contains("name"));
        assert!(Format::parse("name: x\nID: 70000\n").unwrap_err().to_string().contains("ID"));
        assert!(Format::parse("name: x\nID: 7\n\tfield:int;\n").unwrap_err().to_string().contains("field:int"));
        assert!(PageLayout::parse("").unwrap_err().to_string().contains("timestamp"));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "(name: |ID: |field:|offset:|size:|signed:|[0-9]{1,20}|;|\n|[ -~]){0,60}") {
            let _ = Format::parse(&text);
            let _ = PageLayout::parse(&text);
        }
    }
}
