//! The place of a member in a structure of the running kernel, from its type information (BTF).
//!
//! Specification: the kernel's documentation of the BPF type format, `bpf/btf.rst`.

/// The file with the types of the kernel.
pub(crate) const KERNEL: &str = "/sys/kernel/btf/vmlinux";

const MAGIC: u16 = 0xeb9f;
const STRUCT: u32 = 4;

/// The offset of a member of a structure in bytes; `None` if the types do not say.
pub(crate) fn offset_of(btf: &[u8], structure: &str, member: &str) -> Option<u32> {
    let word = |at: usize| Some(u32::from_ne_bytes(btf.get(at..at.checked_add(4)?)?.try_into().ok()?));
    if btf.get(..2)? != MAGIC.to_ne_bytes() {
        return None;
    }
    let header = word(4)? as usize;
    let (types, length, strings) = (header + word(8)? as usize, word(12)? as usize, header + word(16)? as usize);
    let is_named = |name: u32, text: &str| {
        let rest = btf.get(strings + name as usize..);
        rest.and_then(|rest| rest.strip_prefix(text.as_bytes())).is_some_and(|rest| rest.first() == Some(&0))
    };
    let mut at = types;
    while at < types + length {
        let (name, info) = (word(at)?, word(at + 4)?);
        let (kind, count, has_bits) = (info >> 24 & 0x7f, (info & 0x00ff_ffff) as usize, info >> 31 != 0);
        at += 12;
        if kind == STRUCT && is_named(name, structure) {
            let mut members = (0..count).map(|index| at + 12 * index);
            if let Some(found) = members.find(|at| word(*at).is_some_and(|name| is_named(name, member))) {
                // With bit fields in the structure, the upper byte is the field's width.
                let bits = word(found + 8)? & if has_bits { 0x00ff_ffff } else { u32::MAX };
                return Some(bits / 8);
            }
        }
        at += match kind {
            // An integer, a variable, a tag of a declaration.
            1 | 14 | 17 => 4,
            // An array.
            3 => 12,
            // Structures, unions, sections, and enumerations of 64 bits.
            STRUCT | 5 | 15 | 19 => 12 * count,
            // Enumerations and the arguments of functions.
            6 | 13 => 8 * count,
            2 | 7..=12 | 16 | 18 => 0,
            _ => return None,
        };
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Types: an integer, a structure of another name, and `zone` with two members.
    fn types(member: &str) -> Vec<u8> {
        let strings = format!("\0zoned\0zone\0a\0{member}\0");
        let name = |text: &str| strings.find(&format!("\0{text}\0")).expect("a name") as u32 + 1;
        let info = |kind: u32, count: u32| kind << 24 | count;
        let types = [
            vec![0, info(1, 0), 4, 32],
            vec![name("zoned"), info(STRUCT, 1), 8, name(member), 1, 0],
            vec![0, info(6, 1), 4, name("a"), 1],
            vec![name("zone"), info(STRUCT, 2) | 1 << 31, 24, name("a"), 1, 0, name(member), 1, 8 << 24 | 128],
        ]
        .concat();
        let header = [24, 0, 4 * types.len() as u32, 4 * types.len() as u32, strings.len() as u32];
        let words = header.into_iter().chain(types).flat_map(u32::to_ne_bytes);
        MAGIC.to_ne_bytes().into_iter().chain([1, 0]).chain(words).chain(strings.into_bytes()).collect()
    }

    #[test]
    fn a_member_is_found_by_its_names() {
        let btf = types("zone_start_pfn");
        assert_eq!(offset_of(&btf, "zone", "zone_start_pfn"), Some(16));
        assert_eq!(offset_of(&btf, "zone", "a"), Some(0));
        assert_eq!(offset_of(&btf, "zone", "zone_start"), None, "only the begin of a name");
        assert_eq!(offset_of(&btf, "zones", "a"), None);
        assert_eq!(offset_of(&types("b"), "zone", "zone_start_pfn"), None);
        for length in 0..btf.len() - 1 {
            let _ = offset_of(&btf[..length], "zone", "zone_start_pfn");
        }
        assert_eq!(offset_of(b"", "zone", "a"), None);
        // A kind of a later form, whose length is not known.
        let mut later = btf;
        later[24 + 4 + 3] = 33;
        assert_eq!(offset_of(&later, "zone", "zone_start_pfn"), None);
    }
}
