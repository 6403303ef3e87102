//! The map from addresses to superblocks: a tree of two levels with a word for each 2 MiB. A word
//! is null, or contains the address of a superblock's `Home` with the order of the spans in the
//! lowest bits.
//!
//! # Invariant
//!
//! * **G4** The entries of the 2 MiB pieces of an open superblock name the superblock and its
//!   order. They are written before the superblock opens and cleared after it has closed, so they
//!   are correct while a thread owns a span of the superblock.

use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicPtr, Ordering};

use super::PermanentLink;
use super::directory::Home;
use super::notes::ADDRESS_BITS;
use super::order::{ORDERS, Order};
use super::os;

/// The number of bytes for each entry of the map. The addresses and lengths of superblocks are
/// multiples of it.
pub(super) const PIECE: usize = 1 << PIECE_BITS;
const PIECE_BITS: u32 = 21;

const LEAF_BITS: u32 = if ADDRESS_BITS - PIECE_BITS < 13 { ADDRESS_BITS - PIECE_BITS } else { 13 };
const ROOT_BITS: u32 = ADDRESS_BITS - PIECE_BITS - LEAF_BITS;

/// The mask of an entry's lowest bits, which hold the order.
const ORDER_BITS: usize = align_of::<Home>() - 1;
const _: () = assert!(ORDERS - 1 <= ORDER_BITS, "the order fits below the address");

/// A leaf of the tree, with an entry for each piece of 2 MiB.
type Leaf = [AtomicPtr<Home>; 1 << LEAF_BITS];

/// The length of the mapping of a leaf, which must be a multiple of the grain.
const LEAF_LEN: usize = size_of::<Leaf>().next_multiple_of(os::GRAIN);

static ROOT: [PermanentLink<Leaf>; 1 << ROOT_BITS] = [const { PermanentLink::new() }; 1 << ROOT_BITS];

/// Returns the numbers of the leaf and of the entry for an address, or `None` if the map does not
/// cover the address.
const fn place_of(addr: usize) -> Option<(usize, usize)> {
    let piece = addr >> PIECE_BITS;
    let leaf = piece >> LEAF_BITS;
    if leaf >= 1 << ROOT_BITS { None } else { Some((leaf, piece & ((1 << LEAF_BITS) - 1))) }
}

/// Makes a leaf without entries. Returns `None` if there is no memory for it.
#[cold]
fn new_leaf() -> Option<&'static Leaf> {
    let zeros = os::map(LEAF_LEN, os::GRAIN)?.cast::<Leaf>();
    // SAFETY: the zeros of the mapping are null pointers, and a leaf is never unmapped.
    Some(unsafe { zeros.as_ref() })
}

/// Returns the superblock that contains an address and the order of its spans. Returns `None` if no
/// superblock contains the address.
#[inline]
pub(super) fn find(addr: usize) -> Option<(NonNull<Home>, Order)> {
    let (number, entry) = place_of(addr)?;
    // ORDERING: Acquire. Pairs with the Release in `set`.
    let entry = NonNull::new(ROOT[number].get()?[entry].load(Ordering::Acquire))?;
    let order = Order::of_index(entry.addr().get() & ORDER_BITS);
    // SAFETY: by G4, the entry is the address of a `Home` plus this order, which is less than the
    // size of a `Home`.
    let home = unsafe { entry.byte_sub(order.index()) };
    Some((home, order))
}

/// Writes the entries of a superblock. Returns `false` if there is no memory for a leaf or the map
/// does not cover these addresses. This function may then have written some of the entries.
pub(super) fn set(base: NonNull<u8>, order: Order, home: NonNull<Home>) -> bool {
    let word = home.as_ptr().wrapping_byte_add(order.index());
    each(base, order, |number, entry| {
        let Some(leaf) = ROOT[number].get_or_make(new_leaf) else { return false };
        // ORDERING: Release. Pairs with the Acquire in `find`. Publishes: the superblock's words.
        leaf[entry].store(word, Ordering::Release);
        true
    })
}

/// Clears the entries of a superblock.
pub(super) fn clear(base: NonNull<u8>, order: Order) {
    each(base, order, |number, entry| {
        if let Some(leaf) = ROOT[number].get() {
            leaf[entry].store(ptr::null_mut(), Ordering::Relaxed);
        }
        true
    });
}

/// Calls `visit` with the numbers of the leaf and of the entry for each piece of a superblock,
/// until `visit` returns `false` or the map does not cover a piece. Returns whether it visited all
/// pieces.
fn each(base: NonNull<u8>, order: Order, visit: impl Fn(usize, usize) -> bool) -> bool {
    (0..order.superblock() / PIECE).all(|piece| {
        let place = place_of(base.addr().get() + piece * PIECE);
        place.is_some_and(|(number, entry)| visit(number, entry))
    })
}
