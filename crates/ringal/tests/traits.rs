//! Tests of the traits of buffers: auto traits, comparison, hashing, formatting, appending.
#![cfg(feature = "std")]

extern crate alloc;

use alloc::collections::BTreeMap;
use core::borrow::{Borrow, BorrowMut};
use core::fmt::Write;
use std::collections::HashMap;
use std::io;

use ringal::{ExtBuf, FixedBuf, FixedBufMut, Full, GenericBufMut, RequestError, RingAl, Stats};
use static_assertions::{assert_impl_all, assert_not_impl_any};

assert_impl_all!(RingAl: Send, core::panic::UnwindSafe, core::panic::RefUnwindSafe, core::fmt::Debug);
assert_not_impl_any!(RingAl: Sync, Clone);
assert_impl_all!(FixedBufMut: Send, Sync, Unpin, core::panic::UnwindSafe);
assert_not_impl_any!(FixedBufMut: Clone);
assert_impl_all!(FixedBuf: Send, Sync, Clone, Unpin, core::panic::UnwindSafe, core::panic::RefUnwindSafe);
assert_impl_all!(ExtBuf<'static>: Send, Sync);
assert_impl_all!(GenericBufMut<u8>: Send, Sync);
assert_impl_all!(GenericBufMut<core::cell::Cell<u8>>: Send);
assert_not_impl_any!(GenericBufMut<core::cell::Cell<u8>>: Sync);
assert_not_impl_any!(GenericBufMut<alloc::rc::Rc<u8>>: Send, Sync);
assert_not_impl_any!(GenericBufMut<*const u8>: Send, Sync);
assert_impl_all!(Stats: Send, Sync, Copy, Default);
assert_impl_all!(RequestError: core::error::Error, Send, Sync, Copy);
assert_impl_all!(Full: core::error::Error, Into<io::Error>);

fn frozen(bytes: &[u8]) -> FixedBuf {
    let mut buffer = RingAl::new(bytes.len() + 64).fixed(bytes.len()).unwrap();
    assert_eq!(buffer.append(bytes), bytes.len());
    buffer.freeze()
}

#[test]
fn handles_are_small() {
    assert_eq!(size_of::<FixedBufMut>(), 4 * size_of::<usize>());
    assert_eq!(size_of::<Option<FixedBufMut>>(), 4 * size_of::<usize>());
    assert_eq!(size_of::<Option<FixedBuf>>(), 4 * size_of::<usize>());
    assert_eq!(size_of::<Option<GenericBufMut<u64>>>(), 4 * size_of::<usize>());
}

#[test]
fn buffers_compare_like_their_bytes() {
    let buffer = frozen(b"beta");
    let (text, vector, string) = ("beta", b"beta".to_vec(), "beta".to_owned());
    assert!(buffer == *b"beta" && buffer == b"beta"[..] && buffer == *text);
    let slice: &[u8] = b"beta";
    assert_eq!(buffer, slice);
    assert_eq!(slice, buffer);
    assert!(buffer == text && buffer == vector && buffer == string && buffer == frozen(b"beta"));
    assert!(
        text == buffer && b"beta"[..] == buffer && vector == buffer && string == buffer && *text == buffer
    );
    assert!(buffer != "Beta" && buffer != frozen(b"bet") && buffer > "alpha" && buffer < frozen(b"gamma"));
    assert!(*"alpha" < buffer && buffer <= vector && buffer > b"alpha"[..]);
    let mut ring = RingAl::new(256);
    let mut writable = ring.fixed(4).unwrap();
    assert!(writable == *b"" && writable < "a");
    writable.extend(b"beta");
    assert!(writable == "beta" && writable == *b"beta");
    assert!(FixedBuf::from(writable) == buffer);
}

#[test]
fn slices_look_up_buffer_keys_in_maps() {
    let mut hashed: HashMap<FixedBuf, u32> = HashMap::new();
    let mut sorted: BTreeMap<FixedBuf, u32> = BTreeMap::new();
    for (bytes, value) in [(b"one", 1), (b"two", 2)] {
        hashed.insert(frozen(bytes), value);
        sorted.insert(frozen(bytes), value);
    }
    assert_eq!((hashed.get(&b"two"[..]), hashed.get(&b"six"[..])), (Some(&2), None));
    assert_eq!(sorted.get(&b"one"[..]), Some(&1));
}

#[test]
fn buffers_format_as_byte_strings() {
    let buffer = frozen(b"a'\"\\\n\r\t\0\x7f\xff");
    assert_eq!(format!("{buffer:?}"), r#"b"a'\"\\\n\r\t\0\x7f\xff""#);
    assert_eq!(format!("{:x} {:X}", frozen(b"\x0a\xff"), frozen(b"\x0a\xff")), "0aff 0AFF");
    let mut ring = RingAl::new(256);
    assert!(format!("{ring:?}").contains("capacity"));
    let mut growing = ring.extendable(8).unwrap();
    growing.extend(*b"abc");
    assert!(format!("{growing:?}").contains("len: 3"));
    drop(growing);
    let mut numbers = ring.generic::<u8>(4).unwrap();
    numbers.extend([1, 2, 3, 4, 5]);
    assert_eq!(format!("{numbers:?}"), "[1, 2, 3, 4]");
}

#[test]
fn buffers_convert_to_slices() {
    let mut ring = RingAl::new(256);
    let mut buffer = ring.fixed(8).unwrap();
    buffer.extend(&[3, 1, 2]);
    AsMut::<[u8]>::as_mut(&mut buffer).sort_unstable();
    BorrowMut::<[u8]>::borrow_mut(&mut buffer)[0] = 9;
    assert_eq!(AsRef::<[u8]>::as_ref(&buffer), Borrow::<[u8]>::borrow(&buffer));
    assert!((&buffer).into_iter().eq(&[9, 2, 3]));
    let frozen = buffer.freeze();
    assert!(frozen.into_iter().eq(&[9, 2, 3]));
}

#[test]
fn text_is_written_completely_or_not_at_all() {
    let mut ring = RingAl::new(256);
    let mut fixed = ring.fixed(6).unwrap();
    write!(fixed, "{}", 1234).unwrap();
    assert!(write!(fixed, "too long").is_err());
    assert_eq!(fixed, "1234");
    let full = fixed.try_extend_from_slice(b"abc").unwrap_err();
    assert_eq!(full, Full { asked: 3, spare: 2 });
    assert_eq!(io::Error::from(full).kind(), io::ErrorKind::StorageFull);
    assert!(full.to_string().contains("3 more bytes"));
    let mut growing = ring.extendable(0).unwrap();
    write!(growing, "{}", "  x".repeat(30)).unwrap();
    assert!(write!(growing, "{}", "x".repeat(1000)).is_err());
    assert_eq!(growing.len(), 90);
    growing.truncate(2);
    growing.truncate(5);
    assert_eq!(growing.finalize(), "  ");
}

#[test]
fn extend_leaves_elements_without_room_in_the_iterator() {
    let mut ring = RingAl::new(256);
    let mut bytes = 0..10_u8;
    let mut fixed = ring.fixed(4).unwrap();
    fixed.extend(bytes.by_ref());
    assert_eq!((&fixed[..], bytes.next()), (&[0, 1, 2, 3][..], Some(4)));
    fixed.truncate(1);
    fixed.extend(&[7, 8]);
    assert_eq!(fixed, [0, 7, 8]);
    fixed.clear();
    assert!(fixed.is_empty() && fixed.spare() == 4);
    let mut endless = (0..=u8::MAX).cycle();
    let mut growing = ring.extendable(0).unwrap();
    growing.extend(endless.by_ref());
    let grown = growing.finalize();
    assert_eq!(endless.next(), Some(grown.len() as u8));
}

#[test]
fn spare_capacity_can_be_filled_directly() {
    let mut ring = RingAl::new(512);
    let mut fixed = ring.fixed(10).unwrap();
    fixed.extend(*b"ab");
    assert_eq!(fixed.spare_capacity_mut().len(), 8);
    fixed.spare_capacity_mut()[0].write(b'c');
    // SAFETY: the first three bytes are written.
    unsafe { fixed.set_len(3) };
    assert_eq!(fixed, "abc");
    let mut growing = ring.extendable(1).unwrap();
    growing.try_reserve(200).unwrap();
    for place in &mut growing.spare_capacity_mut()[..200] {
        place.write(b'x');
    }
    // SAFETY: the first 200 bytes are written.
    unsafe { growing.set_len(200) };
    assert!(growing.try_reserve(usize::MAX).is_err() && growing.try_reserve(400).is_err());
    assert!(growing.finalize().iter().all(|&byte| byte == b'x'));
}

#[test]
fn slices_share_a_buffer() {
    let whole = frozen(b"0123456789");
    assert_eq!(whole.slice(2..5), "234");
    assert_eq!(whole.slice(..=2), "012");
    assert_eq!(whole.slice((core::ops::Bound::Excluded(7), core::ops::Bound::Unbounded)), "89");
    assert_eq!(whole.slice(10..), "");
    assert_eq!(whole.slice(2..8).slice(1..3), "34");
    assert!(whole.ptr_eq(&whole.slice(5..)) && !whole.ptr_eq(&frozen(b"0123456789")));
    for (from, to) in [(3, 2), (0, 11), (11, 11), (5, usize::MAX)] {
        assert!(whole.try_slice(from..to).is_none());
    }
    assert!(whole.try_slice(..=usize::MAX).is_none());
    assert!(whole.try_slice((core::ops::Bound::Excluded(usize::MAX), core::ops::Bound::Unbounded)).is_none());
    assert!(std::panic::catch_unwind(|| whole.slice(3..12)).is_err());
    assert!(whole.is_unique());
    let tail = whole.slice(7..);
    assert!(!whole.is_unique());
    let whole = whole.try_mut().unwrap_err();
    drop(whole);
    let mut tail = tail.try_mut().unwrap();
    assert_eq!((&tail[..], tail.capacity()), (&b"789"[..], if cfg!(feature = "checked") { 10 } else { 16 }));
    tail.extend(*b"abcdefg");
    assert_eq!(tail, "789abcdefg");
}

#[test]
fn try_mut_restores_the_whole_capacity() {
    let mut ring = RingAl::new(4096);
    let mut buffer = ring.fixed(1).unwrap();
    assert_eq!(buffer.append(&[1]), 1);
    let mut again = buffer.freeze().try_mut().unwrap();
    assert_eq!(again.capacity(), if cfg!(feature = "checked") { 1 } else { 16 });
    let room = again.spare();
    assert_eq!(again.append(&[2; 64]), room);
    assert_eq!((again[0], again[1..].iter().all(|&byte| byte == 2)), (1, true));
}

#[test]
fn refusal_reports_current_figures() {
    let mut ring = RingAl::new(4096);
    let first = ring.fixed(2000).unwrap();
    let _second = ring.fixed(1000).unwrap();
    drop(first);
    assert!(ring.try_fixed(3000).is_err());
    let _third = ring.fixed(1500).unwrap();
    let Stats { largest_free, bytes_live, .. } = ring.stats();
    let refused = ring.try_fixed(3000).unwrap_err();
    assert_eq!(refused, RequestError::Exhausted { asked: 3000, largest_free, bytes_live });
    assert!(ring.fixed(largest_free).is_some());
}
