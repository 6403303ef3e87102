//! Tests that programs written for ringal 0.2 to 0.4 still work. The tests use only the API of
//! those versions.
#![cfg(feature = "std")]

use core::ops::{Deref, DerefMut};
use std::io::{self, Write};
use std::sync::mpsc::channel;
use std::thread;

use ringal::{ExtBuf, FixedBuf, FixedBufMut, GenericBufMut, RingAl, ringal};

#[test]
fn fixed_buffer_writes_as_much_as_fits() -> io::Result<()> {
    let mut ringal = RingAl::new(1024);
    let mut buffer: FixedBufMut = ringal.fixed(64).unwrap();
    assert_eq!(buffer.spare(), 64);
    assert_eq!(buffer.write(b"hello world")?, 11);
    assert_eq!((buffer.len(), buffer.spare()), (11, 53));
    buffer.deref_mut()[0] = b'H';
    assert_eq!(buffer.deref(), b"Hello world");
    assert_eq!(buffer.write(&[b'x'; 100])?, 53);
    assert_eq!(buffer.write(b"more")?, 0);
    assert!(buffer.write_all(b"more").is_err());
    buffer.flush()
}

/// In ringal 0.2 to 0.4, `fixed(21)` returns a buffer with a capacity of at least 24 bytes. The
/// crate's documentation lists the difference.
#[test]
fn fixed_buffer_has_exactly_the_requested_capacity() -> io::Result<()> {
    let mut ringal = RingAl::new(1024);
    for (asked, beyond) in [(21, 3), (64, 8), (0, 1)] {
        let mut buffer = ringal.fixed(asked).unwrap();
        assert_eq!(buffer.spare(), asked);
        assert_eq!(buffer.write(&vec![1; asked + beyond])?, asked);
    }
    Ok(())
}

#[test]
fn extendable_buffer_grows_until_the_store_is_full() {
    let mut ringal = RingAl::new(1024);
    let mut buffer: ExtBuf<'_> = ringal.extendable(16).unwrap();
    for piece in 0..14_u8 {
        assert_eq!(buffer.write(&[piece; 64]).unwrap(), 64);
    }
    let error = loop {
        match buffer.write(&[99; 64]) {
            Ok(written) => assert_eq!(written, 64),
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    let buffer: FixedBufMut = buffer.finalize();
    assert!(buffer.len() > 14 * 64);
    assert!(buffer[..14 * 64].chunks(64).zip(0..).all(|(chunk, piece)| chunk == [piece; 64]));
    assert!(ringal.fixed(512).is_none());
    drop(buffer);
    assert!(ringal.fixed(512).is_some());
}

#[test]
fn conc_frozen_buffers_are_read_on_other_threads() {
    let mut ringal = RingAl::new(4096);
    let (to, from) = channel::<FixedBuf>();
    let reader = thread::spawn(move || from.iter().map(|buffer| buffer.len()).sum::<usize>());
    for _ in 0..8 {
        let mut buffer = ringal.fixed(32).unwrap();
        let _ = buffer.write(b"message for another thread").unwrap();
        let frozen = buffer.freeze();
        let copy = frozen.clone();
        to.send(frozen).unwrap();
        assert_eq!(&copy[..7], b"message");
    }
    drop(to);
    assert_eq!(reader.join().unwrap(), 8 * 26);
}

#[derive(Debug, PartialEq)]
struct Fields {
    one: u32,
    two: String,
}

#[test]
fn generic_buffer_works_like_a_vector() {
    let mut ringal = RingAl::new(1024);
    let mut buffer: GenericBufMut<Fields> = ringal.generic::<Fields>(3).unwrap();
    let fields = |one: u32| Fields { one, two: one.to_string() };
    assert_eq!(buffer.capacity(), 3);
    assert_eq!((buffer.push(fields(1)), buffer.push(fields(3))), (None, None));
    assert_eq!(buffer.insert(fields(2), 1), None);
    assert_eq!(buffer.push(fields(4)), Some(fields(4)));
    assert_eq!(buffer.insert(fields(4), 0), Some(fields(4)));
    assert!(buffer.iter().map(|each| each.one).eq(1..=3));
    assert_eq!(buffer.remove(9), None);
    assert_eq!(buffer.remove(0), Some(fields(1)));
    assert_eq!(buffer.insert(fields(5), 3), Some(fields(5)));
    assert_eq!(buffer.swap_remove(0), Some(fields(2)));
    assert_eq!(buffer.swap_remove(1), None);
    buffer[0].one = 33;
    assert_eq!(buffer.pop().map(|last| last.one), Some(33));
    assert_eq!(buffer.pop(), None);
}

#[test]
fn macro_declares_a_ring_for_each_thread() {
    ringal!(@init, 8899);
    assert!(ringal!(@fixed, 944).is_some());
    let line = ringal!(@ext, 256, |mut writer| {
        let result = writer.write(b"some text");
        assert!(matches!(result, Ok(9)));
        writer.finalize()
    });
    assert_eq!(line.unwrap().len(), 9);

    // A nested function cannot capture variables, but still finds the ring.
    fn elsewhere() -> Option<FixedBufMut> {
        ringal!(@fixed, 944)
    }
    assert!(elsewhere().is_some());

    let other = thread::spawn(|| ringal!(@fixed, 8000));
    let (other, here) = (other.join().unwrap(), ringal!(@fixed, 8000));
    assert!(other.is_some() && here.is_some(), "each thread has a ring of its own");

    // As in ringal 0.2 to 0.4, `ringal!(@init, ..)` also imports these names.
    let _ring: RefCell<RingAl> = RefCell::new(RingAl::new(64));
}

mod at_module_level {
    use ringal::ringal;

    ringal!(@init, 1 << 12);

    pub(super) fn line() -> Option<ringal::FixedBufMut> {
        use std::io::Write;
        let mut line = ringal!(@fixed, 64)?;
        write!(line, "{}", 7).ok()?;
        Some(line)
    }

    #[test]
    fn import_of_the_ring_type_does_not_clash_with_the_macro() {
        use ringal::RingAl;
        assert!(RingAl::new(64).fixed(8).is_some());
        assert!(ringal!(@fixed, 8).is_some());
    }
}

#[test]
fn macro_works_in_a_module() {
    assert_eq!(at_module_level::line().unwrap()[..], *b"7");
}
