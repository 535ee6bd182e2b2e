//! The tree that a certificate signs: labels, leaves and the hash of the whole.
//!
//! The host makes a tree for each answer, with just what was asked for. So nothing in it is pruned, and a path that is not in it is provably absent.

use super::cbor::Cbor;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// A part of the tree: a leaf, or parts by their labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StateTree {
    /// A value.
    Leaf(Vec<u8>),
    /// Labelled parts.
    Labels(BTreeMap<Vec<u8>, StateTree>),
}

impl Default for StateTree {
    fn default() -> Self {
        Self::Labels(BTreeMap::new())
    }
}

/// The hash of a tree.
pub type TreeHash = [u8; 32];

impl StateTree {
    /// Puts a leaf at a path.
    pub fn put(&mut self, path: &[&[u8]], value: impl Into<Vec<u8>>) {
        let mut part = self;
        for label in path {
            part = part.labels().entry(label.to_vec()).or_default();
        }
        *part = Self::Leaf(value.into());
    }

    fn labels(&mut self) -> &mut BTreeMap<Vec<u8>, Self> {
        if let Self::Leaf(_) = self {
            *self = Self::default();
        }
        match self {
            Self::Labels(labels) => labels,
            Self::Leaf(_) => unreachable!("it was just made a list of labels"),
        }
    }

    /// The tree in CBOR, and its hash.
    pub fn certified(&self) -> (Cbor, TreeHash) {
        match self {
            Self::Leaf(value) => (
                node(3, [Cbor::Bytes(value.clone())]),
                separated("ic-hashtree-leaf").chain_update(value).finalize().into(),
            ),
            Self::Labels(labels) => {
                let labelled: Vec<_> = labels.iter().map(|(label, part)| labelled(label, part.certified())).collect();
                forked(&labelled)
            }
        }
    }
}

/// A node: its kind, and its parts.
fn node<const N: usize>(kind: u64, parts: [Cbor; N]) -> Cbor {
    Cbor::Array([Cbor::Unsigned(kind)].into_iter().chain(parts).collect())
}

fn labelled(label: &[u8], (tree, hash): (Cbor, TreeHash)) -> (Cbor, TreeHash) {
    let hash = separated("ic-hashtree-labeled").chain_update(label).chain_update(hash).finalize().into();
    (node(2, [Cbor::Bytes(label.to_vec()), tree]), hash)
}

/// A balanced tree of forks over parts in the order of their labels.
fn forked(parts: &[(Cbor, TreeHash)]) -> (Cbor, TreeHash) {
    match parts {
        [] => (node(0, []), separated("ic-hashtree-empty").finalize().into()),
        [(tree, hash)] => (tree.clone(), *hash),
        _ => {
            let (left, right) = parts.split_at(parts.len() / 2);
            let ((left, left_hash), (right, right_hash)) = (forked(left), forked(right));
            let hash = separated("ic-hashtree-fork").chain_update(left_hash).chain_update(right_hash).finalize().into();
            (node(1, [left, right]), hash)
        }
    }
}

/// A hash that begins with the name of what is hashed, so that hashes of different things never agree.
pub fn separated(domain: &str) -> Sha256 {
    Sha256::new().chain_update([domain.len() as u8]).chain_update(domain)
}

/// A number as leaves have it: LEB128.
pub fn leaf_number(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use highwater_image::hexadecimal;

    /// The example of the interface specification, section "Certification".
    #[test]
    fn the_example_of_the_specification_has_its_hash() {
        let leaf = |label: &[u8], value: &[u8]| labelled(label, StateTree::Leaf(value.to_vec()).certified());
        let a = labelled(b"a", forked(&[forked(&[leaf(b"x", b"hello"), forked(&[])]), leaf(b"y", b"world")]));
        let c = labelled(b"c", StateTree::default().certified());
        let (_, hash) = forked(&[a, leaf(b"b", b"good"), c, leaf(b"d", b"morning")]);
        assert_eq!(hexadecimal(&hash), "eb5c5b2195e62d996b84c9bcc8259d19a83786a2f59e0878cec84c811f669aa0");
    }

    #[test]
    fn parts_are_put_at_their_paths() {
        let mut tree = StateTree::default();
        tree.put(&[b"b"], *b"2");
        tree.put(&[b"a", b"x"], *b"1");
        let leaf = |text: &[u8]| node(3, [Cbor::Bytes(text.to_vec())]);
        let label = |text: &[u8], part| node(2, [Cbor::Bytes(text.to_vec()), part]);
        let expected = node(1, [label(b"a", label(b"x", leaf(b"1"))), label(b"b", leaf(b"2"))]);
        assert_eq!(tree.certified().0, expected);
    }

    #[test]
    fn numbers_of_leaves() {
        assert_eq!((leaf_number(0), leaf_number(300)), (vec![0], vec![0xac, 2]));
    }
}
