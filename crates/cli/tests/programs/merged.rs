//! Functions of two types with the same layout, in pairs that compilers merge. The name of each function says which type it uses.
#![allow(clippy::all)]
use std::collections::*;
#[derive(Clone, Copy, Default)] pub struct Foo(pub u64); #[derive(Clone, Copy, Default)] pub struct Bar(pub u64);
fn keep<T>(x: T) { std::mem::forget(std::hint::black_box(x)); }
macro_rules! both { ($foo:ident, $bar:ident, $t:ident, $e:expr, $n:literal, $m:literal) => {
 #[inline(never)] fn $foo() { use crate::Foo as $t; for _ in 0..$n { keep($e); } println!("{}", $n) }
 #[inline(never)] fn $bar() { use crate::Bar as $t; for _ in 0..$m { keep($e); } println!("{}", $m) } } }
both!(foo_clone, bar_clone, T, { let v: Vec<T> = vec![T(3); std::hint::black_box(100)]; v.clone() }, 1, 2);
both!(foo_clone2, bar_clone2, T, { let v: Vec<T> = Vec::from([T(3); 50]); (v.clone(), v) }, 3, 4);
both!(foo_resize, bar_resize, T, { let mut v: Vec<T> = Vec::new(); v.resize(std::hint::black_box(77), T(1)); v }, 5, 6);
both!(foo_resize2, bar_resize2, T, { let mut v: Vec<T> = Vec::new(); v.resize(std::hint::black_box(78), T(2)); v }, 7, 8);
both!(foo_ext, bar_ext, T, { let mut v: Vec<T> = Vec::new(); v.extend((0..std::hint::black_box(100)).map(|x| T(x))); v }, 9, 10);
both!(foo_extslice, bar_extslice, T, { let mut v: Vec<T> = Vec::new(); v.extend_from_slice(std::hint::black_box(&[T(1); 100])); v }, 11, 12);
both!(foo_dq, bar_dq, T, { let mut v: VecDeque<T> = VecDeque::new(); v.resize(std::hint::black_box(100), T(1)); v }, 13, 14);
both!(foo_bt, bar_bt, T, { let mut v: BTreeMap<u64, T> = BTreeMap::new(); for i in 0..std::hint::black_box(100) { v.insert(i, T(i)); } v.clone() }, 15, 16);
both!(foo_col, bar_col, T, { let v: BTreeMap<u64, T> = (0..std::hint::black_box(100)).map(|i| (i, T(i))).collect(); v }, 17, 18);
both!(foo_ll, bar_ll, T, { let v: LinkedList<T> = (0..std::hint::black_box(100)).map(|i| T(i)).collect(); v }, 19, 20);
both!(foo_hs, bar_hs, T, { let v: HashMap<u64, Vec<T>> = (0..std::hint::black_box(100)).map(|i| (i, vec![T(i); 3])).collect(); v.clone() }, 21, 22);
both!(foo_rc, bar_rc, T, { let v: std::rc::Rc<[T]> = std::rc::Rc::from(vec![T(1); std::hint::black_box(55)]); v }, 23, 24);
fn main() { foo_clone(); bar_clone(); foo_clone2(); bar_clone2(); foo_resize(); bar_resize(); foo_resize2(); bar_resize2(); foo_ext(); bar_ext(); foo_extslice(); bar_extslice(); foo_dq(); bar_dq(); foo_bt(); bar_bt(); foo_col(); bar_col(); foo_ll(); bar_ll(); foo_hs(); bar_hs(); foo_rc(); bar_rc(); std::process::exit(0) }
