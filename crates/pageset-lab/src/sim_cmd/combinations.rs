//! All combinations of the values of some rules.

use crate::error::{Exit, Failure};

/// The largest number of combinations. A guess: more would take far too long.
const MOST: usize = 10_000;

/// The combinations that settings such as `batch=31,63` stand for; a single empty one without settings.
pub(super) fn of(settings: &[String]) -> Result<Vec<Vec<String>>, Failure> {
    let axes: Vec<Vec<String>> = settings.iter().map(|text| axis(text)).collect();
    let count = axes.iter().try_fold(1_usize, |count, axis| count.checked_mul(axis.len())).unwrap_or(usize::MAX);
    if count > MOST {
        let message = format!("cannot simulate {count} combinations of --set; allowed: up to {MOST}");
        return Err(Failure::new(Exit::Usage, message).help("try fewer values"));
    }
    Ok(combinations(&axes))
}

/// The settings that `key=a,b,c` stands for. A text without `=` is returned unchanged, and fails when it is parsed.
fn axis(text: &str) -> Vec<String> {
    match text.split_once('=') {
        Some((key, values)) => values.split(',').map(|value| format!("{key}={value}")).collect(),
        None => vec![text.to_owned()],
    }
}

/// All combinations of one setting of each axis; the last axis changes fastest.
fn combinations(axes: &[Vec<String>]) -> Vec<Vec<String>> {
    axes.iter().fold(vec![Vec::new()], |before, axis| {
        let with = |settings: &Vec<String>| {
            let settings = settings.clone();
            axis.iter().map(move |setting| settings.iter().chain([setting]).cloned().collect()).collect::<Vec<_>>()
        };
        before.iter().flat_map(with).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_axis_changes_fastest() {
        let axes: Vec<Vec<String>> = ["a=1,2", "b=x,y,z"].map(axis).into();
        let all: Vec<String> = combinations(&axes).iter().map(|settings| settings.join(" ")).collect();
        assert_eq!(all, ["a=1 b=x", "a=1 b=y", "a=1 b=z", "a=2 b=x", "a=2 b=y", "a=2 b=z"]);
        assert_eq!(axis("nonsense"), ["nonsense"]);
        assert_eq!(of(&[]).unwrap(), [Vec::<String>::new()]);
        let many = vec!["a=1,2,3,4,5,6,7,8,9,10".to_owned(); 5];
        assert!(of(&many).is_err() && of(&many[..4]).is_ok_and(|all| all.len() == MOST));
    }
}
