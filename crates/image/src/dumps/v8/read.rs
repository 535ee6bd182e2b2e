//! Reads a snapshot from front to back.

use super::graph::{MOST_EDGES, MOST_NODES, V8Heap};
use super::meta::{EdgeKind, Meta, kind};
use super::retain::{DomState, finish_edges};
use super::scanner::Scanner;
use crate::dumps::{DumpError, DumpSource};
use std::io::Read;

/// A snapshot of which a part is read.
struct Reader<R> {
    scanner: Scanner<R>,
    meta: Option<Meta>,
    heap: V8Heap,
    /// The nodes of which the file says whether they are part of a document.
    states: Vec<(u32, DomState)>,
    has_strings: bool,
    /// The most nodes or edges for which room is made before they are read: a short file may say that it has many.
    plausible: u64,
}

/// Reads the snapshot in a file.
pub fn read(source: &DumpSource) -> Result<V8Heap, DumpError> {
    let reader = Reader {
        scanner: Scanner::new(source.read()?),
        meta: None,
        heap: V8Heap::with_room(0, 0),
        states: Vec::new(),
        has_strings: false,
        plausible: source.stored_bytes(),
    };
    reader.read()
}

impl<R: Read> Reader<R> {
    fn read(mut self) -> Result<V8Heap, DumpError> {
        self.scanner.expect(b'{')?;
        let mut key = Vec::new();
        loop {
            key.clear();
            self.scanner.string(&mut key)?;
            self.scanner.expect(b':')?;
            self.member(&key)?;
            if !self.scanner.accept(b',')? {
                self.scanner.expect(b'}')?;
                break;
            }
        }
        if !self.has_strings || self.heap.len() == 0 {
            return Err(self.scanner.damaged("the file ends without its nodes or strings"));
        }
        self.heap.finish(self.scanner.offset())?;
        finish_edges(&mut self.heap, &self.states);
        Ok(self.heap)
    }

    fn member(&mut self, key: &[u8]) -> Result<(), DumpError> {
        match key {
            b"snapshot" => {
                let value = self.scanner.value()?;
                let meta = Meta::read(&value, self.scanner.offset())?;
                let room = |count: u64| count.min(self.plausible) as usize;
                self.heap = V8Heap::with_room(room(meta.nodes), room(meta.edges));
                self.meta = Some(meta);
                Ok(())
            }
            b"nodes" => self.nodes(),
            b"edges" => self.edges(),
            b"locations" => self.locations(),
            b"strings" => self.strings(),
            _ => self.scanner.skip(),
        }
    }

    fn take_meta(&mut self) -> Result<Meta, DumpError> {
        self.meta.take().ok_or_else(|| self.scanner.damaged("the description of the fields does not come first"))
    }

    fn nodes(&mut self) -> Result<(), DumpError> {
        let meta = self.take_meta()?;
        if self.heap.len() > 0 {
            return Err(self.scanner.damaged("the nodes come twice"));
        }
        let (fields, heap, states) = (&meta.node, &mut self.heap, &mut self.states);
        let mut edges = 0u64;
        let rows = self.scanner.rows(fields.width, |row, offset| {
            if u64::from(heap.len()) == MOST_NODES {
                return Err(DumpError::TooLarge { what: "nodes", count: meta.nodes, limit: MOST_NODES });
            }
            let kind = meta.kinds.get(row[fields.kind] as usize).copied().unwrap_or(kind::OTHER);
            let state = fields.detachedness.map_or(DomState::Unknown, |at| DomState::of(row[at]));
            if state != DomState::Unknown {
                states.push((heap.len(), state));
            }
            let name = narrow(row[fields.name], offset, "the name of a node")?;
            let id = narrow(row[fields.id], offset, "the id of a node")?;
            heap.add_node(kind, name, id, row[fields.size], edges as u32);
            edges = edges.saturating_add(row[fields.edges]);
            if edges > MOST_EDGES {
                return Err(DumpError::TooLarge { what: "edges", count: edges, limit: MOST_EDGES });
            }
            Ok(())
        })?;
        self.must_be(rows, meta.nodes, "nodes")?;
        self.must_be(edges, meta.edges, "edges of its nodes")?;
        self.heap.end_nodes(edges as u32);
        self.meta = Some(meta);
        Ok(())
    }

    fn edges(&mut self) -> Result<(), DumpError> {
        let meta = self.take_meta()?;
        let nodes = self.heap.len();
        if nodes == 0 || self.heap.edge_count() > 0 {
            return Err(self.scanner.damaged("the edges come twice, or before the nodes"));
        }
        let (fields, heap) = (&meta.edge, &mut self.heap);
        let width = meta.node.width as u32;
        let rows = self.scanner.rows(fields.width, |row, offset| {
            let kind = meta.edge_kinds.get(row[fields.kind] as usize).copied().unwrap_or(EdgeKind::Other);
            let name = narrow(row[fields.name], offset, "the name of an edge")?;
            let index = narrow(row[fields.to], offset, "the target of an edge")?;
            let to = index / width;
            if to * width != index || to >= nodes {
                return Err(DumpError::damaged(offset, format!("an edge leads to {index}, where no node is")));
            }
            if heap.edge_count() as u64 == meta.edges {
                return Err(DumpError::damaged(offset, format!("there are more than {} edges", meta.edges)));
            }
            heap.add_edge(kind, name, to);
            Ok(())
        })?;
        self.must_be(rows, meta.edges, "edges")?;
        self.meta = Some(meta);
        Ok(())
    }

    /// Keeps the locations of functions. Those of other objects are those of their constructors.
    fn locations(&mut self) -> Result<(), DumpError> {
        let meta = self.take_meta()?;
        let Some(fields) = &meta.location else {
            self.meta = Some(meta);
            return self.scanner.skip();
        };
        let (heap, width) = (&mut self.heap, meta.node.width as u64);
        self.scanner.rows(fields.width, |row, offset| {
            let node = narrow(row[fields.object] / width, offset, "the object of a location")?;
            if heap.kind_of(node) == kind::CLOSURE {
                let number = |at: usize| u32::try_from(row[at]).unwrap_or(u32::MAX);
                heap.locations.push((node, number(fields.line), number(fields.column)));
            }
            Ok(())
        })?;
        self.meta = Some(meta);
        Ok(())
    }

    fn strings(&mut self) -> Result<(), DumpError> {
        if std::mem::replace(&mut self.has_strings, true) {
            return Err(self.scanner.damaged("the strings come twice"));
        }
        self.scanner.expect(b'[')?;
        if self.scanner.accept(b']')? {
            return Ok(());
        }
        loop {
            self.scanner.string(self.heap.strings.bytes())?;
            self.heap.strings.finish();
            if self.heap.strings.len() as u64 > MOST_EDGES {
                let count = self.heap.strings.len() as u64;
                return Err(DumpError::TooLarge { what: "strings", count, limit: MOST_EDGES });
            }
            if !self.scanner.accept(b',')? {
                return self.scanner.expect(b']');
            }
        }
    }

    /// Fails if a sum is not the one that the file states.
    fn must_be(&self, found: u64, stated: u64, what: &str) -> Result<(), DumpError> {
        if found == stated {
            return Ok(());
        }
        Err(self.scanner.damaged(format!("there are {found} {what}, and the file says {stated}")))
    }
}

/// A number that must have 32 bits.
#[inline]
fn narrow(number: u64, offset: u64, what: &str) -> Result<u32, DumpError> {
    match u32::try_from(number) {
        Ok(narrow) => Ok(narrow),
        Err(_) => Err(DumpError::damaged(offset, format!("{what} is {number}, which has more than 32 bits"))),
    }
}
