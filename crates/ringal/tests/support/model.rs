//! An oracle for a ring: a model of the live regions that predicts the ring's answers.
//!
//! The oracle treats the live regions as intervals in the store. It checks that
//! * every region lies in the store, does not overlap another region, and is aligned as requested;
//! * the ring serves a request if and only if a gap between live regions is long enough;
//! * every live buffer contains the bytes that were written to it;
//! * the statistics match the live regions.
//!
//! A program is a byte string, so proptest and a fuzzer can generate it.

use alloc::collections::BTreeMap;
use std::io::Write;

use ringal::{FixedBuf, FixedBufMut, GenericBufMut, RequestError, RingAl};

/// The length of a guard in bytes. [`OVERHEAD`] is the part of a region that a buffer cannot use.
const GRANULE: usize = if cfg!(feature = "checked") { 4 * size_of::<usize>() } else { 16 };
const OVERHEAD: usize = GRANULE + if cfg!(feature = "checked") { 32 } else { 0 };

/// Returns the length of a region for a buffer of `bytes` bytes.
pub(crate) fn region(bytes: usize) -> usize {
    bytes.next_multiple_of(GRANULE) + OVERHEAD
}

/// An over-aligned element.
#[derive(Debug, Clone, Copy, PartialEq)]
#[repr(align(128))]
pub(crate) struct Wide([u8; 100]);

#[derive(Debug)]
enum Holder {
    Mut(FixedBufMut),
    Frozen(Vec<FixedBuf>),
    Words(GenericBufMut<u64>),
    Wides(GenericBufMut<Wide>),
}

#[derive(Debug)]
struct Live {
    holder: Holder,
    /// The length of the region in bytes.
    region: usize,
    seed: u8,
}

/// A ring and its oracle. `live` maps the offset of a guard in the store to its buffer.
#[derive(Debug)]
pub(crate) struct Model {
    ring: RingAl,
    base: usize,
    end: usize,
    live: BTreeMap<usize, Live>,
    most: usize,
    seed: u8,
    pub(crate) served: usize,
    pub(crate) refused: usize,
}

/// The bytes of a program that are not decoded yet.
pub(crate) struct Program<'a>(pub(crate) &'a [u8]);

impl Program<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    /// Decodes a size for a store of `store` bytes, or returns `None` at the program's end. Most
    /// sizes are small, some are a large part of the store, and a few are impossible.
    fn size(&mut self, store: usize) -> Option<usize> {
        let (kind, fine) = (self.byte()?, usize::from(self.byte()?));
        Some(match kind {
            0..100 => fine,
            100..180 => fine * 8,
            180..220 => store / 16 + fine,
            220..240 => store / 4 + fine,
            240..250 => (store / 2).saturating_sub(fine),
            250..254 => store - fine.min(store),
            254 => usize::MAX - fine,
            _ => isize::MAX as usize - fine,
        })
    }
}

fn pattern(seed: u8, len: usize) -> impl Iterator<Item = u8> {
    (0..len).map(move |at| (at as u8).wrapping_mul(31).wrapping_add(seed))
}

fn is_pattern(seed: u8, bytes: &[u8]) -> bool {
    bytes.iter().copied().eq(pattern(seed, bytes.len()))
}

impl Model {
    /// Creates an oracle for an empty ring. Steps first drop a handle if `most` buffers are live.
    pub(crate) fn new(mut ring: RingAl, most: usize) -> Self {
        let whole = ring.fixed(ring.capacity()).expect("an empty ring serves its capacity");
        let base = whole.as_ptr().addr() - GRANULE;
        let end = region(whole.capacity());
        drop(whole);
        Self { ring, base, end, live: BTreeMap::new(), most, seed: 0, served: 0, refused: 0 }
    }

    /// Runs a program to its end. Then drops all buffers and checks that the ring is empty.
    pub(crate) fn run(&mut self, program: &mut Program<'_>) {
        while self.step(program).is_some() {
            self.check();
        }
        while let Some((_, live)) = self.live.pop_first() {
            live.check();
        }
        let stats = self.ring.stats();
        assert_eq!((stats.buffers_live, stats.bytes_live, stats.largest_free), (0, 0, stats.capacity));
        assert!(self.ring.fixed(stats.capacity).is_some(), "an empty ring serves its capacity");
    }

    fn step(&mut self, program: &mut Program<'_>) -> Option<()> {
        let kind = program.byte()?;
        if self.live.len() >= self.most {
            self.release(program.byte()?);
        }
        match kind % 16 {
            0..5 => {
                let bytes = program.size(self.end)?;
                self.fixed(bytes);
            }
            5 => {
                let (bytes, align) = (program.size(self.end)?, 1 << (program.byte()? % 12));
                self.aligned(bytes, align);
            }
            6 => {
                let count = program.size(self.end)?;
                if kind & 16 == 0 { self.words(count) } else { self.wides(count % 40) }
            }
            7..9 => self.extendable(program)?,
            9 => self.freeze(program.byte()?),
            10 => self.thaw(program.byte()?),
            _ => self.release(program.byte()?),
        }
        Some(())
    }

    /// Returns the offsets and lengths of the gaps between live regions.
    fn gaps(&self) -> Vec<(usize, usize)> {
        let mut gaps = Vec::new();
        let mut at = 0;
        for (&start, live) in &self.live {
            assert!(start >= at, "two regions overlap at {start}");
            gaps.push((at, start - at));
            at = start + live.region;
        }
        assert!(at <= self.end, "a region exceeds the store");
        gaps.push((at, self.end - at));
        gaps
    }

    fn longest_gap(&self) -> usize {
        self.gaps().into_iter().map(|(_, len)| len).max().unwrap_or(0)
    }

    /// Returns the size of the largest `align`-aligned buffer that fits in this gap, or `None`.
    fn room(&self, (start, len): (usize, usize), align: usize) -> Option<usize> {
        let first = self.base + start + GRANULE;
        let lead = first.next_multiple_of(align.max(GRANULE)) - first;
        len.checked_sub(lead + OVERHEAD)
    }

    /// Returns the size of the largest `align`-aligned buffer that fits in a gap, or `None`.
    fn largest(&self, align: usize) -> Option<usize> {
        self.gaps().into_iter().filter_map(|gap| self.room(gap, align)).max()
    }

    /// Returns whether any gap has room for a buffer of `bytes` bytes aligned to `align`.
    fn has_room(&self, bytes: usize, align: usize) -> bool {
        self.largest(align) >= Some(bytes)
    }

    fn next_seed(&mut self) -> u8 {
        self.seed = self.seed.wrapping_add(37);
        self.seed
    }

    fn keep(&mut self, addr: usize, region: usize, seed: u8, holder: Holder) {
        let start = addr - GRANULE - self.base;
        assert!(self.live.insert(start, Live { holder, region, seed }).is_none(), "a region is served twice");
        self.served += 1;
    }

    fn keep_bytes(&mut self, mut buffer: FixedBufMut) {
        let seed = self.next_seed();
        let fill: Vec<u8> = pattern(seed, buffer.capacity()).collect();
        buffer.clear();
        assert_eq!(buffer.write(&fill).expect("writes to a fixed buffer never fail"), fill.len());
        let (addr, region) = (buffer.as_ptr().addr(), region(buffer.capacity()));
        self.keep(addr, region, seed, Holder::Mut(buffer));
    }

    fn fixed(&mut self, bytes: usize) {
        let room = self.has_room(bytes, 1);
        match self.ring.try_fixed(bytes) {
            Ok(buffer) => {
                assert!(room, "{bytes} bytes were served in too little room");
                assert_eq!((buffer.capacity(), buffer.len()), (bytes, 0));
                self.keep_bytes(buffer);
            }
            Err(refused) => {
                assert!(!room, "{bytes} bytes were refused although there is room: {refused}");
                self.check_refusal(bytes, 1, refused);
            }
        }
    }

    fn check_refusal(&mut self, asked: usize, align: usize, refused: RequestError) {
        self.refused += 1;
        let empty = |align| self.room((0, self.end), align);
        let expected = match empty(align) {
            None => {
                let possible = (0..30).map(|shift| 1 << shift).filter(|&align| empty(align).is_some());
                RequestError::AlignTooLarge { align, largest_align: possible.max().unwrap() }
            }
            Some(capacity) if asked > capacity => RequestError::TooLarge { asked, capacity },
            Some(_) => RequestError::Exhausted {
                asked,
                largest_free: self.largest(align).unwrap_or(0),
                bytes_live: self.live.values().map(|live| live.region).sum(),
            },
        };
        assert_eq!(refused, expected, "{refused}");
    }

    fn aligned(&mut self, bytes: usize, align: usize) {
        let room = self.has_room(bytes, align);
        match self.ring.try_fixed_aligned(bytes, align) {
            Ok(buffer) => {
                assert!(room, "{bytes} bytes were served in too little room");
                assert_eq!(buffer.as_ptr().addr() % align, 0);
                self.keep_bytes(buffer);
            }
            Err(refused) => {
                assert!(!room, "{bytes} bytes aligned to {align} were refused although there is room");
                self.check_refusal(bytes, align, refused);
            }
        }
    }

    fn words(&mut self, count: usize) {
        let bytes = count.checked_mul(8);
        let room = bytes.is_some_and(|bytes| self.has_room(bytes, 8));
        let Some(mut buffer) = self.ring.generic::<u64>(count) else {
            assert!(!room, "{count} words were refused although there is room");
            self.refused += 1;
            return;
        };
        assert!(room, "{count} words were served in too little room");
        let seed = self.next_seed();
        for word in 0..count as u64 {
            assert_eq!(buffer.push(word * u64::from(seed)), None);
        }
        assert_eq!(buffer.push(0), Some(0));
        self.keep(buffer.as_ptr().addr(), region(count * 8), seed, Holder::Words(buffer));
    }

    fn wides(&mut self, count: usize) {
        let room = self.has_room(count * size_of::<Wide>(), align_of::<Wide>());
        let Some(mut buffer) = self.ring.generic::<Wide>(count) else {
            assert!(!room, "{count} wide elements were refused although there is room");
            self.refused += 1;
            return;
        };
        assert!(room, "{count} wide elements were served in too little room");
        assert_eq!(buffer.as_ptr().addr() % align_of::<Wide>(), 0);
        let seed = self.next_seed();
        while buffer.len() < count {
            assert_eq!(buffer.insert(Wide([seed; 100]), 0), None);
        }
        assert!(buffer.insert(Wide([0; 100]), 0).is_some());
        self.keep(buffer.as_ptr().addr(), region(count * size_of::<Wide>()), seed, Holder::Wides(buffer));
    }

    /// Writes up to 11 pieces to an extendable buffer, until one does not fit. Then finalizes,
    /// drops or leaks the buffer. Returns `None` at the program's end.
    fn extendable(&mut self, program: &mut Program<'_>) -> Option<()> {
        let bytes = program.size(self.end)?;
        let (pieces, piece, end) = (program.byte()? % 12, program.size(self.end)?, program.byte()?);
        let (room, longest, seed) = (self.has_room(bytes, 1), self.longest_gap(), self.next_seed());
        let Some(mut buffer) = self.ring.extendable(bytes) else {
            assert!(!room, "an extendable buffer of {bytes} bytes was refused although there is room");
            self.refused += 1;
            return Some(());
        };
        assert!(room, "an extendable buffer of {bytes} bytes was served in too little room");
        let piece = piece % (self.end / 2);
        let whole: Vec<u8> = pattern(seed, piece * usize::from(pieces)).collect();
        for part in 0..usize::from(pieces) {
            let fits = region(buffer.len() + piece) <= longest;
            let written = buffer.write(&whole[part * piece..][..piece]);
            assert_eq!(written.is_ok(), fits, "a piece of {piece} bytes in a gap of {longest}");
            if !fits {
                break;
            }
        }
        assert!(is_pattern(seed, &buffer), "an extendable buffer lost bytes");
        match end % 4 {
            0 => drop(buffer),
            1 => core::mem::forget(buffer),
            _ => {
                let len = buffer.len();
                let buffer = buffer.finalize();
                assert!(is_pattern(seed, &buffer), "a finalized buffer lost bytes");
                assert_eq!((buffer.len(), buffer.capacity()), (len, len.max(bytes)));
                self.keep_bytes(buffer);
            }
        }
        Some(())
    }

    fn pick(&self, index: u8) -> Option<usize> {
        let index = usize::from(index) % self.live.len().max(1);
        self.live.keys().nth(index).copied()
    }

    fn release(&mut self, index: u8) {
        let Some(start) = self.pick(index) else { return };
        let Some(live) = self.live.get_mut(&start) else { return };
        live.check();
        if let Holder::Frozen(handles) = &mut live.holder
            && handles.len() > 1
        {
            handles.pop();
            return;
        }
        self.live.remove(&start);
    }

    /// Freezes a byte buffer, or clones and slices a frozen one. Leaves other buffers unchanged.
    fn freeze(&mut self, index: u8) {
        let Some(start) = self.pick(index) else { return };
        let Some(Live { holder, region, seed }) = self.live.remove(&start) else { return };
        let holder = match holder {
            Holder::Mut(buffer) => Holder::Frozen(vec![buffer.freeze()]),
            Holder::Frozen(mut handles) => {
                let half = handles[0].len() / 2;
                handles.push(handles[0].slice(..half));
                handles.push(handles[0].clone());
                assert!(handles[0].ptr_eq(&handles[1]) && !handles[0].is_unique());
                Holder::Frozen(handles)
            }
            other => other,
        };
        self.live.insert(start, Live { holder, region, seed });
    }

    /// Makes a frozen buffer writable again if it has only one handle. If it has several, checks
    /// that `try_mut` refuses.
    fn thaw(&mut self, index: u8) {
        let Some(start) = self.pick(index) else { return };
        let Some(live) = self.live.get_mut(&start) else { return };
        let Holder::Frozen(handles) = &mut live.holder else { return };
        let Some(handle) = handles.pop() else { return };
        match handle.try_mut() {
            Ok(buffer) => {
                assert!(handles.is_empty(), "a shared buffer became writable");
                assert_eq!(region(buffer.capacity()), live.region);
                live.holder = Holder::Mut(buffer);
            }
            Err(handle) => {
                assert!(!handles.is_empty(), "the only handle did not become writable");
                handles.push(handle);
            }
        }
    }

    fn check(&self) {
        // Under Miri, checking all buffers would be slow, so a stray write to a buffer is detected
        // only at that buffer's release.
        if !cfg!(miri) {
            self.live.values().for_each(Live::check);
        }
        let (stats, gaps) = (self.ring.stats(), self.gaps());
        let free: usize = gaps.iter().map(|gap| gap.1).sum();
        let held: usize = self.live.values().map(|live| live.region).sum();
        assert_eq!((stats.buffers_live, stats.bytes_live, stats.bytes_free), (self.live.len(), held, free));
        assert_eq!(stats.largest_free, self.longest_gap().saturating_sub(OVERHEAD));
        assert_eq!(stats.capacity, self.end - OVERHEAD);
    }
}

impl Live {
    fn check(&self) {
        let same = match &self.holder {
            Holder::Mut(buffer) => is_pattern(self.seed, buffer),
            Holder::Frozen(handles) => handles.iter().all(|handle| is_pattern(self.seed, handle)),
            Holder::Words(words) => {
                words.iter().zip(0..).all(|(&word, at)| word == at * u64::from(self.seed))
            }
            Holder::Wides(wides) => wides.iter().all(|wide| *wide == Wide([self.seed; 100])),
        };
        assert!(same, "a live buffer was written to: {self:?}");
    }
}
