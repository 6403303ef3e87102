//! Runs the suite of all allocators with operations in several scopes, in nested ones, or in none.
//! Also runs random programs with nested scopes, escaping blocks, threads, panics and cancelled
//! futures.
//!
//! The suite trims all records before its checks. The random programs trim the thread's own heaps
//! only, so their checks find units that scopes should have freed.
#![cfg(all(feature = "std", target_has_atomic = "64"))]

extern crate alloc;

use alloc::rc::Rc;
use core::alloc::Layout;
use core::future::{Future, pending};
use core::panic::AssertUnwindSafe;
use core::pin::Pin;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::task::{Context, Waker};
use std::panic::{catch_unwind, resume_unwind};
use std::thread;

use allocator_api2::alloc::{AllocError, Allocator};
use allocator_api2::vec::Vec as PoolVec;
use ephemera_testkit::SplitMix;
use ephemera_testkit::allocator_suite;
use ephemera_testkit::config;
use ephemera_testkit::job::{JobResult, ThreadJob};
use ephemera_testkit::subject::Subject;
use ephemera_testkit::suite::take_turn;
use typed_pool::{PooledAllocator, Scope};

fn scope() -> Scope {
    Scope::builder().any_global_allocator().build()
}

/// The scopes in which operations run. Each operation runs in one of the three scopes, in two
/// nested ones, or in none.
struct Scopes {
    scopes: [Scope; 3],
    steps: AtomicUsize,
}

impl Scopes {
    fn new() -> Self {
        let counting = Scope::builder().any_global_allocator().counting().build();
        Self { scopes: [scope(), scope(), counting], steps: AtomicUsize::new(0) }
    }

    fn step<R>(&self, operation: impl FnOnce() -> R) -> R {
        let [first, second, counting] = &self.scopes;
        match self.steps.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9E37_79B1) >> 8 & 7 {
            0 => operation(),
            1..=3 => first.run(operation),
            4 => first.run(|| second.run(operation)),
            5 => second.run(|| second.run(operation)),
            _ => counting.run(operation),
        }
    }
}

/// `PooledAllocator`, with each operation in the scopes that [`Scopes::step`] chooses.
#[derive(Clone, Copy)]
struct InScopes<'s>(&'s Scopes);

// SAFETY: each method calls that of `PooledAllocator`, whose values are all one allocator.
unsafe impl Allocator for InScopes<'_> {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.0.step(|| PooledAllocator.allocate(layout))
    }

    fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.0.step(|| PooledAllocator.allocate_zeroed(layout))
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: this function has the same contract.
        self.0.step(|| unsafe { PooledAllocator.deallocate(block, layout) });
    }

    unsafe fn grow(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: this function has the same contract.
        self.0.step(|| unsafe { PooledAllocator.grow(block, old, new) })
    }

    unsafe fn shrink(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: this function has the same contract.
        self.0.step(|| unsafe { PooledAllocator.shrink(block, old, new) })
    }
}

impl Subject for Scopes {
    type Alloc<'s> = InScopes<'s>;
    const HAND_OVER: bool = true;
    const GLOBAL_STATE: bool = true;

    fn fresh(&self) -> InScopes<'_> {
        InScopes(self)
    }

    fn sizes(&self) -> &[usize] {
        &[24, 80, 640, 1_024, 32 << 10, 64 << 10]
    }

    fn trim(&self, scopes: &InScopes<'_>) {
        scopes.0.step(|| PooledAllocator.trim());
    }

    fn run_job(&self, scopes: &InScopes<'_>, job: ThreadJob) -> JobResult {
        job.run_elsewhere(scopes)
    }

    fn finish(&self, _: InScopes<'_>) -> usize {
        // The scopes stay alive for the next program, so only a trim frees their empty units.
        PooledAllocator.trim_all();
        PooledAllocator.stats().bytes_held
    }
}

allocator_suite!(each_operation_in_a_scope, Scopes::new());

/// A block of equal bytes. The block's number determines the length, and the lowest byte of the
/// number is the value of each byte.
type Block = PoolVec<u8, PooledAllocator>;

fn block(number: usize) -> Block {
    let len = match number % 16 {
        0 => 40_000,
        1..4 => 3_000,
        _ => 1 + number % 200,
    };
    let mut block = Block::new_in(PooledAllocator);
    block.resize(len, number as u8);
    block
}

fn check(blocks: &[Block]) {
    for block in blocks {
        let first = block[0];
        assert!(block.iter().all(|byte| *byte == first), "a block was overwritten");
    }
}

/// A random program: its random numbers and its live values.
struct Random {
    rng: SplitMix,
    blocks: Vec<Block>,
    futures: Vec<Pin<Box<dyn Future<Output = bool>>>>,
    scopes: Vec<Rc<Scope>>,
}

impl Random {
    fn allocate(&mut self) {
        let number = self.rng.below(1_000);
        self.blocks.push(block(number));
    }

    fn free(&mut self) {
        if !self.blocks.is_empty() {
            let at = self.rng.below(self.blocks.len());
            drop(self.blocks.swap_remove(at));
        }
    }

    /// Runs a few steps in a scope, and then panics if `panics` is set.
    fn enter(&mut self, depth: usize, panics: bool) {
        let Some(scope) = self.some_scope() else { return };
        let left = catch_unwind(AssertUnwindSafe(|| {
            scope.run(|| {
                self.run(6, depth + 1);
                if panics {
                    let _lost = block(3);
                    resume_unwind(Box::new(()));
                }
            });
        }));
        assert_eq!(left.is_err(), panics);
    }

    fn some_scope(&mut self) -> Option<Rc<Scope>> {
        let at = self.rng.below(self.scopes.len());
        self.scopes.get(at).cloned()
    }

    fn start_future(&mut self) {
        let (Some(scope), number) = (self.some_scope(), self.rng.below(1_000)) else { return };
        let future = scope.run_async(async move {
            let kept = [block(number), block(number + 1)];
            pending::<()>().await;
            check(&kept);
        });
        let mut future: Pin<Box<dyn Future<Output = bool>>> = Box::pin(async { future.await.is_ok() });
        assert!(future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        self.futures.push(future);
    }

    fn on_a_thread(&mut self) {
        let half = self.blocks.len() / 2;
        let theirs: Vec<_> = self.blocks.drain(half..).collect();
        let handle = self.some_scope().map(|scope| scope.handle());
        let work = move || {
            check(&theirs);
            let mine = block(theirs.len());
            drop(theirs);
            mine
        };
        let thread = thread::spawn(move || match handle {
            Some(handle) => handle.run(work),
            None => work(),
        });
        // This thread allocates and frees while the other thread runs.
        self.allocate();
        self.free();
        self.blocks.push(thread.join().expect("no panic"));
    }

    fn run(&mut self, steps: usize, depth: usize) {
        for _ in 0..steps {
            match self.rng.below(if depth < 4 { 16 } else { 10 }) {
                0..5 => self.allocate(),
                5..8 => self.free(),
                8 => self.start_future(),
                9 => {
                    let at = self.rng.below(self.futures.len());
                    if at < self.futures.len() {
                        drop(self.futures.swap_remove(at));
                    }
                }
                10 | 11 => self.enter(depth, false),
                12 => self.enter(depth, true),
                13 => self.scopes.push(Rc::new(scope())),
                14 => {
                    let at = self.rng.below(self.scopes.len());
                    if at < self.scopes.len() {
                        drop(self.scopes.swap_remove(at));
                    }
                }
                _ => self.on_a_thread(),
            }
        }
        check(&self.blocks);
    }
}

/// Ends scopes until the heaps of this thread keep units for the next scope, and the fronts of some
/// classes are set aside. Returns escaped blocks, some of which lie in these fronts.
fn end_many_scopes() -> Vec<Block> {
    let mut escaped = Vec::new();
    // Under Miri the blocks are small, because Miri takes long to fill large ones.
    let (scopes, numbers, every) = if cfg!(miri) { (6, 4..7, 3) } else { (300, 0..16, 32) };
    for number in 0..scopes {
        scope().run(|| {
            drop(numbers.clone().map(block).collect::<Vec<_>>());
            if number % every == every - 1 {
                escaped.push(block(number));
            }
        });
    }
    escaped
}

#[test]
fn conc_random_programs_in_scopes_lose_nothing_and_keep_nothing() {
    take_turn();
    PooledAllocator.trim_all();
    for seed in 1..=config::seeds().div_ceil(2) {
        let escaped = if seed % 2 == 1 { end_many_scopes() } else { Vec::new() };
        let mut program = Random {
            rng: SplitMix::new(seed),
            blocks: escaped,
            futures: Vec::new(),
            scopes: vec![Rc::new(scope())],
        };
        program.run(if cfg!(miri) { 18 } else { 150 }, 0);
        drop(program);
        // `trim` frees only this thread's empty units, so the check finds units that scopes should
        // have freed.
        PooledAllocator.trim();
        let stats = PooledAllocator.stats();
        assert_eq!((stats.bytes_held, stats.live()), (0, 0), "seed {seed}: {stats:?}");
    }
}
