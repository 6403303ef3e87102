//! Tests that long-lived buffers do not block the ring, and that the ring reuses freed regions
//! wherever its head is. Also tests the errors of refused requests.
#![cfg(feature = "std")]

extern crate alloc;

use alloc::collections::VecDeque;

use ephemera_testkit::SplitMix;
use ringal::{RequestError, RingAl};

#[test]
fn one_long_lived_buffer_does_not_block_the_ring() {
    let mut ring = RingAl::new(64 << 10);
    let mut rng = SplitMix::new(1);
    let _kept = ring.fixed(100).unwrap();
    let mut recent = VecDeque::new();
    for number in 0..if cfg!(miri) { 500 } else { 200_000 } {
        let size = rng.below(2_000);
        let buffer =
            ring.fixed(size).unwrap_or_else(|| panic!("buffer {number} of {size} bytes: {:?}", ring.stats()));
        recent.push_back(buffer);
        if recent.len() > 8 {
            recent.pop_front();
        }
    }
}

#[test]
fn scattered_long_lived_buffers_do_not_block_the_ring() {
    let mut ring = RingAl::new(64 << 10);
    let mut kept = Vec::new();
    let mut fill = Vec::new();
    while let Some(buffer) = ring.fixed(1_000) {
        fill.push(buffer);
    }
    for (number, buffer) in fill.into_iter().enumerate() {
        if number % 4 == 0 {
            kept.push(buffer);
        }
    }
    assert!(kept.len() > 10);
    let mut rng = SplitMix::new(2);
    for _ in 0..if cfg!(miri) { 100 } else { 20_000 } {
        assert!(ring.fixed(rng.below(3_000)).is_some(), "{:?}", ring.stats());
    }
    assert_eq!(ring.stats().buffers_live, kept.len());
}

#[test]
fn half_the_capacity_is_served_wherever_the_head_is() {
    for bytes in [1 << 10, 10_000] {
        let mut ring = RingAl::new(bytes);
        let half = ring.capacity() / 2 - 64;
        for stop in (0..bytes).step_by(if cfg!(miri) { 999 } else { 7 }) {
            drop(ring.fixed(stop % half));
            assert!(ring.fixed(half).is_some() && ring.fixed(half).is_some(), "stopped at {stop}");
        }
    }
}

#[test]
fn whole_capacity_is_served_wherever_the_head_is() {
    for bytes in [256, 1_000, 4_096] {
        let mut ring = RingAl::new(bytes);
        assert!(ring.capacity() >= bytes - 64, "{} of {bytes}", ring.capacity());
        for step in 1..if cfg!(miri) { 5 } else { 300 } {
            for size in [step % bytes, step * 7 % bytes, step * 31 % bytes] {
                drop(ring.fixed(size));
            }
            assert!(ring.fixed(ring.capacity()).is_some());
            assert!(ring.fixed(ring.capacity() + 1).is_none());
        }
    }
}

#[test]
fn window_in_use_stays_close_to_the_live_bytes() {
    let mut ring = RingAl::new(4 << 20);
    for _ in 0..if cfg!(miri) { 500 } else { 100_000 } {
        assert!(ring.fixed(64).is_some());
    }
    let window = ring.stats().high_water;
    assert!(window <= 20 << 10, "one live buffer used {window} bytes of the store");

    let mut live = VecDeque::new();
    for _ in 0..if cfg!(miri) { 500 } else { 100_000 } {
        live.push_back(ring.fixed(1_000).unwrap());
        if live.len() > 100 {
            live.pop_front();
        }
    }
    let window = ring.stats().high_water;
    assert!(window <= 250 << 10, "100 KiB of live buffers used {window} bytes of the store");
}

#[test]
#[cfg_attr(miri, ignore = "fills a large store")]
fn long_lived_buffers_at_the_start_do_not_enlarge_the_window() {
    let mut ring = RingAl::new(1 << 20);
    let kept: Vec<_> = (0..100).map(|_| ring.fixed(64).unwrap()).collect();
    // The head needs at most one pass to move past the long-lived buffers.
    for _ in 0..40_000 {
        assert!(ring.fixed(64).is_some());
    }
    let mut places = Vec::new();
    for _ in 0..40_000 {
        places.push(ring.fixed(64).unwrap().as_ptr().addr());
    }
    let (first, last) = (places.iter().min().unwrap(), places.iter().max().unwrap());
    assert!(last - first <= 40 << 10, "the window is {} bytes", last - first);
    drop(kept);
    assert!(ring.fixed(ring.capacity()).is_some());
}

#[test]
fn refusal_ends_when_enough_neighbours_are_free() {
    let mut ring = RingAl::new(8 << 10);
    let mut held: Vec<_> = (0..7).map(|_| ring.fixed(1_000).unwrap()).collect();
    for _ in 0..3 {
        let refused = ring.try_fixed(2_000).unwrap_err();
        assert!(
            matches!(refused, RequestError::Exhausted { asked: 2_000, largest_free, bytes_live }
            if largest_free < 2_000 && bytes_live > 7_000),
            "{refused}"
        );
    }
    // Two free regions that are not adjacent do not make room for the request until the region
    // between them is free too.
    drop(held.remove(5));
    assert!(ring.fixed(2_000).is_none() && ring.fixed(2_100).is_none());
    drop(held.remove(3));
    assert!(ring.fixed(2_000).is_none());
    drop(held.remove(3));
    let served = ring.fixed(2_000).expect("three adjacent regions are free");
    assert!(ring.fixed(2_000).is_none());
    drop(served);
    assert!(ring.fixed(2_000).is_some());
}

#[test]
fn refusal_ends_when_a_watched_region_is_split() {
    const SIZE: usize = 1024;
    let overhead = 4096 - RingAl::new(4096).capacity();
    let unit = SIZE + overhead;
    let mut ring = RingAl::new(3 * unit);
    let (first, second) = (ring.fixed(SIZE).unwrap(), ring.fixed(SIZE).unwrap());
    // The request fits in the third region together with the end of the second, after an empty
    // buffer takes the start of the second.
    let large = (unit - overhead) + unit - overhead;
    assert!(ring.fixed(large).is_none(), "the second region is taken");
    drop((first, second));
    // Each of these requests takes the region at the head without a merge.
    let third = ring.fixed(SIZE).unwrap();
    let first = ring.fixed(SIZE).unwrap();
    let second = ring.fixed(0).unwrap();
    let rest = ring.fixed(unit - 2 * overhead).unwrap();
    let places = [&first, &second, &rest, &third].map(|buffer| buffer.as_ptr());
    assert!(places.is_sorted(), "{places:?}");
    drop((rest, third));
    assert!(ring.fixed(large).is_some(), "the region at the second guard is shorter now");
    drop((first, second));
}

#[test]
fn overflowing_sizes_are_refused() {
    let mut ring = RingAl::new(1 << 10);
    let capacity = ring.capacity();
    for asked in
        [capacity + 1, 1 << 20, isize::MAX as usize - 16, isize::MAX as usize, usize::MAX - 15, usize::MAX]
    {
        assert!(ring.fixed(asked).is_none() && ring.extendable(asked).is_none());
        assert!(ring.fixed_aligned(asked, 4096).is_none() && ring.generic::<u8>(asked).is_none());
        assert_eq!(ring.try_fixed(asked).unwrap_err(), RequestError::TooLarge { asked, capacity });
        assert_eq!(ring.try_extendable(asked).unwrap_err(), RequestError::TooLarge { asked, capacity });
        assert_eq!(ring.try_generic::<u8>(asked).unwrap_err(), RequestError::TooLarge { asked, capacity });
    }
    for count in [usize::MAX / 8, usize::MAX / 8 + 2, usize::MAX / 2 + 2, usize::MAX] {
        assert!(ring.generic::<u64>(count).is_none());
        assert!(matches!(ring.try_generic::<u64>(count), Err(RequestError::TooLarge { .. })));
    }
    for align in [1 << 29, 1 << 30, usize::MAX, usize::MAX / 2 + 2] {
        assert!(ring.fixed_aligned(8, align).is_none() || align <= 1 << 29);
    }
    assert!(RingAl::try_new(usize::MAX).is_err() && RingAl::try_new(isize::MAX as usize).is_err());
    assert!(RingAl::builder(64).align(usize::MAX).try_build().is_err());
    assert_eq!(ring.stats().buffers_live, 0);
}

#[test]
fn too_large_request_reports_the_capacity_at_its_alignment() {
    #[repr(align(128))]
    struct Wide(#[expect(dead_code, reason = "only its size matters")] [u8; 128]);

    let mut ring = RingAl::new(16 << 10);
    let capacity = ring.capacity();
    for align in [1, 16, 64, 100, 512, 4096] {
        let refused = ring.try_fixed_aligned(usize::MAX, align).unwrap_err();
        let RequestError::TooLarge { asked: usize::MAX, capacity: at_most } = refused else {
            panic!("{refused}")
        };
        assert!(at_most <= capacity && (align > 16 || at_most == capacity), "{refused}");
        assert!(ring.try_fixed_aligned(at_most, align).is_ok(), "{refused}");
        let asked = at_most + 1;
        let refused = ring.try_fixed_aligned(asked, align).unwrap_err();
        assert_eq!(refused, RequestError::TooLarge { asked, capacity: at_most });
        assert!(refused.to_string().contains(&format!("the {at_most} bytes")), "{refused}");
    }
    let refused = ring.try_generic::<Wide>(usize::MAX).map(drop).unwrap_err();
    let RequestError::TooLarge { asked: usize::MAX, capacity } = refused else { panic!("{refused}") };
    let count = capacity / size_of::<Wide>();
    assert!(ring.try_generic::<Wide>(count).is_ok() && ring.try_generic::<Wide>(count + 1).is_err());
}

#[test]
fn alignment_that_no_buffer_can_have_is_refused_with_the_largest_possible_one() {
    let mut ring = RingAl::new(1 << 10);
    for align in [1 << 30, usize::MAX / 2 + 2, usize::MAX] {
        for asked in [0, 8, usize::MAX] {
            let refused = ring.try_fixed_aligned(asked, align).unwrap_err();
            let RequestError::AlignTooLarge { align: said, largest_align } = refused else {
                panic!("{refused}")
            };
            assert_eq!(said, align);
            assert!(ring.try_fixed_aligned(0, largest_align).is_ok(), "{refused}");
            let align = largest_align + 1;
            let refused = ring.try_fixed_aligned(0, align).unwrap_err();
            assert_eq!(refused, RequestError::AlignTooLarge { align, largest_align });
            let text = refused.to_string();
            assert!(text.contains(&format!("aligned to {align}: ")), "{text}");
            assert!(text.ends_with(&largest_align.to_string()), "{text}");
        }
    }
}

#[test]
fn exhausted_ring_reports_the_largest_free_buffer_at_the_requested_alignment() {
    const ALIGN: usize = 4096;
    let mut ring = RingAl::new_with_align(32 << 10, ALIGN);
    let _held = ring.fixed(16 << 10).unwrap();
    // A buffer at the start of the free run would lie just after an aligned address, so it would
    // not be aligned.
    let plain = ring.stats().largest_free;
    let refused = ring.try_fixed_aligned(plain, ALIGN).unwrap_err();
    let RequestError::Exhausted { largest_free, .. } = refused else { panic!("{refused}") };
    assert!(largest_free < plain, "{refused}");
    assert!(ring.try_fixed_aligned(largest_free + 1, ALIGN).is_err());
    assert!(ring.try_fixed_aligned(largest_free, ALIGN).is_ok());
}

#[test]
fn exhausted_ring_without_room_for_an_empty_buffer_reports_zero() {
    let mut ring = RingAl::new(1 << 10);
    let _all = ring.fixed(ring.capacity()).unwrap();
    for _ in 0..2 {
        let refused = ring.try_fixed(0).unwrap_err();
        assert!(
            matches!(refused, RequestError::Exhausted { asked: 0, largest_free: 0, bytes_live: 1024 }),
            "{refused}"
        );
    }
}

#[test]
fn capacity_is_the_rounded_size_less_the_overhead_of_a_buffer() {
    let (granule, least, overhead) = if cfg!(feature = "checked") { (32, 128, 64) } else { (16, 32, 16) };
    for bytes in 0..300_usize {
        let (ring, regions) = (RingAl::new(bytes), bytes.next_multiple_of(granule).max(least));
        assert_eq!(ring.capacity(), regions - overhead, "{bytes} bytes");
        assert_eq!(ring.stats().bytes_held, regions + 64 + 64 - granule, "{bytes} bytes");
    }
    for align in [64, 256, 4096] {
        let ring = RingAl::new_with_align(1_000, align);
        assert_eq!(ring.stats().bytes_held, ring.capacity() + overhead + align + 64 - granule);
    }
}

#[test]
fn empty_buffers_are_served() {
    let mut ring = RingAl::new(0);
    let empty = ring.fixed(0).unwrap();
    assert_eq!((empty.len(), empty.spare(), empty.capacity()), (0, 0, 0));
    let frozen = empty.freeze();
    assert!(frozen.is_empty() && frozen.clone().slice(..).is_empty());
    let mut ring = RingAl::new(256);
    let mut units = ring.generic::<()>(usize::MAX).unwrap();
    assert_eq!((units.push(()), units.len(), units.pop(), units.pop()), (None, 1, Some(()), None));
    assert_eq!(ring.extendable(0).unwrap().finalize().capacity(), 0);
}

#[test]
fn every_alignment_is_respected() {
    #[repr(align(64))]
    struct Line([u8; 64]);
    #[repr(align(4096))]
    struct Page([u8; 4096]);

    let mut ring = RingAl::new(128 << 10);
    let mut held = Vec::new();
    for round in 0..8_u8 {
        let mut lines = ring.generic::<Line>(2).unwrap();
        assert!(lines.push(Line([round; 64])).is_none() && lines.push(Line([round; 64])).is_none());
        assert_eq!(lines.as_ptr().addr() % 64, 0);
        let mut neighbour = ring.fixed(10 + usize::from(round)).unwrap();
        neighbour.extend([!round; 64]);
        let mut page = ring.generic::<Page>(1).unwrap();
        assert!(page.push(Page([round; 4096])).is_none());
        assert_eq!(page.as_ptr().addr() % 4096, 0);
        held.push((lines, neighbour, page));
    }
    for ((lines, neighbour, page), round) in held.iter().zip(0_u8..) {
        assert!(lines.iter().all(|line| line.0 == [round; 64]) && page[0].0 == [round; 4096]);
        assert!(neighbour.iter().all(|&byte| byte == !round));
    }
    for align in [1, 2, 16, 100, 512, 4096] {
        let buffer = ring.fixed_aligned(1_000, align).unwrap();
        assert_eq!(buffer.as_ptr().addr() % align.next_power_of_two(), 0);
    }
}

#[test]
fn store_is_aligned_as_requested() {
    let mut ring = RingAl::new_with_align(1 << 14, 4096);
    let buffer = ring.fixed(4096).unwrap();
    drop(buffer.freeze());
    assert_eq!(ring.fixed(9000).unwrap().as_ptr().addr() % 4096, 0);
}
