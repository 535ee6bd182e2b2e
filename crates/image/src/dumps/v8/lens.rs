//! The nodes of a snapshot as objects: an object's address is its number.

use super::graph::{V8Heap, retained};
use super::meta::{EdgeKind, KIND_NAMES, kind};
use super::retain::ROOT;
use super::show::show;
use super::{LONGEST_CLASS, LONGEST_NAME};
use crate::bitmap::Bitmap;
use crate::damage::Damages;
use crate::heap::HeapError;
use crate::lens::{HeapArea, Lens, Located, Root};
use std::ops::Range;

/// A shape's key has a kind here, unless the shape is named by the objects themselves.
const KIND_SHIFT: u32 = 40;
/// Set in the key of a shape of detached elements.
const DETACHED: u64 = 1 << 32;

impl V8Heap {
    /// The group that an object is counted in, as in Chrome's developer tools: its constructor, or its kind in brackets.
    pub(super) fn class_name(&self, node: u32) -> String {
        match self.kind_of(node) {
            kind::OBJECT | kind::NATIVE => {
                let name = self.strings.preview(self.name_of(node), LONGEST_CLASS);
                // Elements have their attributes in their names: `<div id="a">`.
                let name = match name.split_once(' ') {
                    Some((tag, _)) if tag.starts_with('<') => format!("{tag}>"),
                    _ => name,
                };
                if self.is_detached(node) { format!("Detached {name}") } else { name }
            }
            kind::HIDDEN => "(system)".to_owned(),
            kind::CODE => "(compiled code)".to_owned(),
            kind::CLOSURE => "Function".to_owned(),
            kind::REGEXP => "RegExp".to_owned(),
            other => format!("({})", KIND_NAMES[usize::from(other)]),
        }
    }

    /// The step along an edge, as Chrome's developer tools write it.
    pub(super) fn edge_step(&self, edge: usize) -> String {
        let (kind, name) = (self.edge_kind(edge), self.edge_name(edge));
        let text = if kind.is_numbered() { name.to_string() } else { self.strings.preview(name, LONGEST_NAME) };
        match kind {
            EdgeKind::Context => format!("->{text}"),
            EdgeKind::Element => format!("[{text}]"),
            EdgeKind::Property | EdgeKind::Shortcut if text.contains([' ', '.', '[', '"']) || text.is_empty() => {
                format!("[{text:?}]")
            }
            EdgeKind::Property | EdgeKind::Shortcut => format!(".{text}"),
            EdgeKind::Internal | EdgeKind::Hidden => format!("{{{text}}}"),
            EdgeKind::Weak => format!("[[{text}]]"),
            EdgeKind::Other => format!("?{text}?"),
        }
    }

    /// The object at the end of a path from a root, as it is written here: `global.accounts{table}[3]`.
    fn follow(&self, path: &str) -> Option<u32> {
        let begins = |root: &&Root| path.starts_with(&root.name.to_string());
        let root = self.roots.iter().filter(begins).max_by_key(|root| root.name.to_string().len())?;
        let mut rest = &path[root.name.to_string().len()..];
        let mut node = root.object as u32;
        while !rest.is_empty() {
            // The longest step that fits: names may begin with other names.
            let steps = self.edges_of(node).map(|edge| (self.edge_step(edge), edge));
            let (step, edge) =
                steps.filter(|(step, _)| rest.starts_with(step.as_str())).max_by_key(|(step, _)| step.len())?;
            rest = &rest[step.len()..];
            node = self.target(edge);
        }
        Some(node)
    }
}

impl Lens for V8Heap {
    const UNIT: u64 = 1;
    const SIZE_UNIT: u64 = 1;
    const KINDS: &'static [&'static str] = &KIND_NAMES;
    /// A node that only weak references lead to is still there.
    const IS_COLLECTED: bool = false;
    const IS_ADDRESSED: bool = false;
    const VARIABLES_FIRST: bool = true;

    fn span(&self) -> Range<u64> {
        0..u64::from(self.len())
    }

    fn walk(&self, mut visit: impl FnMut(HeapArea), _: &mut Damages) {
        for node in 0..self.len() {
            let (bytes, kind) = (self.size_of(node), self.kind_of(node));
            // All roots together are no object.
            visit(HeapArea { at: node.into(), bytes, kind, is_object: node != ROOT });
        }
    }

    #[inline]
    fn is_object(&self, address: u64, _: &Bitmap) -> bool {
        address != u64::from(ROOT) && address < u64::from(self.len())
    }

    fn roots(&self) -> &[Root] {
        &self.roots
    }

    #[inline]
    fn next_reference(&self, object: u64, slot: u32, _: &Bitmap) -> Option<(u64, u32)> {
        let targets = self.targets_of(object as u32).get(slot as usize..)?;
        let at = targets.iter().position(|target| retained(*target).is_some())?;
        Some((targets[at].into(), slot + at as u32 + 1))
    }

    #[inline]
    fn scan(&self, object: u64, slot: u32, _: &Bitmap, mut enough: impl FnMut(u64, u32) -> bool) {
        let targets = self.targets_of(object as u32).get(slot as usize..).unwrap_or_default();
        for (target, next) in targets.iter().zip(slot + 1..) {
            if let Some(target) = retained(*target)
                && enough(target.into(), next)
            {
                return;
            }
        }
    }

    fn reached(&self) -> Option<&Bitmap> {
        Some(&self.reached)
    }

    #[inline]
    fn kind(&self, object: u64) -> u8 {
        self.kind_of(object as u32)
    }

    #[inline]
    fn bytes(&self, object: u64) -> u64 {
        self.size_of(object as u32)
    }

    fn is_in_heap(&self, _: u64) -> bool {
        true
    }

    #[inline]
    fn shape_key(&self, object: u64) -> u64 {
        let node = object as u32;
        match self.kind_of(node) {
            kind::OBJECT | kind::NATIVE => {
                u64::from(self.name_of(node)) | if self.is_detached(node) { DETACHED } else { 0 }
            }
            other => (u64::from(other) + 1) << KIND_SHIFT,
        }
    }

    fn shape_name(&self, object: u64) -> String {
        self.class_name(object as u32)
    }

    fn object_name(&self, object: u64) -> String {
        format!("@{}", self.id_of(object as u32))
    }

    fn identity(&self, object: u64) -> u64 {
        self.id_of(object as u32).into()
    }

    fn step(&self, object: u64, slot: u32) -> String {
        self.edge_step(self.edges_of(object as u32).start + slot as usize)
    }

    fn locate(&self, text: &str, depth: u32, _: &Bitmap) -> Result<Located, HeapError> {
        let node = match text.strip_prefix('@') {
            Some(id) => {
                let id = id.parse().map_err(|_| format!("'{text}' is no node: write @ and its id"))?;
                self.with_id(id).ok_or_else(|| format!("there is no node {text}"))?
            }
            None => self.follow(text).ok_or_else(|| {
                format!(
                    "'{text}' leads to no object; write @ and an id, or a way from a root as 'image heap' prints it"
                )
            })?,
        };
        if node == ROOT {
            return Err(format!("{text} stands for all roots together, and is no object").into());
        }
        Ok(Located { object: node.into(), value: Some(show(self, node, depth)) })
    }
}
