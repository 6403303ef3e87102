//! The lengths of spans and superblocks.
#![forbid(unsafe_code)]

use core::alloc::Layout;

use super::bounds::SPAN_MIN;

/// The number of span lengths.
pub(super) const ORDERS: usize = 6;
/// The size of the largest span, in bytes.
pub const SPAN_MAX: usize = SPAN_MIN << (ORDERS - 1);

/// The largest length of a superblock, in bytes.
const SUPERBLOCK_MAX: usize = 8 << 20;

/// A span length: the number of times that [`SPAN_MIN`] is doubled.
#[derive(Clone, Copy)]
pub(super) struct Order(usize);

impl Order {
    /// All orders, the smallest spans first.
    pub(super) const ALL: [Self; ORDERS] = [Self(0), Self(1), Self(2), Self(3), Self(4), Self(5)];

    /// Returns the order of the spans for a layout, or `None` if the block has its own mapping.
    pub(super) const fn of(layout: Layout) -> Option<Self> {
        let need = if layout.size() > layout.align() { layout.size() } else { layout.align() };
        if need > SPAN_MAX {
            return None;
        }
        let need = if need < SPAN_MIN { SPAN_MIN } else { need.next_power_of_two() };
        Some(Self((need.trailing_zeros() - SPAN_MIN.trailing_zeros()) as usize))
    }

    /// Returns the order of spans of twice the length, if there is one.
    pub(super) fn next(self) -> Option<Self> {
        Self::ALL.get(self.0 + 1).copied()
    }

    /// Returns the order with this number. The number must be less than [`ORDERS`].
    pub(super) const fn of_index(index: usize) -> Self {
        Self(index)
    }

    /// Returns the number of this order.
    pub(super) const fn index(self) -> usize {
        self.0
    }

    /// Returns the length of a span, in bytes.
    pub(super) const fn span(self) -> usize {
        SPAN_MIN << self.0
    }

    /// Returns the number of spans in a superblock.
    pub(super) fn spans(self) -> usize {
        (SUPERBLOCK_MAX / self.span()).min(64)
    }

    /// Returns the length of a superblock, in bytes.
    pub(super) fn superblock(self) -> usize {
        self.span() * self.spans()
    }

    /// Returns a word with a set bit for each span of a superblock.
    pub(super) fn all_bits(self) -> u64 {
        u64::MAX >> (64 - self.spans())
    }
}
