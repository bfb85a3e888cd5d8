//! Which CPUs the user wants to see. Pure: text in, CPUs out.

use super::unusual::Unusual;
use super::view::{CpuTraffic, View};

/// The allowed words of a filter.
pub(super) const ALLOWED: &str = "0-15,32  node=1  busy  unusual";

/// Conditions that all hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Filter(Vec<Condition>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Condition {
    Cpus(Vec<(u32, u32)>),
    Node(u32),
    /// The CPU refills or drains pages.
    Busy,
    Unusual,
}

impl Filter {
    /// Parses words; without words every CPU is shown.
    ///
    /// # Errors
    /// The first word that is not allowed.
    pub(super) fn parse(text: &str) -> Result<Filter, String> {
        let condition = |word: &str| {
            let unknown = || format!("unknown filter `{word}`; try {ALLOWED}");
            Ok(match word {
                "busy" => Condition::Busy,
                "unusual" | "!" => Condition::Unusual,
                _ if word.starts_with("node=") => {
                    Condition::Node(word.trim_start_matches("node=").parse().map_err(|_| unknown())?)
                }
                _ => {
                    let range = |part: &str| {
                        let (first, last) = part.split_once('-').unwrap_or((part, part));
                        Some((first.parse().ok()?, last.parse().ok()?))
                            .filter(|(first, last): &(u32, u32)| first <= last)
                    };
                    let ranges = word.split(',').filter(|part| !part.is_empty());
                    Condition::Cpus(ranges.map(range).collect::<Option<_>>().ok_or_else(unknown)?)
                }
            })
        };
        text.split_whitespace().map(condition).collect::<Result<_, _>>().map(Filter)
    }

    /// Whether every CPU is shown.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a CPU is shown.
    pub(super) fn shows(&self, cpu: u32, view: &View, unusual: &Unusual) -> bool {
        self.0.iter().all(|condition| match condition {
            Condition::Cpus(ranges) => ranges.iter().any(|(first, last)| (first..=last).contains(&&cpu)),
            Condition::Node(node) => view.node_of(cpu) == Some(*node),
            Condition::Busy => {
                let rates = view.traffic_of(cpu).into_iter().flat_map(CpuTraffic::rates);
                rates.flatten().any(|rate| rate > 0.0)
            }
            Condition::Unusual => unusual.has(cpu),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::history::Measure;
    use super::super::tests::view;
    use super::*;

    #[test]
    fn words_select_cpus() {
        let mut view = view(8);
        view.cpu_nodes = vec![0, 0, 0, 0, 1, 1, 1, 1];
        view.traffic.as_mut().unwrap()[2].refill_pages_per_s = Some(0.0);
        view.traffic.as_mut().unwrap()[2].drain_pages_per_s = None;
        let mut unusual = Unusual::default();
        unusual.cpus.insert((5, Measure::Waits));
        for (text, expected) in [
            ("", &[0, 1, 2, 3, 4, 5, 6, 7][..]),
            ("1-2,7", &[1, 2, 7]),
            ("3", &[3]),
            ("node=1", &[4, 5, 6, 7]),
            ("node=1 0-5", &[4, 5]),
            ("busy 1-3", &[1, 3]),
            ("unusual", &[5]),
            ("!", &[5]),
            ("node=9", &[]),
        ] {
            let filter = Filter::parse(text).unwrap();
            let shown: Vec<u32> = (0..8).filter(|cpu| filter.shows(*cpu, &view, &unusual)).collect();
            assert_eq!(shown, expected, "{text}");
        }
    }

    #[test]
    fn other_words_are_refused() {
        for text in ["x", "node=x", "node=", "3-1", "1-", "99999999999", "busy y", "-1", "1--2"] {
            let error = Filter::parse(text).unwrap_err();
            assert!(error.contains("try 0-15,32"), "{text}: {error}");
        }
    }
}
