//! The kernel of this machine, and its rules.

use std::fs;

use pageset::policy::Preset;
use pageset_trace::procfs::Zoneinfo;
use pageset_trace::replay::setting::kernel_of;

/// The running kernel.
pub struct Host {
    /// `uname -r`.
    pub release: Option<String>,
    /// The kernel's rules.
    pub rules: &'static Preset,
    /// Whether the release determines the rules. If not, they are guessed from the form of `/proc/zoneinfo`.
    pub known: bool,
}

impl Host {
    /// Reads the kernel's release and the form of `/proc/zoneinfo`. If neither is readable, the rules are a guess.
    pub fn read() -> Host {
        let text = |path| fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
        let release = text("/proc/sys/kernel/osrelease");
        let version = text("/proc/sys/kernel/version");
        let zones = text("/proc/zoneinfo").and_then(|text| Zoneinfo::parse(&text).ok()).unwrap_or_default();
        let (rules, known) = kernel_of(release.as_deref(), version.as_deref(), &zones);
        Host { release, rules, known }
    }
}
