//! Verifies certificates: the hash of the tree, and the signature of it.

use super::codec::Item;
use blst::BLST_ERROR;
use blst::min_sig::{PublicKey, Signature};
use sha2::{Digest, Sha256};

/// The tree of a certificate whose signature is right.
#[derive(Debug)]
pub struct Certified(Item);

impl Certified {
    /// Verifies a certificate with the key of the network, in DER.
    #[track_caller]
    pub fn verify(certificate: &[u8], root_key: &[u8]) -> Self {
        let certificate = Item::read(certificate);
        let tree = certificate.get("tree").clone();
        assert_eq!(root_key.len(), 133);
        let key = PublicKey::key_validate(&root_key[37..]).expect("a key");
        let signature = Signature::sig_validate(certificate.get("signature").bytes(), true).expect("a signature");
        let message = [b"\x0dic-state-root", &digest(&tree)[..]].concat();
        let scheme = b"BLS_SIG_BLS12381G1_XMD:SHA-256_SSWU_RO_NUL_";
        assert_eq!(signature.verify(true, &message, scheme, &[], &key, true), BLST_ERROR::BLST_SUCCESS);
        // Every certificate says when it was made.
        let certified = Self(tree);
        let time = number(certified.lookup(&[b"time"]).expect("a time"));
        assert!(super::now_ns().abs_diff(time) < 60_000_000_000, "{time}");
        certified
    }

    /// The leaf at a path; `None` if there is none.
    pub fn lookup(&self, path: &[&[u8]]) -> Option<&[u8]> {
        let mut node = &self.0;
        for label in path {
            node = child(node, label)?;
        }
        let Item::Array(parts) = node else { panic!("{node:?}") };
        (parts[0] == Item::Number(3)).then(|| parts[1].bytes())
    }
}

fn child<'a>(node: &'a Item, label: &[u8]) -> Option<&'a Item> {
    let Item::Array(parts) = node else { panic!("{node:?}") };
    match parts[0].number() {
        1 => child(&parts[1], label).or_else(|| child(&parts[2], label)),
        2 => (parts[1].bytes() == label).then(|| &parts[2]),
        _ => None,
    }
}

fn digest(node: &Item) -> [u8; 32] {
    let Item::Array(parts) = node else { panic!("{node:?}") };
    let hash = |domain: &str, content: &[&[u8]]| {
        let mut hasher = Sha256::new();
        hasher.update([domain.len() as u8]);
        hasher.update(domain);
        content.iter().for_each(|part| hasher.update(part));
        hasher.finalize().into()
    };
    match parts[0].number() {
        0 => hash("ic-hashtree-empty", &[]),
        1 => hash("ic-hashtree-fork", &[&digest(&parts[1]), &digest(&parts[2])]),
        2 => hash("ic-hashtree-labeled", &[parts[1].bytes(), &digest(&parts[2])]),
        3 => hash("ic-hashtree-leaf", &[parts[1].bytes()]),
        kind => panic!("a node of kind {kind}"),
    }
}

/// LEB128.
pub fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 7 | u64::from(byte & 0x7f))
}
