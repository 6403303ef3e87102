//! Tests of rings in memory that the caller provides. These rings write only to that memory, and
//! never free it.

use core::mem::MaybeUninit;
use core::ptr::NonNull;

use ringal::{CreateError, RingAl};

/// The maximum number of bytes of the caller's memory that a ring with one buffer loses to
/// alignment, the guard and, with feature `checked`, the margin.
const LOST: usize = if cfg!(feature = "checked") { 128 } else { 64 };

#[test]
fn ring_in_static_memory_serves_all_of_it() {
    static mut MEMORY: [MaybeUninit<u8>; 4096] = [MaybeUninit::uninit(); 4096];
    let memory = &raw mut MEMORY;
    // SAFETY: this is the only use of the static.
    let memory = unsafe { &mut *memory };
    let range = memory.as_ptr_range();
    let mut ring = RingAl::from_static(memory).unwrap();
    assert!(ring.capacity() >= 4096 - LOST);
    assert_eq!(ring.stats().bytes_held, 0, "the memory is the caller's");
    let mut whole = ring.fixed(4096 - LOST).expect("an empty ring has room");
    whole.extend((0..=255).cycle());
    assert_eq!(whole.spare(), 0);
    let bytes = whole.as_ptr_range();
    assert!(bytes.start >= range.start.cast() && bytes.end <= range.end.cast());
    drop(ring);
    assert!(whole.iter().copied().eq((0..=255).cycle().take(4096 - LOST)));
}

#[test]
fn ring_in_memory_of_any_address_and_length_stays_inside() {
    for offset in (0..20).step_by(if cfg!(miri) { 9 } else { 1 }) {
        for bytes in [0, 1, 15, 16, 17, 31, 32, 33, 47, 64, 100, 255, 1000] {
            let mut memory = vec![0xee_u8; 32 + bytes + 32];
            let start = NonNull::from(&mut memory[..]).cast::<u8>();
            // SAFETY: `offset + bytes` is at most the vector's length.
            let start = unsafe { start.add(offset) };
            // SAFETY: the vector outlives the ring and its buffers, and no other code uses it until
            // they are dropped.
            match unsafe { RingAl::from_raw_parts(start, bytes) } {
                Err(CreateError::TooSmall { bytes: said, least }) => {
                    assert!(said == bytes && bytes < least + 16, "{bytes} bytes, {least} needed");
                }
                Err(error) => panic!("{error}"),
                Ok(mut ring) => {
                    let capacity = ring.capacity();
                    assert!(capacity + LOST >= bytes && capacity <= bytes);
                    let mut buffer = ring.fixed(capacity).expect("an empty ring serves its capacity");
                    buffer.extend((0..capacity).map(|at| at as u8));
                    drop(buffer);
                    assert_eq!(ring.stats().buffers_live, 0);
                }
            }
            let (before, after) = (&memory[..offset], &memory[offset + bytes..]);
            assert!(
                before.iter().chain(after).all(|&byte| byte == 0xee),
                "a byte outside the given memory was written"
            );
        }
    }
}

#[test]
fn memory_can_be_reused_after_all_buffers_are_dropped() {
    let mut memory = vec![0_u8; 1024];
    let start = NonNull::from(&mut memory[..]).cast::<u8>();
    for round in 0..4 {
        // SAFETY: the vector outlives the ring and its buffers, and no other code uses it until
        // they are dropped.
        let mut ring = unsafe { RingAl::from_raw_parts(start, 1024) }.unwrap();
        let mut kept = ring.fixed(100).unwrap();
        let frozen = ring.fixed(200 + round).unwrap().freeze();
        drop(ring);
        kept.extend([1; 100]);
        assert!(kept.iter().all(|&byte| byte == 1) && frozen.is_empty());
        drop((kept, frozen));
    }
    memory.fill(1);
}

#[test]
fn errors_report_the_sizes() {
    let refused = RingAl::from_static(&mut []).unwrap_err();
    assert!(matches!(refused, CreateError::TooSmall { bytes: 0, .. }));
    assert!(refused.to_string().contains("0 bytes are too few"), "{refused}");
}
