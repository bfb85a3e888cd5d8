//! The settings of a run, from the kernel's command line.

use core::fmt;

use spin::Once;

/// What a run does. The seed and the number of operations decide each CPU's operations; the moment of each operation also
/// depends on the machine.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Where the random sequences begin: `seed=N`.
    pub seed: u64,
    /// Operations of each CPU: `operations=N`.
    pub operations: u64,
    /// Whether the time-stamp counter counts instructions: `counted`, which goes with QEMU's `-icount`.
    pub counted: bool,
}

static SETTINGS: Once<Settings> = Once::new();

/// Reads the command line.
///
/// # Panics
/// A word that is no setting.
pub fn read(command_line: &str) {
    let mut settings = Settings { seed: 1, operations: 10_000, counted: false };
    let number = |word: &str| word.parse().unwrap_or_else(|_| panic!("cannot read the setting {word}: no number"));
    for word in command_line.split_ascii_whitespace() {
        match word.split_once('=') {
            Some(("seed", value)) => settings.seed = number(value),
            Some(("operations", value)) => settings.operations = number(value),
            None if word == "counted" => settings.counted = true,
            _ => panic!("unknown setting {word}; allowed: seed=N, operations=N, counted"),
        }
    }
    SETTINGS.call_once(|| settings);
}

/// The settings of this run; the defaults before [`read`].
pub fn get() -> Settings {
    SETTINGS.get().copied().unwrap_or(Settings { seed: 0, operations: 0, counted: false })
}

impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed={} operations={}{}", self.seed, self.operations, if self.counted { " counted" } else { "" })
    }
}
