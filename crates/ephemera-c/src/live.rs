//! The table of live blocks, in builds with debug assertions. It has a bit for each address at
//! which a block can start. With this table, the library detects every free of an address at which
//! no live block starts. Without debug assertions, there is no table, and every address counts as
//! the address of a live block.
//!
//! ```text
//!   ROOT: 2^14 pointers --> LiveLeaf: 2^13 pointers --> LivePiece: 2^17 bits, for 2 MiB
//! ```
//!
//! The tables come from `pages` and are never freed. They take about 1/128 of the memory that
//! blocks have ever used.

use core::alloc::Layout;
use core::cell::Cell;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use ephemera_prim::pages;

/// The minimum alignment of a block in bytes, as C requires for its largest basic types.
pub(crate) const MIN_ALIGN: usize = 16;

const PIECE_BITS: u32 = 21;
const LEAF_BITS: u32 = 13;
const ROOT_BITS: u32 = 48 - LEAF_BITS - PIECE_BITS;
const WORDS: usize = (1 << PIECE_BITS) / MIN_ALIGN / 64;

struct LivePiece([AtomicU64; WORDS]);
struct LiveLeaf([AtomicPtr<LivePiece>; 1 << LEAF_BITS]);

static ROOT: [AtomicPtr<LiveLeaf>; 1 << ROOT_BITS] =
    [const { AtomicPtr::new(ptr::null_mut()) }; 1 << ROOT_BITS];

/// The position of the bit for an address: the entry in the root, the index of the entry in the
/// leaf, the index of the word in the piece, and a mask with one bit of the word.
type PlaceBits = (&'static AtomicPtr<LiveLeaf>, usize, usize, u64);

/// Returns the position of the bit for an address, or `None` if no block can start there.
fn place_of(addr: usize) -> Option<PlaceBits> {
    let bits = |from: u32, count: u32| (addr >> from) & ((1 << count) - 1);
    let root = ROOT.get(addr >> (PIECE_BITS + LEAF_BITS))?;
    let granule = bits(0, PIECE_BITS) / MIN_ALIGN;
    let bit = 1 << (granule % 64);
    (addr % MIN_ALIGN == 0).then_some((root, bits(PIECE_BITS, LEAF_BITS), granule / 64, bit))
}

/// Returns the table that an entry points to, or `None` if the entry is null.
fn table_of<T>(entry: &AtomicPtr<T>) -> Option<&'static T> {
    // ORDERING: Acquire. Pairs with the Release in `table_or_new`: this thread sees the zeroed
    // table.
    let table = entry.load(Ordering::Acquire);
    // SAFETY: the pointer is null or points to a table, which is never freed.
    unsafe { table.as_ref() }
}

/// Allocates a table of zeros, which is never freed. Returns `None` if there is no memory.
fn make<T>() -> Option<NonNull<T>> {
    Some(pages::permanent(Layout::new::<T>()).ok()?.cast())
}

/// Spare tables for a block whose address is not known yet.
pub(crate) struct Spare {
    leaf: Cell<Option<NonNull<LiveLeaf>>>,
    piece: Cell<Option<NonNull<LivePiece>>>,
}

static SPARE_LEAF: AtomicPtr<LiveLeaf> = AtomicPtr::new(ptr::null_mut());
static SPARE_PIECE: AtomicPtr<LivePiece> = AtomicPtr::new(ptr::null_mut());

impl Spare {
    /// Returns tables with which the next [`enter`] succeeds. Returns `None` if there is no memory
    /// for them.
    pub(crate) fn new() -> Option<Self> {
        if !cfg!(debug_assertions) {
            return Some(Self { leaf: Cell::new(None), piece: Cell::new(None) });
        }
        let spare = Self { leaf: Cell::new(take(&SPARE_LEAF)), piece: Cell::new(take(&SPARE_PIECE)) };
        spare.leaf.set(Some(spare.leaf.get().or_else(make)?));
        spare.piece.set(Some(spare.piece.get().or_else(make)?));
        Some(spare)
    }
}

impl Drop for Spare {
    /// Keeps the unused tables for the next value of this type.
    fn drop(&mut self) {
        keep(&SPARE_LEAF, self.leaf.get());
        keep(&SPARE_PIECE, self.piece.get());
    }
}

fn take<T>(place: &AtomicPtr<T>) -> Option<NonNull<T>> {
    // ORDERING: Acquire. Pairs with the Release in `keep`: this thread sees the table.
    NonNull::new(place.swap(ptr::null_mut(), Ordering::Acquire))
}

fn keep<T>(place: &AtomicPtr<T>, table: Option<NonNull<T>>) {
    if let Some(table) = table {
        // ORDERING: Release. Pairs with the Acquire in `take`. Publishes: the table. If another
        // thread has stored a table, this one is leaked.
        let _ = place.compare_exchange(ptr::null_mut(), table.as_ptr(), Ordering::Release, Ordering::Relaxed);
    }
}

/// Returns the table that an entry points to. If there is none, stores the spare table or a new one
/// first. Returns `None` if there is no memory for a new one.
fn table_or_new<T>(entry: &AtomicPtr<T>, spare: Option<&Cell<Option<NonNull<T>>>>) -> Option<&'static T> {
    if table_of(entry).is_none() {
        let fresh = spare.and_then(Cell::take).or_else(make)?.as_ptr();
        // ORDERING: Release. Pairs with the Acquire in `table_of`. Publishes: the table, whose
        // zeros are null pointers or empty words. If another thread was faster, this table is
        // leaked.
        let _ = entry.compare_exchange(ptr::null_mut(), fresh, Ordering::Release, Ordering::Relaxed);
    }
    table_of(entry)
}

/// Marks a block as live. Returns `false` if no block can start at this address, or if there is no
/// memory for a table, which cannot happen if `spare` has tables. Without debug assertions, does
/// nothing and returns `true`.
#[inline]
#[must_use]
pub(crate) fn enter(block: NonNull<u8>, spare: Option<&Spare>) -> bool {
    !cfg!(debug_assertions) || note(block, spare)
}

fn note(block: NonNull<u8>, spare: Option<&Spare>) -> bool {
    let word_of = |(root, entry, word, bit): PlaceBits| {
        let leaf = table_or_new(root, spare.map(|spare| &spare.leaf))?;
        let piece: &LivePiece = table_or_new(&leaf.0[entry], spare.map(|spare| &spare.piece))?;
        Some((&piece.0[word], bit))
    };
    let Some((word, bit)) = place_of(block.addr().get()).and_then(word_of) else { return false };
    // Relaxed: a program that passes the block to another thread must synchronise with that thread,
    // so a free there happens after this `fetch_or`.
    let before = word.fetch_or(bit, Ordering::Relaxed);
    assert!(before & bit == 0, "two live blocks have one address");
    true
}

fn word_of(block: NonNull<u8>) -> Option<(&'static AtomicU64, u64)> {
    let (root, entry, word, bit) = place_of(block.addr().get())?;
    Some((&table_of(&table_of(root)?.0[entry])?.0[word], bit))
}

/// Returns whether a live block starts at this address; always `true` without debug assertions.
#[inline]
#[must_use]
pub(crate) fn is_live(block: NonNull<u8>) -> bool {
    !cfg!(debug_assertions)
        || word_of(block).is_some_and(|(word, bit)| word.load(Ordering::Relaxed) & bit != 0)
}

/// Marks a block as freed. Returns `false` if no live block starts at this address. Without debug
/// assertions, does nothing and returns `true`.
#[inline]
#[must_use]
pub(crate) fn leave(block: NonNull<u8>) -> bool {
    !cfg!(debug_assertions)
        || word_of(block).is_some_and(|(word, bit)| word.fetch_and(!bit, Ordering::Relaxed) & bit != 0)
}
