//! Allocator rules as text: sets of rules by name, the keys of single rules, and rule files.
//!
//! From the bottom up, each module using only those before it:
//!
//! | module | what it knows |
//! | --- | --- |
//! | `set` | a set of rules and its name |
//! | `words`, `keys`, `table` | one key for each rule, its values, and the way back to text and JSON |
//! | `describe` | sets told by their keys, and by what differs from another |
//! | `nearest` | what a misspelt name was meant to be |
//! | `error` | why rules cannot be used |
//! | `settings` | changes, from `key=value` and from files |
//! | `file` | rule files |
//! | `chosen` | several sets by name, with the same changes to each |

mod chosen;
mod describe;
mod error;
mod file;
mod keys;
mod nearest;
mod set;
mod settings;
mod table;
mod words;

pub use chosen::Chosen;
pub use describe::described;
pub use error::RulesError;
pub use keys::{Key, Value};
pub use nearest::{nearest, suggestion};
pub use set::{ALL, KERNEL, RuleSet};
pub use table::{KEYS, key_names};
