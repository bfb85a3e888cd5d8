//! The settings that a user keeps in a file.

use std::env;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::de::DeTable;

use super::history::Measure;
use super::order::{List, Sort};
use super::unusual::Limits;
use crate::error::{Exit, Failure};
use crate::rules::closest;

/// The file, below the folder for settings.
const FILE: &str = "pageset/top.toml";

/// The settings of the screen. The command line has precedence.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Config {
    /// Seconds between looks.
    pub(super) interval: Option<f64>,
    pub(super) sort: Option<Sort>,
    /// What the list shows.
    pub(super) list: Option<List>,
    /// What the map of CPUs shows at first.
    pub(super) map: Option<Measure>,
    /// The chosen zone: `0 Normal`.
    pub(super) zone: Option<String>,
    /// Whether to use colours, if the terminal has them and `NO_COLOR` is not set.
    colour: Option<bool>,
    mouse: Option<bool>,
    wait_percent: Option<f64>,
    rate_factor: Option<f64>,
    rate_least: Option<f64>,
}

/// The keys and the allowed values of each.
const KEYS: [(&str, &str); 10] = [
    ("interval", "0.1 to 86400"),
    ("sort", "\"cpu\", \"count\", \"change\", \"refills\", \"waits\""),
    ("list", "\"cpus\", \"processes\", \"call-sites\""),
    ("map", "\"held\", \"refills\", \"drains\", \"waits\""),
    ("zone", "a node and a zone, such as \"0 Normal\""),
    ("colour", "true, false"),
    ("mouse", "true, false"),
    ("wait_percent", "0.01 to 100"),
    ("rate_factor", "1.1 to 1000000"),
    ("rate_least", "1 to 1000000000000"),
];

impl Config {
    /// Reads the given file; without one, the user's file, if it exists.
    ///
    /// # Errors
    /// A given file that is not readable; a key or value that is not allowed, with its line.
    pub(super) fn read(given: Option<&Path>) -> Result<Config, Failure> {
        let Some(path) = given.map(Path::to_owned).or_else(|| usual_file().filter(|path| path.exists())) else {
            return Ok(Config::default());
        };
        let text = fs::read_to_string(&path)
            .map_err(|error| Failure::new(Exit::Unreadable, format!("cannot read {}: {error}", path.display())))?;
        Config::parse(&text).map_err(|what| {
            Failure::new(Exit::Damaged, format!("{}: {what}", path.display()))
                .help("`pageset top --help` lists the keys of --config")
        })
    }

    fn parse(text: &str) -> Result<Config, String> {
        let at = |span: Option<Range<usize>>, what: &str| {
            let line = span.map_or(1, |span| 1 + text[..span.start.min(text.len())].matches('\n').count());
            format!("line {line}: {}", what.replace('\n', ", "))
        };
        let table = DeTable::parse(text).map_err(|error| at(error.span(), error.message()))?;
        let table = table.get_ref();
        let names = || KEYS.iter().map(|(name, _)| *name);
        if let Some(key) = table.keys().find(|key| names().all(|name| name != key.get_ref())) {
            let near = closest(key.get_ref(), names());
            let all: Vec<&str> = near.iter().copied().chain(names().filter(|name| !near.contains(name))).collect();
            return Err(at(Some(key.span()), &format!("unknown key `{}`; allowed: {}", key.get_ref(), all.join(", "))));
        }
        // The fault of a value at a place of the text.
        let refused = |span: Range<usize>| {
            let of = KEYS.iter().find_map(|(name, allowed)| {
                let value = table.get(*name)?.span();
                (value.start <= span.start && span.start < value.end).then_some((name, allowed, value))
            });
            let (name, allowed, value) = of?;
            Some(at(Some(value.clone()), &format!("{name} = {}; allowed: {allowed}", &text[value])))
        };
        let config: Config = toml::from_str(text)
            .map_err(|error| error.span().and_then(&refused).unwrap_or_else(|| at(error.span(), error.message())))?;
        let ranges = [
            ("interval", config.interval, 0.1..=86_400.0),
            ("wait_percent", config.wait_percent, 0.01..=100.0),
            ("rate_factor", config.rate_factor, 1.1..=1e6),
            ("rate_least", config.rate_least, 1.0..=1e12),
        ];
        for (key, value, allowed) in ranges {
            if value.is_some_and(|value| !allowed.contains(&value)) {
                let fault = table.get(key).and_then(|value| refused(value.span()));
                return Err(fault.unwrap_or_else(|| at(None, &format!("{key} is out of range"))));
            }
        }
        Ok(config)
    }

    /// The limits of what is unusual.
    pub(super) fn limits(&self) -> Limits {
        let usual = Limits::DEFAULT;
        Limits {
            wait_percent: self.wait_percent.unwrap_or(usual.wait_percent),
            rate_factor: self.rate_factor.unwrap_or(usual.rate_factor),
            rate_least: self.rate_least.unwrap_or(usual.rate_least),
        }
    }

    /// Whether the mouse chooses CPUs and zones.
    pub(super) fn mouse(&self) -> bool {
        self.mouse.unwrap_or(true)
    }

    /// Whether to use colours. `NO_COLOR` disables them: see no-color.org.
    pub(super) fn colour(&self) -> bool {
        self.colour.unwrap_or(true) && env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
    }
}

/// The user's file: see the XDG Base Directory Specification.
fn usual_file() -> Option<PathBuf> {
    let set = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let folder = set("XDG_CONFIG_HOME").or_else(|| Some(set("HOME")?.join(".config")))?;
    Some(folder.join(FILE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_their_effect() {
        let text = "# mine\ninterval = 2\nsort = \"refills\"\nlist = \"processes\"\nmap = \"waits\"\nzone = \"0 DMA\"\ncolour = false\nmouse = false\n\
                    wait_percent = 1.5\nrate_factor = 3\nrate_least = 100\n";
        let config = Config::parse(text).unwrap();
        assert_eq!((config.interval, config.sort, config.map), (Some(2.0), Some(Sort::Refills), Some(Measure::Waits)));
        assert_eq!(config.list, Some(List::Processes));
        assert_eq!((config.zone.as_deref(), config.colour(), config.mouse()), (Some("0 DMA"), false, false));
        assert_eq!(config.limits(), Limits { wait_percent: 1.5, rate_factor: 3.0, rate_least: 100.0 });
        let none = Config::parse("").unwrap();
        assert_eq!((none.clone(), none.limits(), none.mouse()), (Config::default(), Limits::DEFAULT, true));
    }

    #[test]
    fn each_key_says_what_is_allowed() {
        for (name, allowed) in KEYS {
            let error = Config::parse(&format!("# mine\n{name} = [1]\n")).unwrap_err();
            assert_eq!(error, format!("line 2: {name} = [1]; allowed: {allowed}"));
            // The values in quotes are allowed, and no other.
            for value in allowed.split(", ").filter(|value| value.starts_with('"')) {
                assert_eq!(Config::parse(&format!("{name} = {value}")).err(), None);
            }
        }
    }

    #[test]
    fn faults_have_their_line() {
        for (text, line, part) in [
            (
                "interval = 1\ninterwal = 2\n",
                2,
                "unknown key `interwal`; allowed: interval, list, map, sort, zone, colour, mouse, wait_percent, \
                 rate_factor, rate_least",
            ),
            ("[screen]\nsort = \"cpu\"", 1, "unknown key `screen`; allowed: "),
            ("\n\nsort = \"colour\"\n", 3, "sort = \"colour\"; allowed: \"cpu\", "),
            ("list = \"sites\"", 1, "list = \"sites\"; allowed: \"cpus\", \"processes\", \"call-sites\""),
            ("map = \"high\"", 1, "map = \"high\"; allowed: \"held\", "),
            ("mouse = 1\n", 1, "mouse = 1; allowed: true, false"),
            ("interval = \n", 1, ""),
            ("# interval\ninterval = 0\n", 2, "interval = 0; allowed: 0.1 to 86400"),
            ("sort = \"cpu\"\nwait_percent = 200.0\n", 2, "wait_percent = 200.0; allowed: 0.01 to 100"),
            ("rate_factor = nan", 1, "rate_factor = nan; allowed: 1.1 to 1000000"),
        ] {
            let error = Config::parse(text).unwrap_err();
            assert!(error.starts_with(&format!("line {line}: ")), "{text}: {error}");
            assert!(error.contains(part), "{text}: {error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }
}
