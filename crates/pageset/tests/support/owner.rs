//! An owner that knows the contents of its pages. It stamps every page of a block with the block's number, moves the
//! stamps with the block, and detects pages that were lost, duplicated or not copied.
//!
//! Its lock is never held during a call of the allocator, so threads and explorers of schedules can use it.
#![allow(dead_code, unreachable_pub, reason = "each program that includes it uses a part")]

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pageset::{Allocator, Block, Machine, MoveError, Order, Owner, Pfn, Request};

/// The number of a block, which stays when the block moves.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Id(pub u64);

#[derive(Clone, Copy, Debug)]
struct Held {
    id: Id,
    order: Order,
    isolated: bool,
}

/// The contents of a page: its block, and its index in the block.
type Stamp = (Id, u64);

#[derive(Default)]
struct State {
    next: u64,
    /// The blocks, by their first pages.
    blocks: BTreeMap<Pfn, Held>,
    places: HashMap<Id, Pfn>,
    memory: HashMap<Pfn, Stamp>,
    isolations: usize,
    moves: usize,
    moved: Vec<(Pfn, Pfn, Order)>,
}

type Hook<'w> = Box<dyn Fn(Pfn) + Send + Sync + 'w>;
type Verdict<'w> = Box<dyn Fn(usize) -> Option<MoveError> + Send + Sync + 'w>;

/// The owner of the blocks that were allocated through it, or given to it.
pub struct StampingOwner<'w, 'a, M: Machine> {
    world: &'w Allocator<'a, M>,
    state: Mutex<State>,
    /// Called before each isolation, without any lock.
    before_isolation: Option<Hook<'w>>,
    /// Whether and how the n-th move fails.
    fails: Option<Verdict<'w>>,
}

impl<M: Machine> fmt::Debug for StampingOwner<'_, '_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StampingOwner")
    }
}

impl<'w, 'a, M: Machine> StampingOwner<'w, 'a, M> {
    pub fn new(world: &'w Allocator<'a, M>) -> Self {
        StampingOwner { world, state: Mutex::default(), before_isolation: None, fails: None }
    }

    /// Adds a hook that runs just before each isolation: a race that the owner loses.
    pub fn before_isolation(mut self, hook: impl Fn(Pfn) + Send + Sync + 'w) -> Self {
        self.before_isolation = Some(Box::new(hook));
        self
    }

    /// Adds failing moves. Moves are numbered from 0.
    pub fn failing(mut self, fails: impl Fn(usize) -> Option<MoveError> + Send + Sync + 'w) -> Self {
        self.fails = Some(Box::new(fails));
        self
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Allocates a block and stamps its pages.
    pub fn alloc(&self, request: &Request) -> Option<Id> {
        let pfn = self.world.alloc(request).ok()?;
        Some(self.adopt(pfn, request.order))
    }

    /// Takes over an allocated block.
    pub fn adopt(&self, pfn: Pfn, order: Order) -> Id {
        let mut state = self.state();
        let id = Id(state.next);
        state.next += 1;
        state.blocks.insert(pfn, Held { id, order, isolated: false });
        state.places.insert(id, pfn);
        for i in 0..order.pages() {
            let old = state.memory.insert(pfn.offset(i), (id, i));
            assert_eq!(old, None, "page {} was handed out twice", pfn.offset(i));
        }
        id
    }

    /// Removes a block from the owner, still allocated; `None` if it is isolated.
    pub fn release(&self, id: Id) -> Option<Block> {
        let mut state = self.state();
        let pfn = state.places[&id];
        let Held { order, isolated, .. } = state.blocks[&pfn];
        if isolated {
            return None;
        }
        state.blocks.remove(&pfn);
        state.places.remove(&id);
        for i in 0..order.pages() {
            assert_eq!(state.memory.remove(&pfn.offset(i)), Some((id, i)), "the contents of {}", pfn.offset(i));
        }
        Some(Block { pfn, order })
    }

    /// Frees a block. Returns false if it is isolated.
    pub fn free(&self, id: Id) -> bool {
        let Some(block) = self.release(id) else { return false };
        self.world.free(block.pfn, block.order).expect("it is in use");
        true
    }

    /// The block that begins at a page.
    pub fn at(&self, pfn: Pfn) -> Option<Id> {
        self.state().blocks.get(&pfn).map(|held| held.id)
    }

    pub fn place(&self, id: Id) -> Pfn {
        self.state().places[&id]
    }

    /// All blocks, by their pages.
    pub fn blocks(&self) -> Vec<(Id, Block)> {
        self.state().blocks.iter().map(|(&pfn, held)| (held.id, Block { pfn, order: held.order })).collect()
    }

    /// Pages of all blocks.
    pub fn pages(&self) -> u64 {
        self.state().blocks.values().map(|held| held.order.pages()).sum()
    }

    /// The number of isolation requests and of moves.
    pub fn calls(&self) -> (usize, usize) {
        let state = self.state();
        (state.isolations, state.moves)
    }

    /// The moves made: from, to, order.
    pub fn moved(&self) -> Vec<(Pfn, Pfn, Order)> {
        self.state().moved.clone()
    }

    /// Checks that every block is in its place with its contents, that none is isolated, and that no other block
    /// exists.
    pub fn check(&self) {
        let state = self.state();
        let mut pages = 0;
        for (&pfn, held) in &state.blocks {
            assert!(!held.isolated, "{pfn} was neither moved nor put back");
            assert_eq!(state.places[&held.id], pfn);
            for i in 0..held.order.pages() {
                assert_eq!(state.memory[&pfn.offset(i)], (held.id, i), "the contents of {}", pfn.offset(i));
            }
            pages += held.order.pages();
        }
        assert_eq!(state.memory.len() as u64, pages);
        assert_eq!(state.places.len(), state.blocks.len());
    }
}

impl<M: Machine> Owner for StampingOwner<'_, '_, M> {
    fn isolate(&self, pfn: Pfn) -> Option<Order> {
        self.state().isolations += 1;
        if let Some(hook) = &self.before_isolation {
            hook(pfn);
        }
        let mut state = self.state();
        let held = state.blocks.get_mut(&pfn)?;
        if held.isolated {
            return None;
        }
        held.isolated = true;
        Some(held.order)
    }

    fn move_block(&self, from: Pfn, to: Pfn, order: Order) -> Result<(), MoveError> {
        let number = self.state().moves;
        self.state().moves += 1;
        if let Some(error) = self.fails.as_ref().and_then(|fails| fails(number)) {
            return Err(error);
        }
        let mut state = self.state();
        let held = state.blocks.remove(&from).expect("a block of ours");
        assert!(held.isolated && held.order == order, "{from} is moved as order {order}: {held:?}");
        assert!(to.is_aligned(order), "{to}");
        state.blocks.insert(to, Held { isolated: false, ..held });
        state.places.insert(held.id, to);
        for i in 0..order.pages() {
            let stamp = state.memory.remove(&from.offset(i)).expect("a page of ours");
            let old = state.memory.insert(to.offset(i), stamp);
            assert_eq!(old, None, "page {} was handed out twice", to.offset(i));
        }
        state.moved.push((from, to, order));
        Ok(())
    }

    fn put_back(&self, pfn: Pfn, order: Order) {
        let mut state = self.state();
        let held = state.blocks.get_mut(&pfn).expect("a block of ours");
        assert!(held.isolated && held.order == order, "{pfn} is put back as order {order}: {held:?}");
        held.isolated = false;
    }
}
