//! Motoko heaps of any size, as the runtime would leave them.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

const METADATA: u64 = 0x48_0000;
const BASE: u64 = 0x50_0000;
const PARTITION: u64 = 64 << 20;
const STATIC_VARIABLES: u64 = 0x40_4280;

/// Where objects go: partition by partition, none over a boundary.
struct Heap {
    next: u64,
    /// How far each partition was filled.
    ends: Vec<u64>,
}

impl Heap {
    fn place(&mut self, words: u64) -> u64 {
        let bytes = words * 8;
        let limit = (self.ends.len() as u64 + 1) * PARTITION;
        if self.next + bytes > limit {
            self.ends.push(self.next);
            self.next = limit;
        }
        self.next += bytes;
        self.next - bytes
    }
}

/// Writes objects in the order of their addresses.
struct Objects {
    out: BufWriter<File>,
    at: u64,
}

impl Objects {
    fn put(&mut self, at: u64, tag: u64, body: &[u64]) {
        while self.at < at {
            // The rest of a partition that was too short.
            let gap = (at - self.at).min(4096) as usize;
            self.out.write_all(&vec![0; gap]).expect("written");
            self.at += gap as u64;
        }
        let mut bytes = Vec::with_capacity(16 + body.len() * 8);
        for word in [tag, at - 1].iter().chain(body) {
            bytes.extend(word.to_le_bytes());
        }
        self.out.write_all(&bytes).expect("written");
        self.at += bytes.len() as u64;
    }
}

const RECORD: u64 = 1;
const MUTABLE_ARRAY: u64 = 5;
const BOX: u64 = 17;
const VARIANT: u64 = 23;
const BLOB: u64 = 25;
const TEXT: u64 = 27;
const NODE: u64 = 0x490a_0a02;
const LEAF: u64 = 0x2dba_2aae;

fn number(value: u64) -> u64 {
    value << 2 | 2
}

fn reference(object: u64) -> u64 {
    object - 1
}

/// What the roots are: an array with a variable and three constants.
struct Roots {
    array: u64,
    variable: u64,
    accounts: u64,
    nodes: u64,
    leaf: u64,
}

/// Places of an entry's objects.
#[derive(Clone, Copy)]
struct Entry {
    text: u64,
    balance: u64,
    account: u64,
    node: u64,
    variant: u64,
}

/// Writes a heap: `tree`, a search tree whose keys came in no order, or `list`.
pub fn make(shape: &str, objects: u64, path: &Path) {
    let is_tree = shape == "tree";
    let entries = objects / if is_tree { 5 } else { 4 };
    let mut heap = Heap { next: BASE, ends: Vec::new() };
    let roots = Roots {
        array: heap.place(7),
        variable: heap.place(3),
        accounts: heap.place(7),
        nodes: heap.place(7),
        leaf: heap.place(4),
    };
    let places: Vec<Entry> = (0..entries)
        .map(|_| Entry {
            text: heap.place(5),
            balance: heap.place(3),
            account: heap.place(7),
            node: heap.place(7),
            variant: if is_tree { heap.place(4) } else { 0 },
        })
        .collect();
    heap.ends.push(heap.next);
    let (children, first) = if is_tree { tree(entries) } else { (Vec::new(), entries - 1) };
    let file = File::create(path).expect("a file to write");
    file.set_len(heap.next.next_multiple_of(PARTITION)).expect("a long file");
    let mut out = BufWriter::with_capacity(1 << 20, file.try_clone().expect("the same file"));
    std::io::Seek::seek(&mut out, std::io::SeekFrom::Start(BASE)).expect("sought");
    let mut objects = Objects { out, at: BASE };
    let constants = [roots.variable, roots.accounts, roots.nodes, roots.leaf].map(reference);
    objects.put(roots.array, MUTABLE_ARRAY, &[4, constants[0], constants[1], constants[2], constants[3]]);
    let root = &places[first as usize];
    objects.put(roots.variable, BOX, &[reference(if is_tree { root.variant } else { root.node })]);
    objects.put(roots.accounts, BLOB, &[32, 23515, 0x238d_9d1c, 0x3876_9833, 0x4cfc_c522]);
    objects.put(roots.nodes, BLOB, &[32, 0x51_899f, 0x2159_fcad, 0x47b0_0807, 0x69_640bdc]);
    objects.put(roots.leaf, VARIANT, &[LEAF, 0]);
    for (index, entry) in places.iter().enumerate() {
        let index = index as u64;
        let mut name = [b'.'; 16];
        name[..13].copy_from_slice(format!("owner-{index:07}").get(..13).expect("ASCII").as_bytes());
        let words: Vec<u64> =
            name.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("eight"))).collect();
        objects.put(entry.text, TEXT, &[16, words[0], words[1]]);
        objects.put(entry.balance, BOX, &[number(index * 10)]);
        let account =
            [reference(roots.accounts), number(index), number(7), reference(entry.balance), reference(entry.text)];
        objects.put(entry.account, RECORD, &account);
        if is_tree {
            let below = children[index as usize];
            let child = |child: u32| if child == u32::MAX { roots.leaf } else { places[child as usize].variant };
            let (left, right) = (reference(child(below.0)), reference(child(below.1)));
            objects.put(
                entry.node,
                RECORD,
                &[reference(roots.nodes), number(scrambled(index)), reference(entry.account), left, right],
            );
            objects.put(entry.variant, VARIANT, &[NODE, reference(entry.node)]);
        } else {
            let next = index.checked_sub(1).map_or(0xffff_ffff_ffff_fffb, |next| reference(places[next as usize].node));
            objects.put(
                entry.node,
                RECORD,
                &[reference(roots.nodes), number(index), reference(entry.account), next, 0],
            );
        }
    }
    objects.out.flush().expect("written");
    metadata(&file, &heap.ends);
    file.write_all_at(&reference(roots.array).to_le_bytes(), STATIC_VARIABLES).expect("written");
}

/// A memory of 4 GiB with a small heap in it.
pub fn empty(path: &Path) {
    make("list", 4000, path);
    File::options().write(true).open(path).and_then(|file| file.set_len(4 << 30)).expect("a long file");
}

fn metadata(file: &File, ends: &[u64]) {
    let put = |at: u64, word: u64| file.write_all_at(&word.to_le_bytes(), METADATA + at).expect("written");
    for (at, character) in "MOTOKO ORTHOGONAL PERSISTENCE 64".chars().enumerate() {
        file.write_all_at(&u32::from(character).to_le_bytes(), METADATA + at as u64 * 4).expect("written");
    }
    put(0x80, 1);
    put(0xa0, 1);
    let mut before = BASE;
    for (index, end) in ends.iter().enumerate() {
        let index = index as u64;
        let fixed = if index == 0 { BASE } else { 0 };
        let dynamic = end - index * PARTITION - fixed;
        let entry = 0xa8 + index * 56;
        put(entry, index);
        put(entry + 24, fixed);
        put(entry + 32, dynamic);
        if index + 1 < ends.len() as u64 {
            before += dynamic;
        }
    }
    put(0x1cb0, ends.len() as u64);
    put(0x1cb8, BASE);
    put(0x1cc0, ends.len() as u64 - 1);
    put(0x1cf0, before);
    for at in [0x88, 0x90, 0x98, 0x1d88, 0x1d90, 0x1d98] {
        put(at, 0xffff_ffff_ffff_fffb);
    }
}

fn scrambled(index: u64) -> u64 {
    (index * 2_654_435_761 + 12_345) % (1 << 32)
}

/// The search tree that keys make when they come one after another: each entry's children, and the root.
fn tree(entries: u64) -> (Vec<(u32, u32)>, u64) {
    let mut order: Vec<u32> = (0..entries as u32).collect();
    order.sort_by_key(|index| scrambled(u64::from(*index)));
    let mut children = vec![(u32::MAX, u32::MAX); entries as usize];
    // What came first is above what came later.
    let mut right_edge: Vec<u32> = Vec::new();
    for index in order {
        let mut below = u32::MAX;
        while let Some(&last) = right_edge.last().filter(|last| **last > index) {
            below = last;
            right_edge.pop();
        }
        children[index as usize].0 = below;
        if let Some(&above) = right_edge.last() {
            children[above as usize].1 = index;
        }
        right_edge.push(index);
    }
    (children, 0)
}
