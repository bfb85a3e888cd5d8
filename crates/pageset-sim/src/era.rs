//! The kernel's era: changes between kernel releases outside of the allocator's rules.
//!
//! The era is independent of the rules: no rule of [`pageset::Tuning`] changes the era, and the era changes no rule.
//! Specification: `linux-page-allocator.md` 4.2 and 5.

use std::fmt;
use std::str::FromStr;

use pageset::policy::{Preset, Release};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A range of kernel releases, named after the first release that is modelled.
///
/// | era | releases | LRU batch | LRU release | LRU lists | cache slice |
/// | --- | --- | --- | --- | --- | --- |
/// | `linux-4.16` | to 5.10 | 15 | 32 | one a node | last level |
/// | `linux-5.11` | 5.11 to 6.9 | 15 | 32 | one a node and group | last level |
/// | `posted` | `linux-5.11` with the auto-tuning series as first posted | 15 | 32 | one a node and group | all levels |
/// | `linux-6.10` | 6.10 on | 31 | 31 | one a node and group | last level |
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, JsonSchema, Serialize, Deserialize)]
pub enum Era {
    /// To 5.10.
    #[serde(rename = "linux-4.16")]
    Linux4_16,
    /// 5.11 to 6.9: each memory control group has its own LRU lists and lock.
    #[serde(rename = "linux-5.11")]
    Linux5_11,
    /// The auto-tuning series as first posted: a CPU's slice of the cache counts all levels.
    #[serde(rename = "posted")]
    Posted,
    /// 6.10 on: LRU batches of 31 pages.
    #[default]
    #[serde(rename = "linux-6.10")]
    Linux6_10,
}

/// Which caches count for a CPU's slice of the cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CacheSlice {
    /// The last level, as merged.
    LastLevel,
    /// All levels, as first posted.
    AllLevels,
}

impl Era {
    /// All eras, oldest first.
    pub const ALL: [Era; 4] = [Era::Linux4_16, Era::Linux5_11, Era::Posted, Era::Linux6_10];

    /// The name on a command line and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Era::Linux4_16 => "linux-4.16",
            Era::Linux5_11 => "linux-5.11",
            Era::Posted => "posted",
            Era::Linux6_10 => "linux-6.10",
        }
    }

    /// The era of a kernel release.
    pub fn of_release(release: Release) -> Era {
        match (release.major, release.minor) {
            number if number < (5, 11) => Era::Linux4_16,
            number if number < (6, 10) => Era::Linux5_11,
            _ => Era::Linux6_10,
        }
    }

    /// The era of a set of rules, by its name. Text after the first space, which lists changes, is ignored. A preset
    /// has the era of its kernel. Rules of no kernel, such as those of a file, have [`Era::default`].
    pub fn of_rules(name: &str) -> Era {
        let name = name.split(' ').next().unwrap_or_default();
        let release = name.strip_prefix("linux-").and_then(Release::parse);
        match name {
            _ if Preset::find(name).is_none() => Era::default(),
            // These series patch 4.17 and 6.0.
            "merge-skip" | "clusters" | "clusters-free" => Era::Linux4_16,
            _ if name.starts_with("series-") => Era::Linux5_11,
            _ if name.starts_with("posted-") => Era::Posted,
            _ => release.map_or_else(Era::default, Era::of_release),
        }
    }

    /// Pages that a CPU collects before it takes the LRU lock.
    pub const fn lru_batch(self) -> usize {
        if self.is_since_6_10() { 31 } else { 15 }
    }

    /// Pages unlinked from the LRU under one hold of its lock.
    pub const fn lru_release(self) -> usize {
        if self.is_since_6_10() { 31 } else { 32 }
    }

    /// Whether each memory control group has its own LRU lists and lock.
    pub const fn lru_by_group(self) -> bool {
        !matches!(self, Era::Linux4_16)
    }

    /// Which caches count for a CPU's slice of the cache.
    pub const fn cache_slice(self) -> CacheSlice {
        if matches!(self, Era::Posted) { CacheSlice::AllLevels } else { CacheSlice::LastLevel }
    }

    const fn is_since_6_10(self) -> bool {
        matches!(self, Era::Linux6_10)
    }
}

impl fmt::Display for Era {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Era {
    type Err = String;

    /// Parses the name of an era. A release such as `linux-5.15` selects its era.
    fn from_str(text: &str) -> Result<Era, String> {
        let named = Era::ALL.into_iter().find(|era| era.name() == text);
        let preset = || Preset::find(text).filter(|_| text.starts_with("linux-")).map(|_| Era::of_rules(text));
        named.or_else(preset).ok_or_else(|| {
            format!(
                "unknown era `{text}`; allowed: {}, or a release such as linux-5.15",
                Era::ALL.map(Era::name).join(", ")
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use pageset::policy::PRESETS;

    use super::*;

    #[test]
    fn presets_have_the_era_of_their_kernel() {
        for preset in PRESETS {
            let (era, rules) = (Era::of_rules(preset.name), preset.tuning);
            // Each of these rules appeared in the first release of an era.
            assert_eq!(era.lru_batch() == 31, rules.type_at_drain, "{}", preset.name);
            assert_eq!(era.lru_by_group(), rules.scale_drain, "{}", preset.name);
            assert_eq!(era == Era::Posted, rules.cache_slice_batches == 4, "{}", preset.name);
        }
        for (name, era) in [
            ("linux-5.10 batch=63", Era::Linux4_16),
            ("linux-5.12", Era::Linux5_11),
            ("linux-6.9.8 type_at_drain=on", Era::Linux5_11),
            ("series-5 cache_slice_batches=4", Era::Linux5_11),
            ("pageset", Era::Linux6_10),
            ("my-rules", Era::Linux6_10),
        ] {
            assert_eq!(Era::of_rules(name), era, "{name}");
        }
    }

    #[test]
    fn names_parse_to_their_eras() {
        for era in Era::ALL {
            assert_eq!(era.name().parse(), Ok(era));
            assert_eq!(toml::Value::try_from(era).unwrap().as_str(), Some(era.name()));
        }
        assert_eq!("linux-5.15".parse(), Ok(Era::Linux5_11));
        let allowed = "allowed: linux-4.16, linux-5.11, posted, linux-6.10, or a release such as linux-5.15";
        for wrong in ["5.15", "pageset", "linux-x"] {
            assert_eq!(wrong.parse::<Era>(), Err(format!("unknown era `{wrong}`; {allowed}")));
        }
    }
}
