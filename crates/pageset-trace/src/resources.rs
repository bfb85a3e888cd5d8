//! The memory and the threads that replays of a recording may use.

/// The share of the available memory that the replays of a recording use, as a divisor. A guess: the rest is for the
/// results and for other programs.
const SHARE_OF_MEMORY: u64 = 2;
/// The memory that counts as available if the machine does not say. Unit: bytes.
const UNKNOWN_MEMORY_BYTES: u64 = 2 << 30;

/// The memory and the threads that replays of a recording may use. They change the time that replays take, not the
/// results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resources {
    /// The memory of the decoded events, and of the replays that run at the same time. If the events do not fit, each
    /// pass decodes them again. One replay always runs. Unit: bytes.
    pub memory_bytes: u64,
    /// The number of replays that run at the same time; 0 counts as 1.
    pub threads: usize,
}

impl Default for Resources {
    /// Half of the memory that is available now, and a thread for each CPU.
    fn default() -> Self {
        let available = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| available(&text));
        Resources {
            memory_bytes: available.unwrap_or(UNKNOWN_MEMORY_BYTES) / SHARE_OF_MEMORY,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }
}

/// `MemAvailable` of a text of `/proc/meminfo`, in bytes.
fn available(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn available_memory_is_read_from_meminfo() {
        assert_eq!(available("MemTotal: 9 kB\nMemAvailable:    2048 kB\nBuffers: 1 kB\n"), Some(2 << 20));
        assert_eq!(available("MemTotal: 9 kB\n"), None);
        assert_eq!(available("MemAvailable: x kB\n"), None);
    }
}
