//! Tests of the lists.

extern crate std;

use super::*;
use proptest::prelude::*;
use std::collections::VecDeque;
use std::vec::Vec;

#[derive(Clone, Copy, Debug)]
enum Op {
    Push(usize),
    PushAll(usize, u32),
    Pop(usize),
    PopOldest(usize),
    Fill(usize, u32),
    PopRun(usize, usize),
    DropOldest(usize, u32),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        (0..3_usize).prop_map(Op::Push),
        (0..3_usize).prop_map(Op::Push),
        (0..3_usize, 0..200_u32).prop_map(|(list, n)| Op::PushAll(list, n)),
        (0..3_usize).prop_map(Op::Pop),
        (0..3_usize).prop_map(Op::PopOldest),
        (0..3_usize, 0..200_u32).prop_map(|(list, n)| Op::Fill(list, n)),
        (0..3_usize, 0..80_usize).prop_map(|(list, n)| Op::PopRun(list, n)),
        (0..3_usize, 1..80_u32).prop_map(|(list, n)| Op::DropOldest(list, n)),
    ]
}

proptest! {
    /// Three lists over one pool behave like three double-ended queues, and the pool always has room for its
    /// capacity.
    #[test]
    fn lists_are_queues(ops in prop::collection::vec((op(), 1..80_usize), 0..60)) {
        const ROOM: u32 = 500;
        // The pool of another pageset comes first; it must stay unchanged.
        let words: Vec<AtomicU32> = (0..CHUNK as u64 + words(ROOM, 6)).map(|_| AtomicU32::new(0)).collect();
        let pool = Pool::new();
        pool.place(CHUNK, words.len() as u32 - CHUNK);
        let lists: [Stack; 3] = Default::default();
        let mut models: [VecDeque<u32>; 3] = Default::default();
        let mut number = 0;
        for (op, times) in ops {
            for _ in 0..times {
                let held: usize = models.iter().map(VecDeque::len).sum();
                match op {
                    Op::Push(list) if held < ROOM as usize => {
                        number += 1;
                        prop_assert!(lists[list].push(&words, &pool, number));
                        models[list].push_front(number);
                    }
                    Op::Push(_) => {}
                    Op::PushAll(list, n) => {
                        let n = n.min(ROOM - held as u32);
                        let pages: Vec<_> = (number..number + n).collect();
                        prop_assert_eq!(lists[list].push_all(&words, &pool, &pages, |page| Some(*page)), pages.len());
                        pages.iter().for_each(|&page| models[list].push_front(page));
                        number += n;
                    }
                    Op::Pop(list) => prop_assert_eq!(lists[list].pop(&words, &pool), models[list].pop_front()),
                    Op::PopOldest(list) => {
                        prop_assert_eq!(lists[list].pop_oldest(&words, &pool), models[list].pop_back());
                    }
                    Op::PopRun(list, n) => {
                        let run = lists[list].pop_run(&words, n);
                        prop_assert!(run.len() <= n);
                        for page in run.iter().rev() {
                            prop_assert_eq!(Some(page.get()), models[list].pop_front());
                        }
                    }
                    Op::DropOldest(list, n) => {
                        let oldest = lists[list].oldest(&words);
                        prop_assert_eq!(oldest.is_empty(), models[list].is_empty());
                        let n = n.min(oldest.len() as u32);
                        let taken: Vec<_> = oldest[..n as usize].iter().map(|page| Some(page.get())).collect();
                        if n > 0 {
                            lists[list].drop_oldest(&words, &pool, n);
                        }
                        for page in taken {
                            prop_assert_eq!(page, models[list].pop_back());
                        }
                    }
                    Op::Fill(list, n) => {
                        let n = n.min(ROOM - held as u32);
                        let taken = lists[list].fill(&words, &pool, n, || {
                            number += 1;
                            models[list].push_back(number);
                            Some(number)
                        });
                        prop_assert_eq!(taken, n);
                    }
                }
            }
            for (list, model) in lists.iter().zip(&models) {
                prop_assert_eq!(list.len(&words) as usize, model.len());
                prop_assert_eq!(list.is_empty(), model.is_empty());
                prop_assert!(list.iter(&words).eq(model.iter().rev().copied()));
            }
            prop_assert!(words[..CHUNK as usize].iter().all(|word| word.get() == 0));
        }
    }
}

#[test]
fn a_full_pool_says_so() {
    let words: Vec<AtomicU32> = (0..2 * CHUNK).map(|_| AtomicU32::new(0)).collect();
    let pool = Pool::new();
    pool.place(0, 2 * CHUNK);
    let (one, other): (Stack, Stack) = Default::default();
    let mut next = 0..;
    assert_eq!(one.fill(&words, &pool, 1000, || next.next()), 2 * ENTRIES);
    assert_eq!(next.next(), Some(2 * ENTRIES), "each requested block had a place");
    assert!(!one.push(&words, &pool, 8));
    assert_eq!(one.push_all(&words, &pool, &[8, 9], |page| Some(*page)), 0);
    assert!(!other.push(&words, &pool, 7));
    assert_eq!(other.fill(&words, &pool, 1, || Some(7)), 0);
    one.drop_oldest(&words, &pool, ENTRIES);
    assert!(other.push(&words, &pool, 7), "the chunk returned to the pool");
    assert_eq!(other.pop(&words, &pool), Some(7));
    assert!(!one.push(&words, &pool, 8), "the empty list still has the chunk");
    other.release(&words, &pool);
    assert!(one.push(&words, &pool, 8));
    assert_eq!(one.iter(&words).count() as u32, ENTRIES + 1);
}

/// At every list length, alternating one push and one pop stays on the shortest path.
#[test]
fn alternating_push_and_pop_stay_in_one_chunk() {
    let words: Vec<AtomicU32> = (0..words(300, 2)).map(|_| AtomicU32::new(0)).collect();
    let (pool, list) = (Pool::new(), Stack::default());
    pool.place(0, words.len() as u32);
    for block in 0..300 {
        assert!(list.push(&words, &pool, block));
        assert_eq!(list.pop(&words, &pool), Some(block));
        for _ in 0..2 {
            assert!(list.push_within(&words, block), "push on {block}");
            assert_eq!(list.pop_within(&words), Some(block), "pop of {block}");
        }
        assert!(list.push(&words, &pool, block));
    }
}
