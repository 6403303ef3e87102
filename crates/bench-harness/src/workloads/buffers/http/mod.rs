//! R3, HTTP/1.1 over loopback: two connections that stay open, with requests and answers in the
//! contender's buffers.
//!
//! A sample is a closed loop: on each connection, a request follows the answer to the previous one.
//! The operating system takes most of the time of a sample, so the ratio shows how much of an
//! allocator's lead remains in a server. Latencies are measured separately in an open loop:
//! requests leave at fixed times, whether or not answers have arrived, and a latency starts when
//! its request is due.

mod bodies;
mod client;
mod server;

use std::io;
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Barrier};

use hdrhistogram::Histogram;

use self::client::Client;
use crate::buffers::Source;
use crate::contenders::buffers::EachBytesMut;
use crate::workloads::crew::{Joined, spawn};
use crate::workloads::{Cell, Context, Load, litter};

const CONNECTIONS: usize = 2;

struct Http {
    // This field is dropped first. A server's thread ends when the client closes its connection.
    client: Client,
    _servers: Vec<Joined>,
}

impl Http {
    fn new<S: Source>(littered: bool, context: &Context) -> io::Result<Self> {
        // If a connection fails, the streams are dropped first, which ends the servers' threads.
        let mut servers = Vec::new();
        let mut streams = Vec::new();
        for _ in 0..CONNECTIONS {
            let (asking, stream) = connection()?;
            streams.push(asking);
            let seed = context.seed;
            let serve = move || {
                // A general allocator may have a heap for each thread, so the litter is made here,
                // on the server's thread.
                let held = || litter::of_lengths(bodies::shared().iter().map(Vec::len).collect());
                litter::scatter::<S::Backing>(littered, held, seed);
                // An error here ends the connection, which the client reports.
                let _ = server::serve::<S>(stream);
            };
            servers.push(Joined(Some(spawn(context.second_cpu, Box::new(serve)))));
        }
        let client = Client::new(streams, S::CHECKED, context.second_cpu.is_some());
        Ok(Self { client, _servers: servers })
    }
}

impl Cell for Http {
    fn run(&mut self, units: u64) -> u64 {
        self.client.closed_loop(units).expect("the server answers")
    }

    fn latencies(&mut self, load: &Load) -> Option<Histogram<u64>> {
        Some(self.client.open_loop(load).expect("the server answers"))
    }
}

/// Returns the two ends of a new connection over loopback.
fn connection() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let asking = TcpStream::connect(listener.local_addr()?)?;
    let (answering, _) = listener.accept()?;
    asking.set_nodelay(true)?;
    answering.set_nodelay(true)?;
    Ok((asking, answering))
}

/// Answers `requests` requests with buffers of the crate `bytes`, on one connection and on this
/// thread, for a recording. Calls `begin` when everything is ready. After that call, only this
/// thread and the start of the client's thread allocate: the client has already allocated
/// everything else that it needs.
///
/// # Errors
///
/// Returns an error if there is no loopback, if the connection breaks, or if `begin` fails.
///
/// # Panics
///
/// Panics if the client panics.
pub fn answer(requests: u64, begin: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    let (asking, stream) = connection()?;
    let mut client = Client::new(vec![asking], false, false);
    let ready = Arc::new(Barrier::new(2));
    let client = std::thread::spawn({
        let ready = Arc::clone(&ready);
        move || {
            ready.wait();
            client.closed_loop(requests)
        }
    });
    let begun = begin();
    ready.wait();
    server::serve::<EachBytesMut>(stream)?;
    client.join().expect("the client does not panic")?;
    begun
}

/// Builds a cell of two connections.
///
/// # Panics
///
/// Panics if the host has no loopback.
pub(crate) fn cell<S: Source>(littered: bool, context: &Context) -> Box<dyn Cell> {
    Box::new(Http::new::<S>(littered, context).expect("the system has a loopback interface"))
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;
    use crate::contenders::blocks::System;
    use crate::contenders::buffers::Vectors;
    use crate::tally::Counted;
    use crate::workloads::blocks::json::Document;

    #[test]
    fn conc_open_and_closed_loops_get_all_answers() {
        let document = Document::generated(1, 1000).into();
        let sources = crate::workloads::nodes::Sources::new(None).into();
        let context = Context { seed: 1, document, sources, second_cpu: None };
        let mut cell = Http::new::<Counted<Vectors<System>>>(true, &context)
            .expect("the system has a loopback interface");
        let sum = cell.run(70);
        assert_ne!(sum, 0);
        let load = Load { interval: Duration::from_micros(200), length: Duration::from_millis(20) };
        let latencies = cell.latencies(&load).expect("there are latencies");
        assert_eq!(latencies.len(), 100, "a request each interval");
        assert!(latencies.max() > 0);
        assert_eq!(cell.run(70), sum, "the loops leave nothing on their connections");
    }
}
