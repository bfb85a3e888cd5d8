//! The rules that the simulator uses for this host's kernel.

use pageset::Tuning;
use pageset::policy::{Preset, Release};
use pageset_sim::era::Era;
use schemars::JsonSchema;
use serde::Serialize;

/// The rules and the era that the host's kernel has.
#[derive(Clone, Serialize, JsonSchema)]
pub(super) struct Kernel {
    /// The preset's name.
    pub(super) rules: String,
    /// The era.
    pub(super) era: Era,
    /// The rules of the row, by the keys of --set.
    #[serde(skip)]
    pub(super) tuning: Tuning,
}

impl Kernel {
    /// Those of the release of this host's kernel; the newest for an unknown release.
    pub(super) fn of_this_host() -> Kernel {
        Kernel::of(&pageset_bench::rounds::machine(0).kernel)
    }

    pub(super) fn of(release: &str) -> Kernel {
        let release = Release::parse(release.split('-').next().unwrap_or_default());
        let release = release.unwrap_or(Release::newest(u32::MAX, 0));
        let preset = Preset::of_release(release);
        Kernel { rules: preset.name.to_owned(), era: Era::of_release(release), tuning: preset.tuning }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_has_its_rules_and_its_era() {
        for (release, rules, era) in [
            ("5.15.0-91-generic", "linux-5.14", Era::Linux5_11),
            ("6.18.44-fc-v657", "linux-6.18", Era::Linux6_10),
            ("99.1", "linux-6.19", Era::Linux6_10),
            ("unknown", "linux-6.19", Era::Linux6_10),
        ] {
            let kernel = Kernel::of(release);
            assert_eq!((kernel.rules.as_str(), kernel.era), (rules, era), "{release}");
        }
    }
}
