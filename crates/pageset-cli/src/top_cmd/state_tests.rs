//! Keys and their effects.

use super::super::tests::{Shown, press, view};
use super::*;

#[test]
fn keys() {
    let shown = Shown::new(view(4));
    let (scene, view) = (shown.scene(), &shown.view);
    let mut state = State::new();
    // The zone with most pages is shown first; z selects the next zone in turn.
    assert_eq!(view.zones[state.zone(view)].name(), "0 Normal");
    state.key(KeyCode::Char('z'), &scene);
    assert_eq!(view.zones[state.zone(view)].name(), "0 DMA");
    state.key(KeyCode::Tab, &scene);
    assert_eq!(view.zones[state.zone(view)].name(), "0 Normal");
    // A CPU stays chosen when the order changes.
    state.key(KeyCode::Down, &scene);
    state.key(KeyCode::Right, &scene);
    let chosen = |state: &State| state.ordered(&scene)[state.chosen(&state.ordered(&scene))].cpu;
    assert_eq!(chosen(&state), 2);
    state.key(KeyCode::Char('s'), &scene);
    assert_eq!((state.sort, chosen(&state)), (Sort::Count, 2));
    state.key(KeyCode::End, &scene);
    let counts: Vec<u64> = state.ordered(&scene).iter().map(|set| set.count).collect();
    assert!(counts.is_sorted_by(|a, b| a >= b), "{counts:?}");
    state.key(KeyCode::PageDown, &scene);
    assert_eq!(state.chosen(&state.ordered(&scene)), 3, "PageDown stops at the last CPU");
    // Left and right go by number, whatever the order.
    state.cpu = Some(1);
    state.key(KeyCode::Right, &scene);
    assert_eq!(state.cpu, Some(2));
    (0..9).for_each(|_| _ = state.key(KeyCode::Left, &scene));
    assert_eq!(state.cpu, Some(0));
    // Any key closes the help and has no other effect.
    state.key(KeyCode::Char('h'), &scene);
    assert!(state.help);
    state.key(KeyCode::Char('s'), &scene);
    assert!(!state.help && state.sort == Sort::Count);
    state.key(KeyCode::Char(' '), &scene);
    assert!(state.frozen);
    assert_eq!(state.key(KeyCode::Char('q'), &scene), Action::Quit);
}

#[test]
fn plus_and_minus_change_the_interval_or_the_speed() {
    let mut shown = Shown::new(view(4));
    let mut state = State::new();
    state.key(KeyCode::Char('+'), &shown.scene());
    assert_eq!(state.interval, Duration::from_millis(500));
    (0..20).for_each(|_| _ = state.key(KeyCode::Char('+'), &shown.scene()));
    assert_eq!(state.interval, Duration::from_millis(100));
    // An interval of the command line is between two of the list.
    state.interval = Duration::from_millis(1500);
    state.key(KeyCode::Char('-'), &shown.scene());
    assert_eq!((state.interval, state.speed), (Duration::from_secs(2), 4));
    shown.position = Some(Position { place: 0, looks: 9 });
    state.key(KeyCode::Char('+'), &shown.scene());
    assert_eq!((state.interval, state.speed), (Duration::from_secs(2), 8));
    (0..20).for_each(|_| _ = state.key(KeyCode::Char('-'), &shown.scene()));
    assert_eq!(state.speed, 1);
    // A step pauses the playback.
    assert_eq!((state.key(KeyCode::Char('n'), &shown.scene()), state.frozen), (Action::Step(1), true));
    assert_eq!(state.key(KeyCode::Char('<'), &shown.scene()), Action::Step(-10));
}

#[test]
fn a_filter_is_typed() {
    let shown = Shown::new(view(8));
    let mut state = State::new();
    let cpus = |state: &State| state.ordered(&shown.scene()).iter().map(|set| set.cpu).collect::<Vec<_>>();
    let keys = |state: &mut State, text: &str| {
        text.chars().for_each(|letter| _ = state.key(KeyCode::Char(letter), &shown.scene()));
    };
    keys(&mut state, "/2-3q");
    assert_eq!(state.key(KeyCode::Enter, &shown.scene()), Action::Nothing);
    assert!(state.prompt.as_ref().unwrap().1.as_ref().unwrap().contains("unknown filter `2-3q`"));
    assert_eq!(cpus(&state).len(), 8, "a wrong filter has no effect");
    state.key(KeyCode::Backspace, &shown.scene());
    state.key(KeyCode::Enter, &shown.scene());
    assert_eq!((cpus(&state), state.filter_text.as_str(), &state.prompt), (vec![2, 3], "2-3", &None));
    // Typing goes on with the filter in force; Esc leaves it as it is.
    keys(&mut state, "/,7");
    state.key(KeyCode::Esc, &shown.scene());
    assert_eq!((cpus(&state), &state.prompt), (vec![2, 3], &None));
    // Esc first removes the filter, then ends.
    assert_eq!((state.key(KeyCode::Esc, &shown.scene()), cpus(&state).len()), (Action::Nothing, 8));
    assert_eq!(state.key(KeyCode::Esc, &shown.scene()), Action::Quit);
}

/// With several nodes, each CPU shows the largest zone of its own node until the user chooses a zone.
#[test]
fn each_cpu_shows_its_own_node() {
    let shown = Shown::made_up("8x2", 3);
    let (scene, view) = (shown.scene(), &shown.view);
    let mut state = State::new();
    let names = |state: &State| (0..8).map(|cpu| state.zones(view).name(view, cpu)).collect::<Vec<_>>();
    assert_eq!(names(&state), [["0 Normal"; 4], ["1 Normal"; 4]].concat());
    let own = |cpu: usize| view.zones[if cpu < 4 { 2 } else { 3 }].pagesets[cpu].count;
    let counts: Vec<u64> = state.ordered(&scene).iter().map(|set| set.count).collect();
    assert_eq!(counts, (0..8).map(own).collect::<Vec<_>>());
    for zone in ["0 DMA", "0 DMA32", "0 Normal", "1 Normal"] {
        state.key(KeyCode::Char('z'), &scene);
        assert_eq!(names(&state), [zone; 8]);
    }
    state.key(KeyCode::Char('z'), &scene);
    assert_eq!(state.zone, None);
    state.key(KeyCode::BackTab, &scene);
    assert_eq!(state.zone.as_deref(), Some("1 Normal"));
}

/// The CPUs with the longest waits come first.
#[test]
fn sorted_by_waits() {
    let view = view(60);
    let mut state = State::new();
    press(&mut state, &view, "ssss");
    let order: Vec<u32> = state.ordered(&Shown::new(view).scene()).iter().take(3).map(|set| set.cpu).collect();
    assert_eq!(order, [49, 48, 47]);
}
