//! The settings of a run, from the kernel's command line.

use core::fmt;

use pageset::policy::Preset;
use spin::Once;

/// What a run does. The seed and the number of operations decide each CPU's operations; the moment of each operation also
/// depends on the machine.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Where the random sequences begin: `seed=N`.
    pub seed: u64,
    /// Operations of each CPU: `operations=N`.
    pub operations: u64,
    /// The rules of the allocator: `rules=NAME`, a name of `pageset replay --list-rules`.
    pub rules: &'static Preset,
    /// Whether the time-stamp counter counts instructions: `counted`, which goes with QEMU's `-icount`.
    pub counted: bool,
}

static SETTINGS: Once<Settings> = Once::new();

/// Reads the command line.
///
/// # Panics
/// A word that is no setting.
pub fn read(command_line: &str) {
    let mut settings = get();
    for word in command_line.split_ascii_whitespace() {
        let number = |text: &str| text.parse().unwrap_or_else(|_| panic!("cannot read the setting {word}: no number"));
        match word.split_once('=') {
            Some(("seed", value)) => settings.seed = number(value),
            Some(("operations", value)) => settings.operations = number(value),
            Some(("rules", name)) => {
                settings.rules = Preset::find(name).unwrap_or_else(|| panic!("unknown rules {name}"));
            }
            None if word == "counted" => settings.counted = true,
            _ => panic!("unknown setting {word}; allowed: seed=N, operations=N, rules=NAME, counted"),
        }
    }
    SETTINGS.call_once(|| settings);
}

/// The settings of this run; the defaults before [`read`].
pub fn get() -> Settings {
    let defaults = || {
        let rules = Preset::find("pageset").expect("the default rules have a name");
        Settings { seed: 1, operations: 10_000, rules, counted: false }
    };
    SETTINGS.get().copied().unwrap_or_else(defaults)
}

impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Settings { seed, operations, rules, counted } = self;
        write!(f, "seed={seed} operations={operations} rules={}{}", rules.name, if *counted { " counted" } else { "" })
    }
}
