//! The words for the values of rules.

use pageset::policy::{DecayRule, FallbackRule, HighAtomicRule, HighRule, ListRule, OwnerRule, RegionRule};

use crate::layout::Drains;

pub(crate) trait NamedValues: Copy + PartialEq + 'static {
    /// All values with a word.
    const WORDS: &'static [(&'static str, Self)];

    /// The word of a value; `None` for a value that is a number.
    fn word(self) -> Option<&'static str>;

    fn of_word(text: &str) -> Option<Self> {
        Self::WORDS.iter().find(|(word, _)| *word == text).map(|(_, value)| *value)
    }

    /// All words for messages: `a, b or c`.
    fn all_words() -> String {
        let words: Vec<&str> = Self::WORDS.iter().map(|(word, _)| *word).collect();
        match words.split_last() {
            Some((last, [])) => (*last).to_owned(),
            Some((last, others)) => format!("{} or {last}", others.join(", ")),
            None => String::new(),
        }
    }
}

/// One table per rule for both directions. A new value of a rule without a word does not compile.
macro_rules! words {
    ($($rule:ident { $($word:literal = $value:ident),+ $(; $number:pat)? })+) => {$(
        impl NamedValues for $rule {
            const WORDS: &'static [(&'static str, Self)] = &[$(($word, $rule::$value)),+];

            fn word(self) -> Option<&'static str> {
                match self {
                    $($rule::$value => Some($word),)+
                    $($number => None,)?
                }
            }
        }
    )+};
}

words! {
    HighRule { "six-batches" = SixBatches, "from-low-watermark" = FromLowWatermark; HighRule::Fixed { .. } }
    ListRule {
        "order-zero" = OrderZero,
        "to-costly" = ToCostly,
        "huge-shared" = HugeShared,
        "huge-by-mobility" = HugeByMobility,
        "huge-by-type" = HugeByType,
        "all-orders" = AllOrders
    }
    RegionRule { "one" = One, "per-cpu" = PerCpu; RegionRule::Fixed(_) }
    Drains {
        "pick-locked" = PickLocked,
        "two-pass" = TwoPass,
        "single-pass" = SinglePass,
        "chunked" = Chunked,
        "short-holds" = ShortHolds
    }
    FallbackRule { "steal" = Steal, "steal-in-place" = StealInPlace, "claim-then-steal" = ClaimThenSteal }
    HighAtomicRule { "reserved" = Reserved, "free" = Free }
    OwnerRule { "off" = Off, "wait" = Wait, "try" = Try, "list" = List }
    DecayRule { "eighth" = Eighth, "fifth" = Fifth }
}
