//! A session table. Threads log users in, and each login replaces the user's session. Each request
//! keeps the session that it began with. Each thread also has a queue of weak handles to its most
//! recent sessions, which does not keep these sessions alive.
//!
//! Run it with `cargo run --release -p shared_arena --example sessions`.

#![expect(clippy::std_instead_of_alloc, reason = "a program that always has std")]

use core::hash::BuildHasherDefault;
use std::collections::{HashMap, VecDeque};
use std::hash::DefaultHasher;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

use ephemera_testkit::backing::CountingGlobal;
use shared_arena::{ArenaArc, SharedArena};

#[global_allocator]
static HEAP: CountingGlobal = CountingGlobal::new(1);

const USERS: u64 = 1_000;
const LOGINS: u64 = 20_000;
const THREADS: u64 = 2;

/// The number of recent sessions to which each thread's queue has a weak handle.
const RECENT: usize = 256;

struct Session {
    user: u64,
    token: [u8; 32],
}

impl Session {
    fn new(login: u64) -> Self {
        Self { user: login % USERS, token: [login.to_le_bytes()[0]; 32] }
    }
}

type Table<H> = Mutex<HashMap<u64, H, BuildHasherDefault<DefaultHasher>>>;

/// Logs users in on several threads. Each login replaces the user's session. Returns a sum over all
/// sessions that the requests saw.
fn log_in<H, W>(table: &Table<H>, make: impl Fn(Session) -> H + Sync, weak: impl Fn(&H) -> W + Sync) -> u64
where
    H: core::ops::Deref<Target = Session> + Clone + Send + Sync,
    W: Send,
{
    let part = |first: u64| {
        let mut recent = VecDeque::with_capacity(RECENT + 1);
        let logins = (first..LOGINS).step_by(THREADS as usize);
        let seen = logins.map(|login| {
            let session = make(Session::new(login));
            recent.push_back(weak(&session));
            if recent.len() > RECENT {
                recent.pop_front();
            }
            let request = session.clone();
            let replaced = table.lock().expect("no thread panics").insert(session.user, session);
            drop(replaced);
            request.user + u64::from(request.token[31])
        });
        seen.sum::<u64>()
    };
    thread::scope(|scope| {
        let all: Vec<_> = (0..THREADS).map(|first| scope.spawn(move || part(first))).collect();
        all.into_iter().map(|thread| thread.join().expect("no thread panics")).sum::<u64>()
    })
}

/// Returns an empty table with room for more entries than there are users, so the table does not
/// grow.
fn table<H>() -> Table<H> {
    Mutex::new(HashMap::with_capacity_and_hasher(2 * USERS as usize, BuildHasherDefault::default()))
}

fn main() {
    let sessions: Table<Arc<Session>> = table();
    let start = Instant::now();
    let (sum, heap) = HEAP.watch(|| log_in(&sessions, Arc::new, Arc::<Session>::downgrade));
    let on_heap = start.elapsed();

    let arena = SharedArena::new();
    let sessions: Table<ArenaArc<Session>> = table();
    let start = Instant::now();
    let make = |session| arena.alloc_arc(session);
    let (same, here) = HEAP.watch(|| log_in(&sessions, make, ArenaArc::downgrade));
    let on_arena = start.elapsed();

    println!("{LOGINS} logins of {USERS} users on {THREADS} threads, sum {sum}");
    println!("Arc:      {:6} requests for memory, at most {} bytes, {on_heap:?}", heap.requests, heap.peak);
    println!("ArenaArc: {:6} requests for memory, at most {} bytes, {on_arena:?}", here.requests, here.peak);
    let stats = arena.statistics();
    println!("The arena holds {} bytes for {} sessions of 40 bytes.", stats.bytes_held, stats.slots_live);
    println!("It saved {} requests for memory.", heap.requests - here.requests);
    assert_eq!(sum, same, "both tables saw the same sessions");
    assert_eq!(stats.slots_live as u64, USERS, "a replaced session frees its slot");
    assert!(heap.requests as u64 >= LOGINS && here.requests < heap.requests / 10);
}

#[test]
fn replaced_sessions_free_their_slots() {
    main();
}
