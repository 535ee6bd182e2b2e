//! The keys that a host signs its answers with, made anew at each start: the subnet's, for certificates, and the node's, for answers to queries.

use super::cbor::Cbor;
use super::hash_tree::{StateTree, leaf_number};
use super::principal::self_authenticating;
use super::request::{hash_of_map, signed_message};
use blst::min_sig::SecretKey;
use ed25519_dalek::{Signer, SigningKey};
use std::fs::File;
use std::io::{self, Read};

/// The name of the signature scheme: BLS12-381 with signatures in G1.
const SCHEME: &[u8] = b"BLS_SIG_BLS12381G1_XMD:SHA-256_SSWU_RO_NUL_";
/// What comes before a BLS key (in G2) in DER.
const BLS_PREFIX: [u8; 37] = [
    0x30, 0x81, 0x82, 0x30, 0x1d, 0x06, 0x0d, 0x2b, 0x06, 0x01, 0x04, 0x01, 0x82, 0xdc, 0x7c, 0x05, 0x03, 0x01, 0x02,
    0x01, 0x06, 0x0c, 0x2b, 0x06, 0x01, 0x04, 0x01, 0x82, 0xdc, 0x7c, 0x05, 0x03, 0x02, 0x01, 0x03, 0x61, 0x00,
];
/// What comes before an Ed25519 key in DER.
pub const ED25519_PREFIX: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// The keys of a host.
pub struct HostKeys {
    subnet: SecretKey,
    /// The key that clients verify certificates with, in DER.
    pub root_key: Vec<u8>,
    /// The principal of the subnet, which clients derive from that key.
    pub subnet_id: Vec<u8>,
    node: SigningKey,
    /// The key that clients verify answers to queries with, in DER.
    pub node_key: Vec<u8>,
    /// The principal of the node.
    pub node_id: Vec<u8>,
}

impl HostKeys {
    /// New keys, from the system's randomness.
    pub fn new() -> io::Result<Self> {
        let mut random = [0; 64];
        File::open("/dev/urandom")?.read_exact(&mut random)?;
        let (first, second) = random.split_at(32);
        let subnet = SecretKey::key_gen(first, &[]).map_err(|_| io::Error::other("no key can be made"))?;
        let root_key = [&BLS_PREFIX[..], &subnet.sk_to_pk().compress()].concat();
        let node = SigningKey::from_bytes(second.try_into().map_err(io::Error::other)?);
        let node_key = [&ED25519_PREFIX[..], node.verifying_key().as_bytes()].concat();
        let (subnet_id, node_id) = (self_authenticating(&root_key), self_authenticating(&node_key));
        Ok(Self { subnet, root_key, subnet_id, node, node_key, node_id })
    }

    /// The certificate of a tree. The time is part of every certificate.
    pub fn certificate(&self, mut tree: StateTree, time_ns: u64) -> Vec<u8> {
        tree.put(&[b"time"], leaf_number(time_ns));
        let (tree, hash) = tree.certified();
        let signature = self.subnet.sign(&signed_message("ic-state-root", &hash), SCHEME, &[]);
        Cbor::map([("tree", tree), ("signature", Cbor::Bytes(signature.compress().to_vec()))]).write()
    }

    /// The node's signature of an answer to a query: of everything in it, its time and the request's id.
    pub fn sign_response(&self, response: &Cbor, request_id: &[u8], time_ns: u64) -> Cbor {
        let mut signed = match response {
            Cbor::Map(entries) => entries.clone(),
            _ => Vec::new(),
        };
        signed.push(("timestamp".into(), Cbor::Unsigned(time_ns)));
        signed.push(("request_id".into(), Cbor::Bytes(request_id.to_vec())));
        let signature = self.node.sign(&signed_message("ic-response", &hash_of_map(&signed)));
        Cbor::map([
            ("timestamp", Cbor::Unsigned(time_ns)),
            ("signature", Cbor::Bytes(signature.to_bytes().to_vec())),
            ("identity", Cbor::Bytes(self.node_id.clone())),
        ])
    }
}
