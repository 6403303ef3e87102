//! Tests of buffers that one thread fills and another thread drops.
#![cfg(feature = "std")]

use std::io::Write;
use std::sync::mpsc::{channel, sync_channel};
use std::thread;

use ephemera_testkit::SplitMix;
use ringal::{FixedBuf, FixedBufMut, RequestError, RingAl};

fn fill(buffer: &mut FixedBufMut, number: usize) {
    let room = buffer.capacity();
    buffer.extend((0..room).map(|at| (at + number) as u8));
}

fn is_filled(bytes: &[u8], number: usize) -> bool {
    bytes.iter().enumerate().all(|(at, &byte)| byte == (at + number) as u8)
}

#[test]
fn conc_batches_are_dropped_on_another_thread() {
    const BATCH: usize = if cfg!(miri) { 6 } else { 256 };
    const BATCHES: usize = if cfg!(miri) { 4 } else { 400 };
    let mut ring = RingAl::new(64 * 4 * BATCH);
    let (to, from) = sync_channel::<Vec<(usize, FixedBufMut)>>(2);
    let reader = thread::spawn(move || {
        let mut seen = 0;
        for batch in from {
            for (number, buffer) in batch {
                assert!(is_filled(&buffer, number), "buffer {number} changed between threads");
                seen += 1;
            }
        }
        seen
    });
    let mut sent = 0;
    for _ in 0..BATCHES {
        let mut batch = Vec::with_capacity(BATCH);
        while batch.len() < BATCH {
            match ring.fixed(1 + sent % 90) {
                Some(mut buffer) => {
                    fill(&mut buffer, sent);
                    batch.push((sent, buffer));
                    sent += 1;
                }
                None => thread::yield_now(),
            }
        }
        to.send(batch).unwrap();
    }
    drop(to);
    assert_eq!(reader.join().unwrap(), sent);
    assert_eq!(ring.stats().buffers_live, 0);
    assert!(ring.fixed(ring.capacity()).is_some());
}

#[test]
fn conc_last_handle_frees_a_shared_frozen_buffer() {
    const ROUNDS: usize = if cfg!(miri) { 3 } else { 3_000 };
    let mut ring = RingAl::new(2 << 10);
    let readers = [0, 1].map(|_| {
        let (to, from) = channel::<(usize, FixedBuf)>();
        let reader = thread::spawn(move || {
            for (number, buffer) in from {
                let half = buffer.slice(..buffer.len() / 2);
                drop(buffer);
                assert!(is_filled(&half.clone(), number));
            }
        });
        (to, reader)
    });
    for number in 0..ROUNDS {
        let mut buffer = loop {
            match ring.fixed(200) {
                Some(buffer) => break buffer,
                None => thread::yield_now(),
            }
        };
        fill(&mut buffer, number);
        let frozen = buffer.freeze();
        for (to, _) in &readers {
            to.send((number, frozen.clone())).unwrap();
        }
        assert!(is_filled(&frozen, number));
    }
    for (to, reader) in readers {
        drop(to);
        reader.join().unwrap();
    }
    assert_eq!(ring.stats().buffers_live, 0);
}

#[test]
fn conc_ring_moves_between_threads_with_live_buffers() {
    const ROUNDS: usize = if cfg!(miri) { 4 } else { 300 };
    let mut ring = RingAl::new(4 << 10);
    let mut held: Vec<(usize, FixedBufMut)> = Vec::new();
    for round in 0..ROUNDS {
        let worker = thread::spawn(move || {
            let mut rng = SplitMix::new(round as u64);
            for _ in 0..4 {
                if let Some(mut buffer) = ring.fixed(rng.below(700)) {
                    fill(&mut buffer, round);
                    held.push((round, buffer));
                } else if !held.is_empty() {
                    let (number, buffer) = held.swap_remove(rng.below(held.len()));
                    assert!(is_filled(&buffer, number));
                }
            }
            (ring, held)
        });
        (ring, held) = worker.join().unwrap();
    }
    drop(ring);
    for (number, buffer) in held {
        thread::spawn(move || assert!(is_filled(&buffer, number))).join().unwrap();
    }
}

#[test]
fn conc_completed_release_is_visible_to_the_next_request() {
    const ROUNDS: usize = if cfg!(miri) { 5 } else { 5_000 };
    let mut ring = RingAl::new(1 << 10);
    let (to, from) = channel::<FixedBufMut>();
    let (done, wait) = channel::<()>();
    let releaser = thread::spawn(move || {
        for buffer in from {
            drop(buffer);
            done.send(()).unwrap();
        }
    });
    for round in 0..ROUNDS {
        let mut large = ring.fixed(600).expect("the release happened before the message");
        large.write_all(&[round as u8; 600]).unwrap();
        // The ring refuses a request before the release starts, so it remembers a refusal while the
        // release runs.
        assert!(ring.fixed(700).is_none());
        to.send(large).unwrap();
        let _ = ring.fixed(700);
        wait.recv().unwrap();
        assert!(ring.fixed(700).is_some(), "round {round}");
    }
    drop(to);
    releaser.join().unwrap();
}

/// The other thread frees buffers continuously. It often frees a buffer between the search and the
/// walk that computes the figures of the error.
#[test]
fn conc_refused_request_reports_less_room_than_requested() {
    const ASKED: usize = 1_000;
    let mut ring = RingAl::new(4 << 10);
    let (to, from) = channel::<FixedBufMut>();
    let releaser = thread::spawn(move || from.into_iter().for_each(drop));
    let mut refusals = 0;
    for _ in 0..if cfg!(miri) { 50 } else { 200_000 } {
        match ring.try_fixed(ASKED) {
            Ok(buffer) => to.send(buffer).unwrap(),
            Err(RequestError::Exhausted { asked: ASKED, largest_free, .. }) => {
                refusals += 1;
                assert!(largest_free < ASKED, "{largest_free} bytes were free, after {refusals} refusals");
            }
            Err(refused) => panic!("{refused}"),
        }
    }
    drop(to);
    releaser.join().unwrap();
}

#[test]
fn conc_ring_moves_to_a_thread_that_returns_a_buffer() {
    let mut ringal = RingAl::new(1024);
    let kept = ringal.fixed(100).unwrap();
    let made = thread::spawn(move || {
        drop(kept);
        let mut buffer = ringal.fixed(100).unwrap();
        buffer.write_all(b"made elsewhere").unwrap();
        buffer
    });
    assert_eq!(&made.join().unwrap()[..], b"made elsewhere");
}
