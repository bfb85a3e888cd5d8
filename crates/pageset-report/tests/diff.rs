//! Which changes count, on sides made by hand.

use pageset_report::diff::model::{Row, Verdict};
use pageset_report::diff::{Diff, Side};
use pageset_report::measure::{Better, Change, Kind, Measured, Metric};

static RUN: Kind = Kind { name: "run", about: "a result of a run", by_file: false, note: "" };
static BENCH: Kind = Kind { name: "bench", about: "a result of bench", by_file: true, note: "of one process" };

/// A file with one metric of one case.
fn file(
    kind: &'static Kind,
    case: &[(&'static str, &str)],
    metric: (&str, Better, Change),
    samples: &[f64],
) -> Vec<Measured> {
    let (name, better, change) = metric;
    let number = |place: usize| (*kind == RUN).then_some(place as u64);
    vec![Measured {
        kind,
        case: case.iter().map(|(name, value)| (*name, (*value).to_owned())).collect(),
        metric: Metric { name: name.to_owned(), better, change },
        samples: samples.iter().enumerate().map(|(place, &value)| (number(place), value)).collect(),
    }]
}

fn side(files: Vec<Vec<Measured>>) -> Side {
    Side { files: Vec::new(), measured: files }
}

const SCORE: (&str, Better, Change) = ("score", Better::Higher, Change::Percent);
const TIME: (&str, Better, Change) = ("ns", Better::Lower, Change::Percent);
const SHARE: (&str, Better, Change) = ("lock %", Better::Lower, Change::Points);
const LOAD: (&str, Better, Change) = ("operations", Better::Neither, Change::Percent);

/// The row of two sides with one file each, under a limit of 5.
fn compared(metric: (&str, Better, Change), a: &[f64], b: &[f64]) -> Row {
    let one = |samples| side(vec![file(&RUN, &[("workload", "w")], metric, samples)]);
    let diff = Diff::of(&one(a), &one(b), Some(5.0)).unwrap();
    assert_eq!((diff.rows.len(), diff.failed), (1, diff.rows[0].fails));
    diff.rows[0].clone()
}

#[test]
fn verdicts_and_limits() {
    let cases = [
        // Metric, A, B, verdict, fails at 5, change.
        (SCORE, &[100.0, 101.0, 99.0][..], &[80.0, 81.0, 79.0][..], Verdict::Worse, true, Some(-20.0)),
        (SCORE, &[100.0, 101.0, 99.0], &[120.0, 121.0, 119.0], Verdict::Better, false, Some(20.0)),
        (TIME, &[100.0, 101.0, 99.0], &[120.0, 121.0, 119.0], Verdict::Worse, true, Some(20.0)),
        // More than noise, below the limit.
        (TIME, &[100.0, 100.1, 99.9], &[103.0, 103.1, 102.9], Verdict::Worse, false, Some(3.0)),
        // Above the limit, not more than noise.
        (TIME, &[100.0, 140.0, 60.0], &[120.0, 160.0, 80.0], Verdict::Noise, false, Some(20.0)),
        // A share changes in points: from 1 to 3 % is 2 points, although it is three times as much.
        (SHARE, &[1.0, 1.1, 0.9], &[3.0, 3.1, 2.9], Verdict::Worse, false, Some(2.0)),
        (SHARE, &[1.0, 1.1, 0.9], &[8.0, 8.1, 7.9], Verdict::Worse, true, Some(7.0)),
        // Neither direction is better.
        (LOAD, &[100.0, 101.0, 99.0], &[200.0, 201.0, 199.0], Verdict::Changed, false, Some(100.0)),
        // One sample: the noise is unknown, and a change above the limit counts.
        (TIME, &[100.0], &[120.0, 121.0], Verdict::UnknownNoise, true, Some(20.5)),
        (TIME, &[100.0], &[103.0], Verdict::UnknownNoise, false, Some(3.0)),
        (SCORE, &[100.0], &[120.0], Verdict::UnknownNoise, false, Some(20.0)),
        // From nothing to something, and nothing at all.
        (TIME, &[0.0], &[1.0], Verdict::UnknownNoise, true, None),
        (TIME, &[0.0, 0.0], &[0.0, 0.0], Verdict::Equal, false, Some(0.0)),
        (TIME, &[7.0], &[7.0], Verdict::Equal, false, Some(0.0)),
    ];
    for (metric, a, b, verdict, fails, change) in cases {
        let row = compared(metric, a, b);
        assert_eq!((row.verdict, row.fails), (verdict, fails), "{metric:?} {a:?} {b:?}");
        match (row.change, change) {
            (Some(found), Some(expected)) => assert!((found - expected).abs() < 1e-9, "{a:?} {b:?}: {found}"),
            (found, expected) => assert_eq!(found, expected, "{a:?} {b:?}"),
        }
        let known = a.len() > 1 && b.len() > 1;
        assert_eq!(row.interval.is_some(), known, "{a:?} {b:?}");
    }
}

/// With many rows, a row alone must be clearer: 95 % hold for all rows together.
#[test]
fn many_rows_need_more_than_one() {
    let (a, b) = ([100.0, 102.0, 98.0], [105.0, 107.0, 103.0]);
    assert_eq!(compared(TIME, &a, &b).verdict, Verdict::Worse);
    let case = |number: &str, samples: &[f64]| file(&RUN, &[("case", number)], TIME, samples);
    let numbers: Vec<String> = (0..40).map(|number| number.to_string()).collect();
    let all = |samples: &[f64]| side(numbers.iter().map(|number| case(number, samples)).collect());
    let diff = Diff::of(&all(&a), &all(&b), None).unwrap();
    assert_eq!(diff.rows.len(), 40);
    assert!(diff.rows.iter().all(|row| row.verdict == Verdict::Noise));
    assert_eq!(diff.rows[39].case, "39");
}

/// What differs between the sides as a whole is compared, and does not keep cases apart.
#[test]
fn cases_meet_without_the_subject() {
    let of = |rules: &str, tasks: &str| {
        file(&RUN, &[("rules", rules), ("tasks", tasks), ("machine", "m")], SCORE, &[1.0, 2.0])
    };
    let a = side(vec![of("old", "1"), of("old", "2"), of("old", "3")]);
    let b = side(vec![of("new", "2"), of("new", "1"), of("new", "4")]);
    let diff = Diff::of(&a, &b, None).unwrap();
    let cases: Vec<&str> = diff.rows.iter().map(|row| row.case.as_str()).collect();
    assert_eq!(cases, ["1", "2"]);
    let subject = &diff.subject[0];
    assert_eq!((subject.name.as_str(), subject.a.as_str(), subject.b.as_str()), ("rules", "old", "new"));
    assert_eq!((diff.common[0].name.as_str(), diff.common[0].value.as_str()), ("machine", "m"));
    assert_eq!((diff.only_a, diff.only_b), (vec!["3, m".to_owned()], vec!["4, m".to_owned()]));
    // Two sets of rules on one side: the rules keep cases apart.
    let c = side(vec![of("new", "2"), of("other", "2")]);
    let error = Diff::of(&a, &c, None).unwrap_err();
    assert!(error.to_string().contains("have nothing in common"), "{error}");
    assert!(error.to_string().contains("A has rules old, tasks 1, machine m and 2 more; "), "{error}");
    // Another kind is another case.
    let bench = side(vec![file(&BENCH, &[("rules", "old")], TIME, &[1.0])]);
    let error = Diff::of(&a, &bench, None).unwrap_err();
    assert!(error.to_string().contains("inputs of different kinds"), "{error}");
    assert!(error.to_string().contains("in A, a result of a run; in B, a result of bench\n"), "{error}");
}

/// A seed that ran twice is one sample; benchmarks of several processes are a sample each.
#[test]
fn repetitions_are_counted_once() {
    let run = |samples: &[f64]| file(&RUN, &[("w", "w")], SCORE, samples);
    let twice = side(vec![run(&[1.0, 2.0]), run(&[1.0, 2.0])]);
    let other = side(vec![run(&[1.0, 2.0]), run(&[1.5, 2.0])]);
    let diff = Diff::of(&twice, &other, None).unwrap();
    assert_eq!((diff.rows[0].a.samples.len(), diff.rows[0].b.samples.len()), (2, 3));
    let bench = |samples: &[f64]| file(&BENCH, &[("w", "w")], TIME, samples);
    let one = side(vec![bench(&[1.0, 3.0])]);
    let many = side(vec![bench(&[1.0, 3.0]), bench(&[4.0, 6.0])]);
    assert_eq!(Diff::of(&one, &many, None).unwrap().rows[0].b.samples, [1.0, 3.0, 4.0, 6.0]);
    assert_eq!(Diff::of(&many, &many, None).unwrap().rows[0].b.samples, [2.0, 5.0]);
    let note = |diff: Diff| diff.notes.iter().any(|note| note.contains("of one process"));
    assert!(note(Diff::of(&one, &many, None).unwrap()) && !note(Diff::of(&many, &many, None).unwrap()));
}
