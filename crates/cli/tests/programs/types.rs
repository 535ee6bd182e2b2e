//! Keeps blocks of known types live and prints the bytes of each: `TRUTH function type bytes`. A huge number means that only the type is known.
//! A type is that at the time of the allocation: a literal vector is made as a box.
#![allow(dead_code, clippy::all)]
use std::alloc::Layout;
use std::cell::RefCell;
use std::collections::*;
use std::fmt::Write as _;
#[allow(unused_imports)] use std::mem::size_of;
use std::rc::Rc;
use std::sync::{mpsc, Arc, Mutex};

fn keep<T>(x: T) { std::mem::forget(std::hint::black_box(x)); }
fn truth(f: &str, t: &str, bytes: usize) { println!("TRUTH\t{f}\t{t}\t{bytes}"); }

#[derive(Clone, Debug)] pub struct Session { pub id: u64, pub b: [u8; 88] }
impl Session { #[inline] fn new(id: u64) -> Self { Session { id, b: [id as u8; 88] } } }
#[derive(Clone, Debug)] pub struct Point { pub x: f64, pub y: f64 }
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)] pub struct Key(u64, u32);
pub trait Shape { fn area(&self) -> f64; }
struct Circle { r: [f64; 20] }
struct Square { s: [f64; 33] }
impl Shape for Circle { fn area(&self) -> f64 { self.r[0] } }
impl Shape for Square { fn area(&self) -> f64 { self.s[0] } }
#[derive(Debug)] pub enum Tree { Leaf(u64), Node(Box<Tree>, Box<Tree>) }

const N: usize = 1000;

#[inline(never)] fn vec_with_capacity() { let mut v: Vec<Session> = Vec::with_capacity(N); v.push(Session::new(1)); truth("vec_with_capacity", "Vec<Session>", v.capacity() * size_of::<Session>()); keep(v) }
#[inline(never)] fn vec_push() { let mut v = Vec::new(); for i in 0..N { v.push(Point { x: i as f64, y: 0.0 }) } truth("vec_push", "Vec<Point>", v.capacity() * size_of::<Point>()); keep(v) }
#[inline(never)] fn vec_push_u8() { let mut v: Vec<u8> = Vec::new(); for i in 0..N*9 { v.push(i as u8) } truth("vec_push_u8", "Vec<u8>", v.capacity()); keep(v) }
#[inline(never)] fn vec_macro() { let v = vec![7u32; N * 4]; truth("vec_macro", "Vec<u32>", v.capacity() * 4); keep(v) }
#[inline(never)] fn vec_zeroed() { let v = vec![0u64; N * 4]; truth("vec_zeroed", "Vec<u64>", v.capacity() * 8); keep(v) }
#[inline(never)] fn vec_literal() { let v = vec![Session::new(1), Session::new(2), Session::new(3)]; truth("vec_literal", "Box<[Session; 3]>", v.capacity() * size_of::<Session>()); keep(v) }
#[inline(never)] fn vec_extend() { let mut v: Vec<Key> = Vec::new(); v.extend((0..N as u64).filter(|x| x % 3 != 0).map(|x| Key(x, 1))); truth("vec_extend", "Vec<Key>", v.capacity() * size_of::<Key>()); keep(v) }
#[inline(never)] fn vec_extend_slice() { let a = [1.5f32; 3000]; let mut v: Vec<f32> = Vec::new(); v.extend_from_slice(std::hint::black_box(&a)); truth("vec_extend_slice", "Vec<f32>", v.capacity() * 4); keep(v) }
#[inline(never)] fn vec_reserve() { let mut v: Vec<[u32; 8]> = Vec::new(); v.reserve_exact(N); truth("vec_reserve", "Vec<[u32; 8]>", v.capacity() * 32); keep(v) }
#[inline(never)] fn vec_resize() { let mut v: Vec<i16> = Vec::new(); v.resize(N * 5, 3); truth("vec_resize", "Vec<i16>", v.capacity() * 2); keep(v) }
#[inline(never)] fn vec_shrink() { let mut v: Vec<Point> = Vec::with_capacity(N * 2); for i in 0..N { v.push(Point { x: i as f64, y: 0.0 }) } v.shrink_to_fit(); truth("vec_shrink", "Vec<Point>", v.capacity() * 16); keep(v) }
#[inline(never)] fn vec_of_vec() { let mut v: Vec<Vec<u16>> = Vec::new(); let mut inner = 0; for i in 0..100 { let mut w = Vec::new(); for j in 0..i + 1 { w.push(j as u16) } inner += w.capacity() * 2; v.push(w) } truth("vec_of_vec", "Vec<Vec<u16>>", v.capacity() * 24); truth("vec_of_vec", "Vec<u16>", inner); keep(v) }
#[inline(never)] fn vec_collect() { let v: Vec<Point> = (0..std::hint::black_box(N)).map(|i| Point { x: i as f64, y: 1.0 }).collect(); truth("vec_collect", "Vec<Point>", v.capacity() * 16); keep(v) }
#[inline(never)] fn vec_collect_filter() { let v: Vec<Session> = (0..std::hint::black_box(300u64)).filter(|i| i % 2 == 0).map(Session::new).collect(); truth("vec_collect_filter", "Vec<Session>", v.capacity() * 96); keep(v) }
#[inline(never)] fn vec_clone() { let v: Vec<Session> = vec![Session::new(1); 200]; let w = v.clone(); truth("vec_clone", "Vec<Session>", (v.capacity() + w.capacity()) * 96); keep((v, w)) }
#[inline(never)] fn to_vec() { let a = [Key(1, 2); 500]; let v = std::hint::black_box(&a[..]).to_vec(); truth("to_vec", "Vec<Key>", v.capacity() * 16); keep(v) }
#[inline(never)] fn vec_option_box() { let v: Vec<Option<Box<Session>>> = (0..N as u64).map(|i| (i % 2 == 0).then(|| Box::new(Session::new(i)))).collect(); truth("vec_option_box", "Vec<Option<Box<Session>>>", v.capacity() * 8); truth("vec_option_box", "Box<Session>", N / 2 * 96); keep(v) }
#[inline(never)] fn boxes() { for i in 0..100 { keep(Box::new(Session::new(i))) } truth("boxes", "Box<Session>", 9600) }
#[inline(never)] fn box_dyn() { let v: [Box<dyn Shape>; 2] = [Box::new(Circle { r: [1.0; 20] }), Box::new(Square { s: [1.0; 33] })]; std::hint::black_box(v[0].area()); truth("box_dyn", "Box<Circle>", 160); truth("box_dyn", "Box<Square>", 264); keep(v) }
#[inline(never)] fn box_slice() { let v: Box<[u64]> = vec![1u64; 700].into_boxed_slice(); truth("box_slice", "Vec<u64>", 5600); keep(v) }
#[inline(never)] fn box_closure() { let a = [std::hint::black_box(3u64); 25]; let f: Box<dyn Fn(u64) -> u64> = Box::new(move |x| a[(x % 25) as usize]); std::hint::black_box(f(3)); truth("box_closure", "Box<box_closure::{closure}>", 200); keep(f) }
#[inline(never)] fn tree() { fn make(d: u32) -> Tree { if d == 0 { Tree::Leaf(1) } else { Tree::Node(Box::new(make(d - 1)), Box::new(make(d - 1))) } } let t = make(std::hint::black_box(8)); truth("tree", "Box<Tree>", 510 * size_of::<Tree>()); keep(t) }
#[inline(never)] fn rcs() { for i in 0..100 { keep(Rc::new(RefCell::new(Session::new(i)))) } truth("rcs", "Rc<RefCell<Session>>", 100 * (16 + size_of::<RefCell<Session>>())) }
#[inline(never)] fn arcs() { for i in 0..100 { keep(Arc::new(Mutex::new(Session::new(i)))) } truth("arcs", "Arc<Mutex<Session>>", 100 * (16 + size_of::<Mutex<Session>>())) }
#[inline(never)] fn arc_str() { let s: Arc<str> = Arc::from("x".repeat(1000).as_str()); truth("arc_str", "Arc<str>", 1016); keep(s) }
#[inline(never)] fn arc_slice() { let s: Arc<[Point]> = (0..100).map(|i| Point { x: i as f64, y: 0.0 }).collect(); truth("arc_slice", "Arc<[Point]>", 1616); keep(s) }
#[inline(never)] fn string_from() { let s = String::from(std::hint::black_box("hello there, this is a text")); truth("string_from", "String", s.capacity()); keep(s) }
#[inline(never)] fn to_string() { let s = std::hint::black_box(123456789u64).to_string(); truth("to_string", "String", s.capacity()); keep(s) }
#[inline(never)] fn to_owned() { let s = std::hint::black_box("some text that is owned now").to_owned(); truth("to_owned", "String", s.capacity()); keep(s) }
#[inline(never)] fn string_push() { let mut s = String::new(); for i in 0..N { s.push((b'a' + (i % 26) as u8) as char); s.push_str("zz") } truth("string_push", "String", s.capacity()); keep(s) }
#[inline(never)] fn formats() { let mut n = 0; for i in 0..100 { let s = format!("session {i} of {}", N); n += s.capacity(); keep(s) } truth("formats", "String", n) }
#[inline(never)] fn write_fmt() { let mut s = String::new(); for i in 0..200 { write!(s, "{i:>10}").unwrap() } truth("write_fmt", "String", s.capacity()); keep(s) }
#[inline(never)] fn join() { let v = ["one text"; 100]; let s = v.join(", "); truth("join", "String", s.capacity()); keep(s) }
#[inline(never)] fn string_collect() { let s: String = (0..500).map(|i| (b'a' + i as u8 % 26) as char).collect(); truth("string_collect", "String", s.capacity()); keep(s) }
#[inline(never)] fn string_clone() { let s = std::hint::black_box("cloned text ".repeat(10)); let t = s.clone(); truth("string_clone", "String", s.capacity() + t.capacity()); keep((s, t)) }
fn table(cap: usize, size: usize) -> usize { let b = (cap * 8 / 7).next_power_of_two(); let l = (size * b + 15) / 16 * 16; l + b + 16 }
#[inline(never)] fn hash_map() { let mut m: HashMap<u64, Point> = HashMap::new(); for i in 0..N as u64 { m.insert(i, Point { x: 0.0, y: 0.0 }); } truth("hash_map", "HashMap<u64, Point>", table(m.capacity(), 24)); keep(m) }
#[inline(never)] fn hash_map_string() { let mut m: HashMap<String, Vec<u32>> = HashMap::new(); let (mut s, mut w) = (0, 0); for i in 0..100u32 { let k = format!("key {i}"); s += k.capacity(); m.entry(k).or_default().push(i) } for v in m.values() { w += v.capacity() * 4 } truth("hash_map_string", "HashMap<String, Vec<u32>>", table(m.capacity(), 48)); truth("hash_map_string", "String", s); truth("hash_map_string", "Vec<u32>", w); keep(m) }
#[inline(never)] fn hash_map_capacity() { let m: HashMap<Key, Session> = HashMap::with_capacity(300); truth("hash_map_capacity", "HashMap<Key, Session>", table(m.capacity(), 112)); keep(m) }
#[inline(never)] fn hash_map_collect() { let m: HashMap<u32, u32> = (0..500).map(|x| (x, x)).collect(); truth("hash_map_collect", "HashMap<u32, u32>", table(m.capacity(), 8)); keep(m) }
#[inline(never)] fn hash_set() { let mut m: HashSet<Key> = HashSet::new(); for i in 0..N as u64 { m.insert(Key(i, 0)); } truth("hash_set", "HashSet<Key>", table(m.capacity(), 16)); keep(m) }
#[inline(never)] fn hash_map_clone() { let m: HashMap<u64, u64> = (0..50).map(|x| (x, x)).collect(); let n = m.clone(); truth("hash_map_clone", "HashMap<u64, u64>", 2 * table(m.capacity(), 16)); keep((m, n)) }
// Of a B-tree only the types are checked, not the bytes of each: -1.
#[inline(never)] fn btree_map() { let mut m: BTreeMap<u64, Session> = BTreeMap::new(); for i in 0..300 { m.insert(i * 7 % 300, Session::new(i)); } truth("btree_map", "BTreeMap<u64, Session>", usize::MAX); keep(m) }
#[inline(never)] fn btree_collect() { let m: BTreeMap<Key, u32> = (0..300).map(|i| (Key(i, 0), 1)).collect(); truth("btree_collect", "BTreeMap<Key, u32>", usize::MAX); keep(m) }
#[inline(never)] fn btree_set() { let mut m: BTreeSet<u32> = BTreeSet::new(); for i in 0..300 { m.insert(i); } truth("btree_set", "BTreeSet<u32>", usize::MAX); keep(m) }
#[inline(never)] fn vec_deque() { let mut m: VecDeque<Point> = VecDeque::new(); for i in 0..N { m.push_back(Point { x: i as f64, y: 0.0 }) } truth("vec_deque", "VecDeque<Point>", m.capacity() * 16); keep(m) }
#[inline(never)] fn binary_heap() { let mut m: BinaryHeap<Key> = BinaryHeap::new(); for i in 0..N { m.push(Key(i as u64, 0)) } truth("binary_heap", "BinaryHeap<Key>", m.capacity() * 16); keep(m) }
#[inline(never)] fn linked_list() { let mut m: LinkedList<Session> = LinkedList::new(); for i in 0..50 { m.push_back(Session::new(i)) } truth("linked_list", "LinkedList<Session>", 50 * 112); keep(m) }
#[inline(never)] fn channel() { let (tx, rx) = mpsc::channel::<Point>(); for i in 0..310 { tx.send(Point { x: i as f64, y: 0.0 }).unwrap() } truth("channel", "mpsc::channel<Point>", usize::MAX); keep((tx, rx)) }
#[inline(never)] fn sync_channel() { let (tx, rx) = mpsc::sync_channel::<Session>(100); tx.send(Session::new(1)).unwrap(); truth("sync_channel", "mpsc::channel<Session>", usize::MAX); keep((tx, rx)) }
// The program's own generic containers: what they hold is the standard library's.
pub struct Store<T> { items: Vec<T>, index: HashMap<u64, Box<T>> }
impl<T: Clone> Store<T> { fn add(&mut self, id: u64, x: T) { self.items.push(x.clone()); self.index.insert(id, Box::new(x)); } }
#[inline(never)] fn store() { let mut s = Store { items: Vec::new(), index: HashMap::new() }; for i in 0..100 { s.add(i, Session::new(i)) } truth("store", "Vec<Session>", s.items.capacity() * 96); truth("store", "HashMap<u64, Box<Session>>", table(s.index.capacity(), 16)); truth("store", "Box<Session>", 9600); keep(s) }
#[inline(never)] fn store_closure() { let mut s: Vec<Store<Key>> = Vec::new(); (0..3).for_each(|k| { let mut t = Store { items: Vec::new(), index: HashMap::new() }; (0..100u64).for_each(|i| t.add(i, Key(i, k))); s.push(t) }); truth("store_closure", "Vec<Key>", 3 * 128 * 16); truth("store_closure", "HashMap<u64, Box<Key>>", 3 * table(112, 16)); truth("store_closure", "Box<Key>", 4800); truth("store_closure", "Vec<Store<Key>>", 4 * size_of::<Store<Key>>()); keep(s) }
// Memory that no container of the standard library owns: no type is right.
mod own { use std::alloc::Layout; pub struct Vec<T>(pub *mut T); impl<T> Vec<T> { #[inline(never)] pub fn with_capacity(n: usize) -> Self { Vec(unsafe { std::alloc::alloc(Layout::array::<T>(n).unwrap()) as *mut T }) } } }
#[inline(never)] fn own_vec() { let v = own::Vec::<Point>::with_capacity(200); std::hint::black_box(v.0); truth("own_vec", "-", 3200) }
#[inline(never)] fn raw_alloc() { let p = unsafe { std::alloc::alloc(Layout::from_size_align(1234, 8).unwrap()) }; std::hint::black_box(p); truth("raw_alloc", "-", 1234) }
#[inline(never)] fn sorted() { let mut v: Vec<Session> = (0..100).map(|i| Session::new(i * 37 % 100)).collect(); v.sort_by_key(|s| s.id); truth("sorted", "Vec<Session>", v.capacity() * 96); keep(v) }
#[inline(never)] fn into_rc() { let s: Rc<[u8]> = vec![1u8; 2000].into(); truth("into_rc", "Rc<[u8]>", 2016); keep(s) }
#[inline(never)] fn map_in_place() { let v: Vec<u64> = (0..std::hint::black_box(600)).collect(); let w: Vec<i64> = v.into_iter().map(|x| x as i64 + 1).collect(); truth("map_in_place", "Vec<u64>", 4800); keep(w) }
#[inline(never)] fn thread() { let (tx, rx) = mpsc::channel::<()>(); let h = std::thread::spawn(move || { let v: Vec<Vec<Point>> = (0..20).map(|_| vec![Point { x: 0.0, y: 1.0 }; 10]).collect(); keep(v); drop(tx); loop { std::thread::park() } }); let _ = rx.recv(); truth("thread::{closure", "Vec<Vec<Point>>", 480); truth("thread::{closure", "Vec<Point>", 3200); keep(h) }

#[inline(never)] fn nested_clone() { let v: Vec<Vec<u32>> = vec![vec![7u32; 30]; 20]; let w = v.clone(); let t = w[..].to_vec(); let outer = (v.capacity() + w.capacity() + t.capacity()) * 24; let inner: usize = v.iter().chain(&w).chain(&t).map(|x| x.capacity() * 4).sum(); truth("nested_clone", "Vec<Vec<u32>>", outer); truth("nested_clone", "Vec<u32>", inner); keep((v, w, t)) }
#[inline(never)] fn concat() { let v = [vec![1u32; 100], vec![2; 50]]; let w = v.concat(); truth("concat", "Vec<u32>", w.capacity() * 4 + 600); keep((v, w)) }
#[inline(never)] fn joined() { let v = [vec![1u16; 100], vec![2; 50]]; let w = v.join(&9); truth("joined", "Vec<u16>", w.capacity() * 2 + 300); keep((v, w)) }
#[inline(never)] fn splice() { let mut v: Vec<Key> = vec![Key(1, 1); 10]; v.splice(2..4, (0..std::hint::black_box(500u64)).filter(|x| x % 2 == 0).map(|x| Key(x, 3))); truth("splice", "Vec<Key>", usize::MAX); keep(v) }
#[inline(never)] fn box_from() { let v: Box<[Option<u32>]> = Box::from(std::hint::black_box(&[Some(3u32); 70][..])); truth("box_from", "Box<[Option<u32>]>", 560); truth("box_from", "Vec<Option<u32>>", 560); keep(v) }
#[inline(never)] fn rc_str() { let s: Rc<str> = Rc::from(std::hint::black_box("a text in a counted block")); truth("rc_str", "Rc<str>", usize::MAX); keep(s) }
fn main() {
    nested_clone(); concat(); joined(); splice(); box_from(); rc_str();
    vec_with_capacity(); vec_push(); vec_push_u8(); vec_macro(); vec_zeroed(); vec_literal(); vec_extend(); vec_extend_slice(); vec_reserve(); vec_resize(); vec_shrink();
    vec_of_vec(); vec_collect(); vec_collect_filter(); vec_clone(); to_vec(); vec_option_box(); boxes(); box_dyn(); box_slice(); box_closure(); tree(); rcs(); arcs(); arc_str(); arc_slice();
    string_from(); to_string(); to_owned(); string_push(); formats(); write_fmt(); join(); string_collect(); string_clone(); hash_map(); hash_map_string(); hash_map_capacity(); hash_map_collect();
    hash_set(); hash_map_clone(); btree_map(); btree_collect(); btree_set(); vec_deque(); binary_heap(); linked_list(); channel(); sync_channel(); store(); store_closure(); own_vec(); raw_alloc();
    sorted(); into_rc(); map_in_place(); thread();
    std::process::exit(0)
}
