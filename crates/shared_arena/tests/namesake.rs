//! Tests that code for the published shared_arena 0.8, which uses only the API of that version,
//! works with this crate.
#![cfg(feature = "std")]

extern crate alloc;

use alloc::sync::Arc;
use core::cmp::Ordering;
use core::mem::MaybeUninit;

use shared_arena::{Arena, ArenaArc, ArenaBox, ArenaRc, Pool, PoolBox, SharedArena};

#[derive(Debug, Default, Clone, PartialEq)]
struct Message {
    id: u64,
    body: [u8; 32],
}

impl core::fmt::Display for Message {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "message {}", self.id)
    }
}

struct Server {
    messages: Arc<SharedArena<Message>>,
}

impl Server {
    fn receive(&self, id: u64) -> ArenaBox<Message> {
        self.messages.alloc(Message { id, ..Message::default() })
    }
}

#[test]
fn conc_a_server_shares_its_arena() {
    let server = Server { messages: Arc::new(SharedArena::with_capacity(100)) };
    assert_eq!(server.messages.stats(), (0, 126));
    let (to, from) = std::sync::mpsc::channel();
    let messages = Arc::clone(&server.messages);
    let thread = std::thread::spawn(move || {
        for id in 0..20 {
            to.send(messages.alloc(Message { id, ..Message::default() })).unwrap();
        }
    });
    let ids: Vec<u64> = from.iter().map(|message: ArenaBox<Message>| message.id).collect();
    thread.join().unwrap();
    assert!(ids.into_iter().eq(0..20));
    let message = server.receive(7);
    assert_eq!(server.messages.stats().0, 1);
    drop(message);
    assert_eq!(server.messages.stats().0, 0);
}

#[test]
fn capacities_are_multiples_of_63() {
    assert_eq!(SharedArena::<u64>::with_capacity(1000).stats(), (0, 1008));
    assert_eq!(Arena::<u64>::with_capacity(1000).stats(), (0, 1008));
    assert_eq!(Pool::<u64>::with_capacity(1000).stats(), (0, 1008));
    assert_eq!(Pool::<[u8; 4096]>::with_capacity(1000).stats(), (0, 1008));
    let one = Pool::new();
    let _value: PoolBox<u64> = one.alloc(1);
    assert_eq!(one.stats(), (1, 62));
}

#[test]
fn handles_are_one_pointer_wide() {
    assert_eq!(size_of::<ArenaBox<Message>>(), size_of::<usize>());
    assert_eq!(size_of::<ArenaArc<Message>>(), size_of::<usize>());
    assert_eq!(size_of::<ArenaRc<Message>>(), size_of::<usize>());
    assert_eq!(size_of::<Option<PoolBox<Message>>>(), size_of::<usize>());
}

#[test]
fn every_arena_has_all_constructors() {
    fn init(slot: &mut MaybeUninit<Message>) -> &Message {
        slot.write(Message { id: 3, ..Message::default() })
    }
    let arena = SharedArena::new();
    let (a, b): (ArenaBox<Message>, ArenaBox<Message>) =
        (arena.alloc(Message::default()), arena.alloc_with(init));
    let (c, d): (ArenaArc<Message>, ArenaArc<Message>) =
        (arena.alloc_arc(Message::default()), arena.alloc_arc_with(init));
    let (e, f): (ArenaRc<Message>, ArenaRc<Message>) =
        (arena.alloc_rc(Message::default()), arena.alloc_rc_with(init));
    assert_eq!((a.id, b.id, c.id, d.id, e.id, f.id), (0, 3, 0, 3, 0, 3));
    assert_eq!(arena.stats().0, 6);

    let arena: Arena<Message> = Arena::default();
    let (a, b) = (arena.alloc(Message::default()), arena.alloc_with(init));
    let (c, d) = (arena.alloc_arc(Message::default()), arena.alloc_arc_with(init));
    let (e, f) = (arena.alloc_rc(Message::default()), arena.alloc_rc_with(init));
    assert_eq!((a.id, b.id, c.id, d.id, e.id, f.id), (0, 3, 0, 3, 0, 3));

    let pool = Pool::default();
    let (a, b) = (pool.alloc(Message::default()), pool.alloc_with(init));
    let (e, f) = (pool.alloc_rc(Message::default()), pool.alloc_rc_with(init));
    assert_eq!((a.id, b.id, e.id, f.id), (0, 3, 0, 3));
    assert_eq!(pool.stats(), (4, 59));
    assert!(format!("{pool:?}").starts_with("Pool { "));
}

#[test]
fn initialisers_of_the_published_crate_compile() {
    let arena = SharedArena::<Message>::new();
    let message = arena.alloc_with(|slot| {
        let place = slot.as_mut_ptr();
        // SAFETY: the initialiser owns the slot.
        let id = unsafe { &raw mut (*place).id };
        // SAFETY: the initialiser owns the slot.
        let body = unsafe { &raw mut (*place).body };
        // SAFETY: the initialiser owns the slot.
        unsafe { id.write(5) };
        // SAFETY: the initialiser owns the slot.
        unsafe { body.write([7; 32]) };
        // SAFETY: all fields were written.
        unsafe { slot.assume_init_ref() }
    });
    assert_eq!((message.id, message.body), (5, [7; 32]));
}

#[test]
fn handles_are_formatted_like_their_values() {
    let arena = SharedArena::new();
    let mut boxed = arena.alloc(Message { id: 4, ..Message::default() });
    let (arc, rc) = (arena.alloc_arc((*boxed).clone()), arena.alloc_rc((*boxed).clone()));
    assert_eq!(
        (boxed.to_string(), arc.to_string(), rc.to_string()),
        ("message 4".into(), "message 4".into(), "message 4".into())
    );
    assert_eq!(format!("{boxed:?}"), format!("{:?}", *boxed));
    assert_eq!(format!("{boxed:p}"), format!("{:p}", &raw const *boxed));
    boxed.id = 9;
    assert_eq!(boxed.id, 9);
    let (arc2, rc2) = (arc.clone(), ArenaRc::clone(&rc));
    assert_eq!((arc2.id, rc2.id), (4, 4));
}

#[test]
fn handles_outlive_their_arenas() {
    let arena = SharedArena::new();
    let (a, b, c) = (arena.alloc(1), arena.alloc_arc(2), arena.alloc_rc(3));
    drop(arena);
    let arena = Arena::new();
    let (d, e, f) = (arena.alloc(4), arena.alloc_arc(5), arena.alloc_rc(6));
    drop(arena);
    let pool = Pool::new();
    let (g, h) = (pool.alloc(7), pool.alloc_rc(8));
    drop(pool);
    assert_eq!([*a, *b, *c, *d, *e, *f, *g, *h], [1, 2, 3, 4, 5, 6, 7, 8]);
}

#[test]
fn shrinking_frees_pages() {
    let arena = SharedArena::<u64>::with_capacity(1000);
    assert!(arena.shrink_to_fit());
    assert_eq!(arena.stats(), (0, 0));
    let arena = Arena::<u64>::with_capacity(1000);
    assert!(arena.shrink_to_fit());
    // In the published crate, `Pool::shrink_to_fit` takes `&mut self` and returns nothing.
    let tidy: fn(&mut Pool<u64>) = |pool| pool.shrink_to_fit();
    let mut pool = Pool::with_capacity(1000);
    tidy(&mut pool);
    assert_eq!((arena.stats(), pool.stats()), ((0, 0), (0, 0)));
}

/// If a handle implemented a method's trait, the handle's method would hide the value's.
#[test]
fn handles_do_not_hide_methods_of_values() {
    let (arena, pool) = (SharedArena::new(), Pool::new());
    let (boxed, pooled) = (arena.alloc(3_u32), pool.alloc(3_u32));
    let (arc, rc) = (arena.alloc_arc(3_u32), pool.alloc_rc(3_u32));
    assert_eq!(
        [boxed.cmp(&5), pooled.cmp(&*boxed), arc.cmp(&rc), rc.cmp(&1)].map(|order| order as i8),
        [-1, 0, 0, 1]
    );
    assert_eq!([boxed.max(4), pooled.min(2), arc.clamp(4, 5), rc.max(1)], [4, 2, 4, 3]);
    assert_eq!((boxed.partial_cmp(&3), arc.lt(&4)), (Some(Ordering::Equal), true));

    let (arena, pool) = (SharedArena::new(), Pool::new());
    let (mut boxed, mut pooled) = (arena.alloc(Some(String::from("box"))), pool.alloc(Some(String::new())));
    let (arc, rc) = (arena.alloc_arc(Some(String::from("arc"))), pool.alloc_rc(None));
    boxed.as_mut().unwrap().push('!');
    pooled.as_mut().unwrap().push('!');
    assert_eq!((&**boxed.as_ref().unwrap(), &**pooled.as_ref().unwrap()), ("box!", "!"));
    assert!(arc.as_ref().is_some_and(|arc| arc == "arc") && rc.as_ref().is_none());
}

#[test]
fn conc_an_arena_is_sent_to_another_thread() {
    let arena = Arena::new();
    let mine = arena.alloc(String::from("mine"));
    let (arena, theirs) = std::thread::spawn(move || {
        let theirs = arena.alloc(format!("{mine} and theirs"));
        drop(mine);
        (arena, theirs)
    })
    .join()
    .unwrap();
    assert_eq!((&**theirs, arena.stats().0), ("mine and theirs", 1));
}
