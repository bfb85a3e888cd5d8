extern crate std;

use super::*;
use proptest::prelude::*;
use std::cell::RefCell;
use std::vec;
use std::vec::Vec;

/// Two lists over one zone's clusters, and their expected contents.
struct World {
    links: Vec<AtomicU32>,
    words: Vec<AtomicU32>,
}

impl World {
    fn new(pages: u32, descriptors: u64) -> Self {
        let zeroed = |words: u64| (0..words).map(|_| AtomicU32::new(0)).collect();
        World { links: zeroed(2 * u64::from(pages)), words: zeroed(u64::from(pages) + descriptors * DESCRIPTOR as u64) }
    }

    fn links(&self) -> Links<'_> {
        Links(&self.links)
    }

    fn clusters(&self, limit: u32) -> Clusters<'_> {
        Clusters::new(&self.words, self.links.len() / 2, limit)
    }
}

/// The pages of a list, from the head on.
fn pages(links: Links<'_>, list: &List) -> Vec<u32> {
    let mut pages = vec![];
    let mut at = list.first();
    while let Some(page) = at {
        pages.push(page);
        at = list.after(links, page);
    }
    assert_eq!(pages.len(), list.len() as usize);
    assert_eq!(pages.last().copied(), list.last());
    pages
}

/// The runs of a list: the pages of each cluster. A page without a cluster is a run of its own, marked as such.
fn runs(clusters: &Clusters<'_>, links: Links<'_>, list: &List) -> Vec<(Vec<u32>, bool)> {
    let mut runs: Vec<(Vec<u32>, Option<Cluster>)> = vec![];
    for page in pages(links, list) {
        let cluster = clusters.of(page);
        match runs.last_mut() {
            Some((run, last)) if cluster.is_some() && *last == cluster => run.push(page),
            _ => runs.push((vec![page], cluster)),
        }
    }
    for (run, cluster) in &runs {
        let Some(cluster) = *cluster else { continue };
        assert_eq!((clusters.len(cluster) as usize, Some(clusters.tail(cluster))), (run.len(), run.last().copied()));
    }
    runs.into_iter().map(|(run, cluster)| (run, cluster.is_some())).collect()
}

/// The runs that are clusters; other runs are empty.
fn whole(runs: Vec<(Vec<u32>, bool)>) -> Vec<Vec<u32>> {
    runs.into_iter().map(|(run, is_cluster)| if is_cluster { run } else { vec![] }).collect()
}

#[derive(Clone, Copy)]
enum Do {
    Head(u32),
    Tail(u32),
    Remove(u32),
    /// Wanted pages, room, and the pages cut.
    Cut(u32, u32, &'static [u32]),
}

/// The statement, the operations, and the resulting clusters from the head on.
type Example = (&'static str, &'static [Do], &'static [&'static [u32]]);

#[test]
fn by_hand() {
    use Do::{Cut, Head, Remove, Tail};
    // Clusters of at most 3 pages, 4 descriptors.
    let rows: &[Example] = &[
        ("a page alone", &[Head(1)], &[&[1]]),
        ("joins at the head", &[Head(1), Head(2), Head(3)], &[&[3, 2, 1]]),
        ("a full cluster is not joined", &[Head(1), Head(2), Head(3), Head(4)], &[&[4], &[3, 2, 1]]),
        ("joins at the tail", &[Head(1), Tail(2), Tail(3)], &[&[1, 2, 3]]),
        ("the next begins at the tail", &[Tail(1), Tail(2), Tail(3), Tail(4)], &[&[1, 2, 3], &[4]]),
        ("at both ends", &[Head(1), Tail(2), Head(3), Head(4), Tail(5)], &[&[4], &[3, 1, 2], &[5]]),
        ("the tail leaves", &[Head(1), Head(2), Head(3), Remove(1)], &[&[3, 2]]),
        ("so does the new tail", &[Head(1), Head(2), Head(3), Remove(1), Remove(2), Tail(4)], &[&[3, 4]]),
        ("the middle leaves", &[Head(1), Head(2), Head(3), Remove(2), Head(4)], &[&[4, 3, 1]]),
        ("the head leaves", &[Head(1), Head(2), Head(3), Head(4), Remove(4), Head(5)], &[&[5], &[3, 2, 1]]),
        ("one leaves from between", &[Head(1), Head(2), Head(3), Head(4), Head(5), Remove(2)], &[&[5, 4], &[3, 1]]),
        ("the last leaves", &[Head(1), Remove(1)], &[]),
        ("a cut", &[Head(1), Head(2), Cut(1, 9, &[2, 1])], &[]),
        ("more than asked", &[Head(1), Head(2), Head(3), Head(4), Cut(2, 9, &[4, 3, 2, 1])], &[]),
        ("as much as asked", &[Head(1), Head(2), Head(3), Head(4), Cut(1, 9, &[4])], &[&[3, 2, 1]]),
        ("less than asked", &[Head(1), Cut(7, 9, &[1])], &[]),
        ("no more than has room", &[Head(1), Head(2), Head(3), Head(4), Cut(4, 3, &[4])], &[&[3, 2, 1]]),
        ("no room at all", &[Head(1), Head(2), Cut(4, 1, &[])], &[&[2, 1]]),
        ("nothing there", &[Cut(4, 9, &[])], &[]),
        ("a page comes again", &[Head(1), Head(2), Cut(1, 9, &[2, 1]), Head(2)], &[&[2]]),
    ];
    for (what, steps, after) in rows {
        let world = World::new(10, 4);
        let (links, clusters, list) = (world.links(), world.clusters(3), List::default());
        for step in *steps {
            match *step {
                Head(page) => clusters.push(links, &list, page, End::Head, |_| ()),
                Tail(page) => clusters.push(links, &list, page, End::Tail, |_| ()),
                Remove(page) => clusters.remove(links, &list, page, |_| ()),
                Cut(want, room, came) => {
                    assert_eq!(pages(links, &clusters.cut(links, &list, want, room, |_| ())), came, "{what}");
                }
            }
        }
        assert_eq!(whole(runs(&clusters, links, &list)), *after, "{what}");
        assert_eq!(clusters.in_use() as usize, after.len(), "{what}");
    }
}

/// A page without a descriptor is on the list all the same. A cut ends there.
#[test]
fn short_of_descriptors() {
    for end in [End::Head, End::Tail] {
        let world = World::new(10, 2);
        let (links, clusters, list) = (world.links(), world.clusters(2), List::default());
        (0..6).for_each(|page| clusters.push(links, &list, page, end, |_| ()));
        let of = |pages: &[u32], is_cluster| (pages.to_vec(), is_cluster);
        if end == End::Head {
            let all = [of(&[5], false), of(&[4], false), of(&[3, 2], true), of(&[1, 0], true)];
            assert_eq!(runs(&clusters, links, &list), all);
            assert_eq!(clusters.cut(links, &list, 9, 9, |_| ()).len(), 0, "the first page has no cluster");
            clusters.remove(links, &list, 5, |_| ());
            clusters.remove(links, &list, 4, |_| ());
            assert_eq!(pages(links, &clusters.cut(links, &list, 3, 9, |_| ())), [3, 2, 1, 0]);
        } else {
            let all = [of(&[0, 1], true), of(&[2, 3], true), of(&[4], false), of(&[5], false)];
            assert_eq!(runs(&clusters, links, &list), all);
            assert_eq!(pages(links, &clusters.cut(links, &list, 9, 9, |_| ())), [0, 1, 2, 3], "the cut ends at page 4");
            clusters.push(links, &list, 6, End::Tail, |_| ());
            assert_eq!(runs(&clusters, links, &list), [of(&[4], false), of(&[5], false), of(&[6], true)]);
        }
        assert_eq!(clusters.shortages.get(), 2);
    }
}

#[test]
fn a_batch_of_one_page_makes_no_clusters() {
    assert_eq!((descriptors(1000, 1), descriptors(1000, 31)), (0, 33));
    assert_eq!((Clusters::words(1000, 1024, 1), Clusters::words(1000, 1024, 31)), (0, 1024 + 66));
    assert!(!Clusters::new(&[], 1000, 31).exist());
    let world = World::new(10, 4);
    let (links, clusters, list) = (world.links(), world.clusters(3), List::default());
    (0..3).for_each(|page| clusters.push(links, &list, page, End::Head, |_| ()));
    clusters.set_limit(1);
    clusters.push(links, &list, 3, End::Head, |_| ());
    assert_eq!(runs(&clusters, links, &list), [(vec![3], false), (vec![2, 1, 0], true)]);
    assert_eq!(clusters.shortages.get(), 0);
}

#[test]
fn each_piece_of_memory_is_told() {
    let world = World::new(10, 4);
    let (links, clusters, list) = (world.links(), world.clusters(3), List::default());
    let seen = RefCell::new(vec![]);
    let touch = |touch| seen.borrow_mut().push(touch);
    let push = |page| {
        clusters.push(links, &list, page, End::Head, touch);
        seen.take()
    };
    use Touch::Page;
    let cluster = |number| Touch::Cluster(Cluster(number));
    assert_eq!(push(0), [cluster(0)]);
    assert_eq!(push(1), [Page(0), cluster(0)]);
    push(2);
    assert_eq!(push(3), [Page(2), cluster(0), cluster(1)]);
    clusters.remove(links, &list, 1, touch);
    assert_eq!(seen.take(), [cluster(0), Page(2), Page(0)]);
    assert_eq!(clusters.cut(links, &list, 9, 9, touch).len(), 3);
    assert_eq!(seen.take(), [Page(3), cluster(1), Page(3), Page(2), cluster(0), Page(0)]);
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Push(usize, bool),
    Remove(usize, u32),
    Cut(usize, u32, u32),
    Limit(u32),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => (0..2_usize, any::<bool>()).prop_map(|(list, head)| Op::Push(list, head)),
        4 => (0..2_usize, any::<u32>()).prop_map(|(list, nth)| Op::Remove(list, nth)),
        2 => (0..2_usize, 0..12_u32, 0..12_u32).prop_map(|(list, want, room)| Op::Cut(list, want, room)),
        1 => (0..5_u32).prop_map(Op::Limit),
    ]
}

/// A list as in the specification: each page with its cluster.
type Model = Vec<(u32, Option<u32>)>;

fn len(model: &Model, cluster: u32) -> u32 {
    model.iter().filter(|(_, of)| *of == Some(cluster)).count() as u32
}

proptest! {
    /// Two lists that share descriptors behave like lists of pages with labels.
    #[test]
    fn clusters_are_labels(ops in prop::collection::vec(op(), 0..200), few in 1..12_u64) {
        let world = World::new(64, few);
        let (links, clusters) = (world.links(), world.clusters(3));
        let lists: [List; 2] = Default::default();
        let mut models: [Model; 2] = Default::default();
        let (mut away, mut limit, mut label): (Vec<u32>, _, _) = ((0..64).collect(), 3, 0);
        for op in ops {
            match op {
                Op::Push(at, head) => {
                    let Some(page) = away.pop() else { continue };
                    let mut labels: Vec<_> = models.iter().flatten().filter_map(|(_, of)| *of).collect();
                    labels.dedup();
                    let model = &mut models[at];
                    let neighbour = if head { model.first() } else { model.last() };
                    let joined = neighbour.and_then(|(_, of)| *of).filter(|of| len(model, *of) < limit);
                    let begun = (limit > 1 && (labels.len() as u64) < few).then(|| {
                        label += 1;
                        label
                    });
                    model.insert(if head { 0 } else { model.len() }, (page, joined.or(begun)));
                    clusters.push(links, &lists[at], page, if head { End::Head } else { End::Tail }, |_| ());
                }
                Op::Remove(at, nth) => {
                    let Some(nth) = (nth as usize).checked_rem(models[at].len()) else { continue };
                    let (page, _) = models[at].remove(nth);
                    clusters.remove(links, &lists[at], page, |_| ());
                    away.push(page);
                }
                Op::Cut(at, want, room) => {
                    let model = &mut models[at];
                    let mut came: Vec<u32> = vec![];
                    while (came.len() as u32) < want
                        && let Some((_, Some(first))) = model.first().copied()
                        && len(model, first) + came.len() as u32 <= room
                    {
                        let next = len(model, first) as usize;
                        came.extend(model.drain(..next).map(|(page, _)| page));
                    }
                    prop_assert!((came.len() as u32) < want + 4.max(limit));
                    prop_assert_eq!(&pages(links, &clusters.cut(links, &lists[at], want, room, |_| ())), &came);
                    away.extend(came);
                }
                Op::Limit(pages) => {
                    limit = pages;
                    clusters.set_limit(pages);
                }
            }
            let mut in_use = 0;
            for (list, model) in lists.iter().zip(&models) {
                let modelled: Vec<_> = model.chunk_by(|a, b| a.1.is_some() && a.1 == b.1)
                    .map(|run| (run.iter().map(|(page, _)| *page).collect::<Vec<_>>(), run[0].1.is_some()))
                    .collect();
                in_use += modelled.iter().filter(|(_, is_cluster)| *is_cluster).count() as u32;
                prop_assert_eq!(runs(&clusters, links, list), modelled);
            }
            prop_assert_eq!(clusters.in_use(), in_use);
        }
    }
}
