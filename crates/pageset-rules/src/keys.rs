//! Keys: their allowed values, and how a key reads and sets its rule.

use std::fmt;
use std::ops::RangeInclusive;

use pageset::policy::sizes::MIN_HIGH_FRACTION;
use pageset::policy::{HighRule, RegionRule};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::layout::Draft;
use crate::words::NamedValues;

/// The value of a key.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Value {
    /// On or off.
    Switch(bool),
    /// A number, in the key's unit.
    Number(u64),
    /// One of the key's words.
    Word(String),
}

impl Value {
    /// The value of a text on the command line or of a string in a file.
    pub(crate) fn from_text(text: &str) -> Value {
        match text {
            "on" | "true" => Value::Switch(true),
            "off" | "false" => Value::Switch(false),
            _ => text.parse().map_or_else(|_| Value::Word(text.to_owned()), Value::Number),
        }
    }
}

/// Prints the value as on the command line.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Switch(on) => f.write_str(if *on { "on" } else { "off" }),
            Value::Number(number) => number.fmt(f),
            Value::Word(word) => word.fmt(f),
        }
    }
}

/// One key.
pub struct Key {
    /// The key's name.
    pub name: &'static str,
    /// The key's effect, for `--list-rules`.
    pub about: &'static str,
    pub(crate) rule: &'static (dyn Rule + Sync),
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl Key {
    /// The allowed values, for messages.
    pub fn allowed(&self) -> String {
        self.rule.allowed()
    }

    /// Sets the rule; `None` if the value is not allowed.
    pub(crate) fn set(&self, rules: &mut Draft, value: &Value) -> Option<()> {
        self.rule.set(rules, value)
    }

    /// The rule's current value; `None` if another key has it.
    pub(crate) fn get(&self, rules: &Draft) -> Option<Value> {
        self.rule.get(rules)
    }
}

/// The access to a key's rule.
pub(crate) trait Rule {
    fn allowed(&self) -> String;
    fn set(&self, rules: &mut Draft, value: &Value) -> Option<()>;
    fn get(&self, rules: &Draft) -> Option<Value>;
}

/// A rule that is on or off.
pub(crate) struct Switch(pub(crate) fn(&mut Draft) -> &mut bool);

impl Rule for Switch {
    fn allowed(&self) -> String {
        "on (true) or off (false)".to_owned()
    }

    fn set(&self, rules: &mut Draft, value: &Value) -> Option<()> {
        let Value::Switch(on) = *value else { return None };
        *(self.0)(rules) = on;
        Some(())
    }

    fn get(&self, rules: &Draft) -> Option<Value> {
        let mut copy = *rules;
        Some(Value::Switch(*(self.0)(&mut copy)))
    }
}

/// A rule with one of several words as its value.
pub(crate) struct Words<T>(pub(crate) fn(&mut Draft) -> &mut T);

impl<T: NamedValues> Rule for Words<T> {
    fn allowed(&self) -> String {
        T::all_words()
    }

    fn set(&self, rules: &mut Draft, value: &Value) -> Option<()> {
        let Value::Word(word) = value else { return None };
        *(self.0)(rules) = T::of_word(word)?;
        Some(())
    }

    fn get(&self, rules: &Draft) -> Option<Value> {
        let mut copy = *rules;
        (self.0)(&mut copy).word().map(|word| Value::Word(word.to_owned()))
    }
}

/// A rule that is a number.
pub(crate) struct Number {
    pub(crate) range: RangeInclusive<u32>,
    pub(crate) unit: &'static str,
    pub(crate) set: fn(&mut Draft, u32),
    pub(crate) get: fn(&Draft) -> Option<u32>,
}

impl Number {
    fn within(&self, value: &Value) -> Option<u32> {
        let Value::Number(number) = value else { return None };
        u32::try_from(*number).ok().filter(|number| self.range.contains(number))
    }
}

impl Rule for Number {
    fn allowed(&self) -> String {
        format!("{} to {}{}", self.range.start(), self.range.end(), self.unit)
    }

    fn set(&self, rules: &mut Draft, value: &Value) -> Option<()> {
        (self.set)(rules, self.within(value)?);
        Some(())
    }

    fn get(&self, rules: &Draft) -> Option<Value> {
        (self.get)(rules).map(|number| Value::Number(number.into()))
    }
}

/// The rule `high`: a number of pages, or a formula.
pub(crate) struct High(pub(crate) Number);

impl Rule for High {
    fn allowed(&self) -> String {
        format!("{}, {}", self.0.allowed(), HighRule::all_words())
    }

    fn set(&self, rules: &mut Draft, value: &Value) -> Option<()> {
        match value {
            Value::Word(word) => {
                rules.tuning.high = HighRule::of_word(word)?;
                Some(())
            }
            _ => self.0.set(rules, value),
        }
    }

    fn get(&self, rules: &Draft) -> Option<Value> {
        rules.tuning.high.word().map(|word| Value::Word(word.to_owned()))
    }
}

/// The rule `regions`: a number, or a word.
pub(crate) struct Regions;

impl Rule for Regions {
    fn allowed(&self) -> String {
        format!("{}, or a number from 1 on, up to the 4-MiB blocks of a zone", RegionRule::all_words())
    }

    fn set(&self, rules: &mut Draft, value: &Value) -> Option<()> {
        rules.layout.regions = match value {
            Value::Word(word) => RegionRule::of_word(word)?,
            Value::Number(number) => RegionRule::Fixed(u32::try_from(*number).ok().filter(|&regions| regions > 0)?),
            Value::Switch(_) => return None,
        };
        Some(())
    }

    fn get(&self, rules: &Draft) -> Option<Value> {
        Some(match rules.layout.regions {
            RegionRule::Fixed(regions) => Value::Number(regions.into()),
            rule => Value::Word(rule.word()?.to_owned()),
        })
    }
}

/// The rule `high_fraction`, which excludes the smallest fractions.
pub(crate) struct Fraction;

impl Rule for Fraction {
    fn allowed(&self) -> String {
        format!("0 for none, or {MIN_HIGH_FRACTION} to {}", u32::MAX)
    }

    fn set(&self, rules: &mut Draft, value: &Value) -> Option<()> {
        let Value::Number(number) = *value else { return None };
        let fraction = u32::try_from(number).ok().filter(|&f| f == 0 || f >= MIN_HIGH_FRACTION)?;
        rules.high_fraction = Some(fraction);
        Some(())
    }

    fn get(&self, rules: &Draft) -> Option<Value> {
        rules.high_fraction.map(|fraction| Value::Number(fraction.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_parse_and_print() {
        for (text, value, back) in [
            ("on", Value::Switch(true), "on"),
            ("true", Value::Switch(true), "on"),
            ("off", Value::Switch(false), "off"),
            ("false", Value::Switch(false), "off"),
            ("31", Value::Number(31), "31"),
            ("two-pass", Value::Word("two-pass".to_owned()), "two-pass"),
            ("-1", Value::Word("-1".to_owned()), "-1"),
        ] {
            assert_eq!((Value::from_text(text), value.to_string()), (value, back.to_owned()));
        }
    }
}
