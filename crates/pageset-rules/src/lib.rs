//! Allocator rules as text: sets of rules by name, the keys of single rules, and rule files.
//!
//! Modules, bottom to top. Each module uses only the modules above it in this table:
//!
//! | module | contents |
//! | --- | --- |
//! | `set` | a set of rules and its name |
//! | `layout` | the layout of a zone, part by part; a set while keys change it |
//! | `words`, `keys`, `table` | one key for each rule, its values, and their conversion to text and JSON |
//! | `describe` | the rules of a set by key, and its difference from another set |
//! | `nearest` | suggestions for misspelt names |
//! | `error` | errors in rules |
//! | `settings` | changes, from `key=value` and from files |
//! | `file` | rule files |
//! | `chosen` | several sets by name, with the same changes to each |

mod chosen;
mod describe;
mod error;
mod file;
mod keys;
mod layout;
mod nearest;
mod set;
mod settings;
mod table;
mod words;

pub use chosen::Chosen;
pub use describe::described;
pub use error::RulesError;
pub use keys::{Key, Value};
pub use nearest::{closest, suggestion};
pub use set::{ALL, KERNEL, RuleSet, on_machine};
pub use table::{KEYS, key_names};
