//! The cache model: a private cache of infinite size for each core, kept coherent by MESI.
//!
//! Infinite caches never evict a line, so an access causes an event only if another core accessed
//! the line before.

use std::collections::HashMap;

/// The size of a cache line in bytes.
const LINE: u64 = 64;

/// The maximum number of cores. The state of a line has one bit for each core.
pub const CORES: usize = 128;

/// The kind of an access. An atomic read-modify-write is a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineAccess {
    /// A load.
    Load,
    /// A store, or a load and a store in one instruction.
    Store,
}

/// A message between caches that one access causes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A load of a line that only other caches contain. A copy of the line moves.
    Read,
    /// A store to a line that this cache and others contain. The others drop their copies; no line
    /// moves.
    Upgrade,
    /// A store to a line that only other caches contain. The line moves, and the others drop their
    /// copies.
    Transfer,
}

/// The caches that contain a line.
#[derive(Clone, Copy, Debug)]
enum LineState {
    /// One cache contains the line and may write it: *modified* or *exclusive*.
    Owned(usize),
    /// The caches with these bits contain the line and may read it.
    Shared(u128),
}

/// The private caches of all cores.
#[derive(Debug, Default)]
pub struct Caches {
    lines: HashMap<u64, LineState>,
}

impl Caches {
    /// Returns the numbers of the lines that an access of `bytes` bytes at `address` touches. An
    /// access of 0 bytes counts as one of 1 byte.
    pub fn lines(address: u64, bytes: u64) -> impl Iterator<Item = u64> {
        let last = address.saturating_add(bytes.max(1) - 1);
        address / LINE..=last / LINE
    }

    /// Accesses a line from a core. Returns the event that the access causes, or `None` if the
    /// core's cache may already access the line in this way, or if no cache contained the line.
    ///
    /// # Panics
    ///
    /// Panics if `core` is not below [`CORES`].
    pub fn access(&mut self, core: usize, line: u64, access: LineAccess) -> Option<Event> {
        assert!(core < CORES, "the model has {CORES} cores");
        let mine = 1_u128 << core;
        let Some(state) = self.lines.get_mut(&line) else {
            self.lines.insert(line, LineState::Owned(core));
            return None;
        };
        match (*state, access) {
            (LineState::Owned(owner), _) if owner == core => None,
            (LineState::Owned(owner), LineAccess::Load) => {
                *state = LineState::Shared(mine | 1 << owner);
                Some(Event::Read)
            }
            (LineState::Shared(sharers), LineAccess::Load) => {
                *state = LineState::Shared(sharers | mine);
                (sharers & mine == 0).then_some(Event::Read)
            }
            (LineState::Owned(_), LineAccess::Store) => {
                *state = LineState::Owned(core);
                Some(Event::Transfer)
            }
            (LineState::Shared(sharers), LineAccess::Store) => {
                *state = LineState::Owned(core);
                Some(if sharers & mine == 0 { Event::Transfer } else { Event::Upgrade })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::LineAccess::{Load, Store};
    use super::{Caches, Event, LineAccess};
    use proptest::collection::vec;
    use proptest::prelude::{Strategy, any, proptest};

    /// Returns the event of each access. An access is a core, a line and a kind.
    fn events(accesses: &[(usize, u64, LineAccess)]) -> Vec<Option<Event>> {
        let mut caches = Caches::default();
        accesses.iter().map(|&(core, line, access)| caches.access(core, line, access)).collect()
    }

    fn total(accesses: &[(usize, u64, LineAccess)]) -> usize {
        events(accesses).into_iter().flatten().count()
    }

    #[test]
    fn one_core_moves_no_line() {
        let accesses: Vec<_> =
            (0..1000).map(|step| (0, step % 7, if step % 3 == 0 { Store } else { Load })).collect();
        assert_eq!(total(&accesses), 0);
    }

    #[test]
    fn two_cores_that_add_to_one_word_move_its_line_each_time() {
        let accesses: Vec<_> = (0..1000).map(|step| (step % 2, 0, Store)).collect();
        assert_eq!(total(&accesses), 999, "all but the first");
    }

    #[test]
    fn padding_ends_false_sharing() {
        let addresses = |distance: u64| -> Vec<_> {
            (0..100_u64)
                .flat_map(|step| {
                    Caches::lines(step % 2 * distance, 8).map(move |line| ((step % 2) as usize, line, Store))
                })
                .collect()
        };
        assert_eq!((total(&addresses(8)), total(&addresses(64))), (99, 0));
    }

    #[test]
    fn an_access_across_two_lines_touches_both() {
        assert_eq!(Caches::lines(60, 8).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(Caches::lines(56, 8).collect::<Vec<_>>(), [0]);
        assert_eq!(Caches::lines(64, 0).collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn loads_share_a_line_and_a_store_claims_it() {
        let accesses =
            [(0, 0, Store), (1, 0, Load), (1, 0, Load), (0, 0, Store), (1, 0, Store), (1, 0, Store)];
        let expected = [None, Some(Event::Read), None, Some(Event::Upgrade), Some(Event::Transfer), None];
        assert_eq!(events(&accesses), expected);
    }

    /// Returns the events according to a second implementation of the protocol. It keeps one MESI
    /// letter for each cache and line, and no other state.
    fn by_letters(accesses: &[(usize, u64, LineAccess)]) -> Vec<Option<Event>> {
        let mut letters = [[b'I'; 4]; 4];
        let mut step = |&(core, line, access): &(usize, u64, LineAccess)| {
            let line = &mut letters[line as usize];
            let others = (0..line.len()).any(|other| other != core && line[other] != b'I');
            let had = line[core];
            let event = match (had, access) {
                (b'M' | b'E', _) | (b'S', Load) => None,
                (b'S', Store) => others.then_some(Event::Upgrade),
                (_, Load) => others.then_some(Event::Read),
                (_, Store) => others.then_some(Event::Transfer),
            };
            match access {
                Store => {
                    *line = [b'I'; 4];
                    line[core] = b'M';
                }
                Load if had == b'I' => {
                    for letter in line.iter_mut().filter(|letter| **letter != b'I') {
                        *letter = b'S';
                    }
                    line[core] = if others { b'S' } else { b'E' };
                }
                Load => {}
            }
            event
        };
        accesses.iter().map(&mut step).collect()
    }

    proptest! {
        #[test]
        fn the_model_agrees_with_a_letter_for_each_cache(
            accesses in vec((0..4_usize, 0..4_u64, any::<bool>().prop_map(|load| if load { Load } else { Store })), 0..200)
        ) {
            assert_eq!(events(&accesses), by_letters(&accesses));
        }

        /// A core loses a line only when another core stores to it, so the number of stores bounds
        /// the number of misses.
        #[test]
        fn a_line_moves_at_most_once_for_each_core_and_store(
            accesses in vec((0..8_usize, any::<bool>().prop_map(|load| if load { Load } else { Store })), 0..200)
        ) {
            let accesses: Vec<_> = accesses.into_iter().map(|(core, access)| (core, 0, access)).collect();
            let stores = accesses.iter().filter(|(_, _, access)| *access == Store).count();
            let reads = events(&accesses).into_iter().filter(|event| *event == Some(Event::Read)).count();
            let claims = total(&accesses) - reads;
            assert!(claims <= stores, "{claims} claims by {stores} stores");
            assert!(reads <= 7 * (stores + 1), "{reads} reads after {stores} stores");
        }
    }
}
