//! A test with a signal handler that runs after every instruction of a note and tries to record an
//! event each time. The events and the note must not overwrite each other.

use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU64, AtomicUsize};

use super::super::tests::stepwise;
use super::CallTimer;
use crate::format::{Base, LONGEST, PACKET, lead, op};
use crate::stream::{Call, Stream};
use crate::tls::{self, BUSY};

/// The number of the thread that holds the stream.
const THREAD: usize = 7;

/// The size of all events that the handler recorded, in bytes.
static RECORDED: AtomicUsize = AtomicUsize::new(0);
/// The number of events that the handler dropped, because the recorder was writing.
static DROPPED: AtomicUsize = AtomicUsize::new(0);
static SEQUENCE: AtomicU64 = AtomicU64::new(0);

fn write(stream: &Stream) {
    let call = Call { lead: lead(op::ALLOC, 0), address: 16, size: Some(1) };
    assert!(stream.write(THREAD, 0, &SEQUENCE, &call), "the packet has room");
}

/// Records an event, like a call to `malloc` in a signal handler.
extern "C" fn records(_: i32) {
    let words = tls::take();
    if words.stream == BUSY {
        DROPPED.fetch_add(1, Relaxed);
        return;
    }
    // SAFETY: the test sets the word to its own stream, which outlives all runs of the handler.
    let stream = unsafe { &*words.stream };
    let before = stream.at.load(Relaxed);
    write(stream);
    RECORDED.fetch_add(stream.at.load(Relaxed) - before, Relaxed);
    tls::set_stream(words.stream);
}

#[test]
fn an_event_of_a_signal_handler_and_a_note_do_not_overwrite_each_other() {
    let mut packet = vec![0_u64; PACKET / 8];
    let stream = Stream::default();
    stream.holder.store(THREAD, Relaxed);
    // SAFETY: the vector has `PACKET` zeroed bytes that nothing else uses. They are aligned to four
    // bytes or more.
    unsafe { stream.begin(packet.as_mut_ptr().cast(), 0, THREAD as u32, &Base::default()) };
    let watch = CallTimer { begin: 1, middle: 2, place: stream.place() };
    write(&stream);
    let begin = stream.at.load(Relaxed);

    let before = tls::get();
    tls::set_number(THREAD);
    tls::set_stream(&raw const stream);
    stepwise(records, || watch.end_recorder());
    tls::set_stream(before.stream);
    tls::set_number(before.number);

    let others = begin + RECORDED.load(Relaxed);
    let note = stream.at.load(Relaxed).checked_sub(others).expect("no event is overwritten");
    assert!((2..=LONGEST).contains(&note), "the note is there: {note} bytes");
    assert!(RECORDED.load(Relaxed) > 0 && DROPPED.load(Relaxed) > 0, "the handler met both states");
}
