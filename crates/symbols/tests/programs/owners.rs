//! Types that own memory, and types that do not. Prints the size of each, which its debug information must agree with.
#![allow(dead_code)]

use std::collections::HashMap;
use std::hint::black_box;
use std::rc::Rc;

mod prover {
    /// Owns memory, so it is dropped.
    pub struct Proof {
        pub points: Vec<[u8; 32]>,
        pub seed: [u64; 20],
    }

    /// Owns nothing, but lies in a vector.
    #[derive(Clone, Copy)]
    pub struct Point {
        pub x: [u64; 4],
        pub y: [u64; 4],
    }

    /// Generic, with two parameters in the program.
    pub struct Table<T> {
        pub rows: Vec<T>,
        pub name: String,
    }

    /// Has a destructor of its own.
    pub struct Guard(pub u32);

    impl Drop for Guard {
        fn drop(&mut self) {
            std::hint::black_box(self.0);
        }
    }

    /// An enum: its variants are no types.
    pub enum Message {
        Text(String),
        Number(u64),
    }

    /// Owns nothing and is only on the stack: it cannot leak.
    #[derive(Clone, Copy)]
    pub struct Plain {
        pub numbers: [u64; 64],
    }
}

use prover::{Guard, Message, Plain, Point, Proof, Table};

#[inline(never)]
fn work(number: u64) -> u64 {
    let proof = Proof { points: vec![[1; 32]; number as usize], seed: [number; 20] };
    let points: Vec<Point> = vec![Point { x: [number; 4], y: [2; 4] }; 3];
    let words = Table { rows: vec![number; 3], name: "words".to_owned() };
    let bytes = Table { rows: vec![1u8; 3], name: "bytes".to_owned() };
    let guard = Rc::new(Guard(4));
    let mut messages = HashMap::new();
    messages.insert(1, Message::Text(number.to_string()));
    messages.insert(2, Message::Number(number));
    let plain = Plain { numbers: [number; 64] };
    black_box((&proof, &points, &words, &bytes, &guard, &messages, &plain));
    proof.points.len() as u64 + points.len() as u64
}

fn main() {
    black_box(work(std::env::args().count() as u64));
    println!("owners::prover::Proof {}", size_of::<Proof>());
    println!("owners::prover::Point {}", size_of::<Point>());
    println!("owners::prover::Table {}", size_of::<Table<u8>>());
    println!("owners::prover::Guard {}", size_of::<Guard>());
    println!("owners::prover::Message {}", size_of::<Message>());
}
