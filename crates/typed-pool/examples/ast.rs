//! Parses arithmetic into trees of nodes, evaluates the trees and drops them. `pooled!` gives the
//! node type a pool on each thread, as a class's own `operator new` does in C++.
//!
//! Run it with `cargo run --release -p typed-pool --example ast`.

use core::ops::Deref;
use std::time::Instant;

use ephemera_testkit::backing::CountingGlobal;
use typed_pool::{PooledBox, pooled};

#[global_allocator]
static HEAP: CountingGlobal = CountingGlobal::new(1);

const TEXTS: usize = 300;

/// The kind of box that the nodes use. The parser below works with any kind.
trait Boxes: Sized {
    type Of: Deref<Target = Node<Self>>;

    fn put(node: Node<Self>) -> Self::Of;
}

enum Node<B: Boxes> {
    Number(i64),
    Sum(B::Of, B::Of),
    Product(B::Of, B::Of),
}

impl<B: Boxes> Node<B> {
    fn value(&self) -> i64 {
        match self {
            Self::Number(number) => *number,
            Self::Sum(left, right) => left.value().wrapping_add(right.value()),
            Self::Product(left, right) => left.value().wrapping_mul(right.value()),
        }
    }
}

/// Boxes on the global heap.
struct Plain;

impl Boxes for Plain {
    type Of = Box<Node<Self>>;

    fn put(node: Node<Self>) -> Self::Of {
        Box::new(node)
    }
}

/// Boxes in the pool of their type.
struct InPool;

pooled!(Node<InPool>);

impl Boxes for InPool {
    type Of = PooledBox<Node<Self>>;

    fn put(node: Node<Self>) -> Self::Of {
        PooledBox::new(node)
    }
}

/// Parses a sum of products, such as `1 + 2 * 3`.
fn parse<B: Boxes>(text: &str) -> Option<B::Of> {
    let number = |word: &str| Some(B::put(Node::Number(word.trim().parse().ok()?)));
    let product = |part: &str| {
        let mut factors = part.split('*');
        let first = number(factors.next()?)?;
        factors.try_fold(first, |left, word| Some(B::put(Node::Product(left, number(word)?))))
    };
    let mut parts = text.split('+');
    let first = product(parts.next()?)?;
    parts.try_fold(first, |left, part| Some(B::put(Node::Sum(left, product(part)?))))
}

/// Parses, evaluates and drops the text `TEXTS` times. Returns the sum of the values.
fn run<B: Boxes>(text: &str) -> i64 {
    let value = |_| parse::<B>(text).expect("the text is arithmetic").value();
    (0..TEXTS).map(value).fold(0, i64::wrapping_add)
}

fn main() {
    let text = (1..200).map(|n| format!("{n} * 3")).collect::<Vec<_>>().join(" + ");
    let start = Instant::now();
    let (sum, heap) = HEAP.watch(|| run::<Plain>(&text));
    let on_heap = start.elapsed();

    let start = Instant::now();
    let (same, pool) = HEAP.watch(|| run::<InPool>(&text));
    let in_pool = start.elapsed();

    println!("{TEXTS} texts of 199 products, sum {sum}");
    println!("Box:       {:7} requests for memory, at most {} bytes, {on_heap:?}", heap.requests, heap.peak);
    let held = PooledBox::<Node<InPool>>::stats().bytes_held;
    println!("PooledBox: {:7} requests for memory, {held} bytes held, {in_pool:?}", pool.requests);
    println!("The pool saved {} requests for memory.", heap.requests - pool.requests);
    assert_eq!(sum, same, "both trees have the same value");
    assert!(heap.requests >= TEXTS * 3 * 199 && pool.requests < 20, "one text's nodes serve all texts");
}

#[test]
fn the_nodes_of_one_text_serve_all_texts() {
    main();
}
