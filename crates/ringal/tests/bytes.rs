//! Tests of feature `bytes`.
#![cfg(all(feature = "bytes", feature = "std"))]

use bytes::{Buf, BufMut, Bytes};
use ringal::RingAl;

#[test]
fn frozen_buffer_converts_to_bytes_without_copying() {
    let mut ring = RingAl::new(1024);
    let mut buffer = ring.fixed(100).unwrap();
    buffer.put_slice(b"shared by many");
    let place = buffer.as_ptr();
    let mut bytes = Bytes::from(buffer.freeze().slice(7..));
    assert_eq!((bytes.as_ptr(), &bytes[..]), (place.wrapping_add(7), &b"by many"[..]));
    let tail = bytes.split_off(3);
    drop(bytes);
    assert_eq!(ring.stats().buffers_live, 1);
    drop(ring.fixed(900));
    assert_eq!(&tail[..], b"many");
    drop(tail);
    assert_eq!(ring.stats().buffers_live, 0);
    let direct: Bytes = ring.fixed(10).unwrap().into();
    assert!(direct.is_empty());
}

#[test]
fn put_appends_to_a_fixed_buffer_until_it_is_full() {
    let mut ring = RingAl::new(1024);
    let mut buffer = ring.fixed(11).unwrap();
    buffer.put_u32(0x01020304);
    buffer.put_bytes(7, 3);
    assert_eq!((&buffer[..], buffer.remaining_mut()), (&[1, 2, 3, 4, 7, 7, 7][..], 4));
    buffer.put(&b"rest"[..]);
    assert!(!buffer.has_remaining_mut());
    let overfull = std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| buffer.put_u8(1)));
    assert!(overfull.is_err());
}

#[test]
fn put_grows_an_extendable_buffer() {
    let mut ring = RingAl::new(4096);
    // The first 20 regions have room for 100 bytes each, and one of them stays taken, so the buffer
    // must first grow and then move.
    let mut regions: Vec<_> = (0..20).map(|_| ring.fixed(100).unwrap()).collect();
    let held = regions.remove(4);
    drop(ring.fixed(2000));
    drop(regions);
    drop(ring.fixed(1800));
    let mut buffer = ring.extendable(10).unwrap();
    for number in 0..500_u32 {
        assert!(buffer.has_remaining_mut());
        buffer.put_u32(number);
    }
    buffer.put_bytes(9, 50);
    buffer.put((&b"chain"[..]).chain(&b"ed"[..]));
    // Write to the chunk directly, like code that reads into a `BufMut`.
    for _ in 0..100 {
        if buffer.has_remaining_mut() {
            let chunk = buffer.chunk_mut();
            assert!(chunk.len() > 0);
            chunk.write_byte(0, 5);
            // SAFETY: the first byte of the chunk was written.
            unsafe { buffer.advance_mut(1) };
        }
    }
    assert_eq!(buffer.len(), 2000 + 50 + 7 + 100);
    assert!(buffer[..2000].chunks(4).zip(0_u32..).all(|(bytes, number)| bytes == number.to_be_bytes()));
    assert!(buffer.ends_with(&[5; 100]) && buffer[2050..].starts_with(b"chained"));
    let overfull = std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| buffer.put_bytes(1, 5000)));
    assert!(overfull.is_err());
    while buffer.has_remaining_mut() {
        buffer.put_u8(1);
    }
    assert_eq!(buffer.chunk_mut().len(), 0);
    drop(held);
}

#[test]
fn remaining_mut_counts_the_longest_free_run() {
    fn put<B: BufMut>(mut into: B, bytes: &[u8]) {
        into.put(bytes);
    }
    let mut ring = RingAl::new(4096);
    let first = ring.fixed(16).unwrap();
    let _second = ring.fixed(16).unwrap();
    let rest = ring.fixed(ring.stats().largest_free).unwrap();
    drop(first);
    let mut buffer = ring.extendable(16).unwrap();
    drop(rest);
    put(&mut buffer, &[7; 100]);
    assert_eq!(&buffer.finalize()[..], [7; 100]);
}

/// `remaining_mut` walks the ring, and any thread with a shared reference to the buffer may call
/// it.
#[test]
fn conc_remaining_mut_reads_the_ring_during_a_release() {
    let mut ring = RingAl::new(4096);
    let held = ring.fixed(1_000).unwrap();
    let growing = ring.extendable(16).unwrap();
    let room = growing.spare();
    std::thread::scope(|scope| {
        let asks = [(); 2].map(|()| scope.spawn(|| growing.remaining_mut()));
        drop(held);
        assert!(asks.into_iter().all(|ask| ask.join().unwrap() >= room));
    });
    assert!(growing.remaining_mut() > room);
}
