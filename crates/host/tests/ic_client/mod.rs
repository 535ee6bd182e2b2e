//! A client of the network's interface that shares no code with the host: its own CBOR, hashes, hash trees and verification of signatures.
#![allow(dead_code, missing_docs, reason = "plumbing of tests")]

pub mod codec;
pub mod tree;

use codec::Item;
use ed25519_dalek::{Signer, SigningKey, Verifier, VerifyingKey};
use highwater_host::candid::{Interface, decode, encode_arguments, principal_text};
use highwater_host::hosted::HostState;
use highwater_host::ic::server::IcServer;
use highwater_host::program::{HostedProgram, ProgramOptions};
use highwater_host::server::HostLog;
use sha2::{Digest, Sha224, Sha256};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{SystemTime, UNIX_EPOCH};
use tree::Certified;

/// The canister that a host begins with.
pub const FIRST: [u8; 10] = [0, 0, 0, 0, 0, 0, 0, 1, 1, 1];

/// A host in this process.
pub struct TestHost {
    pub address: SocketAddr,
    pub state: highwater_host::hosted::SharedState,
    stop: Arc<AtomicBool>,
    serving: Option<JoinHandle<()>>,
}

impl TestHost {
    pub fn start(program: Option<HostedProgram>) -> Self {
        let state = HostState::new(program, ProgramOptions::default()).shared();
        let log: HostLog = Arc::new(|_| {});
        let server = IcServer::bind("127.0.0.1:0".parse().unwrap(), false, Arc::clone(&state), &log).unwrap();
        let (address, stop) = (server.address(), Arc::new(AtomicBool::new(false)));
        let flag = Arc::clone(&stop);
        let serving = std::thread::spawn(move || server.serve(&flag));
        Self { address, state, stop, serving: Some(serving) }
    }
}

impl Drop for TestHost {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.serving.take().map(JoinHandle::join);
    }
}

/// An answer of the server.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).trim_end().to_owned()
    }

    #[track_caller]
    pub fn item(&self) -> Item {
        assert_eq!(self.status, 200, "{}", self.text());
        Item::read(&self.body)
    }
}

/// Sends bytes, and reads one answer.
pub fn exchange(address: SocketAddr, request: &[u8]) -> Answer {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request).unwrap();
    read_answer(&mut stream)
}

pub fn read_answer(stream: &mut TcpStream) -> Answer {
    let mut received = Vec::new();
    let mut byte = [0];
    while !received.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).expect("a head");
        received.push(byte[0]);
    }
    let head = String::from_utf8(received).unwrap();
    let status = head[9..12].parse().unwrap();
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).map_or(0, |n| n.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).expect("a body");
    Answer { status, body }
}

pub fn post(address: SocketAddr, path: &str, body: &[u8]) -> Answer {
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/cbor\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    exchange(address, &[head.as_bytes(), body].concat())
}

pub fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64
}

/// A caller: anonymous, or with a key.
#[derive(Clone)]
pub enum Caller {
    Anonymous,
    Ed25519(SigningKey),
    Secp256k1(k256::ecdsa::SigningKey),
    P256(p256::ecdsa::SigningKey),
}

fn hexadecimal(digits: &str) -> Vec<u8> {
    (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap()).collect()
}

impl Caller {
    pub fn ed25519(seed: u8) -> Self {
        Self::Ed25519(SigningKey::from_bytes(&[seed; 32]))
    }

    pub fn key(&self) -> Option<Vec<u8>> {
        let der = |prefix: &str, key: &[u8]| Some([hexadecimal(prefix), key.to_vec()].concat());
        match self {
            Self::Anonymous => None,
            Self::Ed25519(key) => der("302a300506032b6570032100", key.verifying_key().as_bytes()),
            Self::Secp256k1(key) => der(
                "3056301006072a8648ce3d020106052b8104000a034200",
                key.verifying_key().to_encoded_point(false).as_bytes(),
            ),
            Self::P256(key) => der(
                "3059301306072a8648ce3d020106082a8648ce3d030107034200",
                key.verifying_key().to_encoded_point(false).as_bytes(),
            ),
        }
    }

    pub fn principal(&self) -> Vec<u8> {
        match self.key() {
            None => vec![4],
            Some(key) => [&Sha224::digest(key)[..], &[2]].concat(),
        }
    }

    pub fn sign(&self, message: &[u8]) -> Vec<u8> {
        match self {
            Self::Anonymous => Vec::new(),
            Self::Ed25519(key) => key.sign(message).to_bytes().to_vec(),
            Self::Secp256k1(key) => {
                let signature: k256::ecdsa::Signature = key.sign(message);
                signature.to_bytes().to_vec()
            }
            Self::P256(key) => {
                let signature: p256::ecdsa::Signature = key.sign(message);
                signature.to_bytes().to_vec()
            }
        }
    }

    /// A signed request; its id and its body.
    pub fn envelope(&self, content: &Item) -> ([u8; 32], Vec<u8>) {
        let id = content.hash();
        let mut parts = vec![("content", content.clone())];
        if let Some(key) = self.key() {
            parts.push(("sender_pubkey", Item::Bytes(key)));
            parts.push(("sender_sig", Item::Bytes(self.sign(&[b"\x0aic-request", &id[..]].concat()))));
        }
        (id, Item::map(&parts).written())
    }
}

/// A client of a host.
pub struct Client {
    pub address: SocketAddr,
    pub caller: Caller,
    pub root_key: Vec<u8>,
}

/// The result of a call.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    Replied(Vec<u8>),
    Rejected { reject_code: u64, error_code: String, message: String },
}

impl Outcome {
    #[track_caller]
    pub fn reply(self) -> Vec<u8> {
        match self {
            Self::Replied(bytes) => bytes,
            rejected => panic!("{rejected:?}"),
        }
    }

    #[track_caller]
    pub fn error(self) -> String {
        match self {
            Self::Replied(bytes) => panic!("{:?}", decode(&bytes, &[])),
            Self::Rejected { reject_code, error_code, message } => {
                assert_eq!(
                    error_code.as_bytes()[3] - b'0',
                    u8::try_from(reject_code).unwrap(),
                    "{error_code} {message}"
                );
                assert!(!message.contains('\n'), "{message}");
                error_code
            }
        }
    }
}

impl Client {
    pub fn new(host: &TestHost, caller: Caller) -> Self {
        let status = format!("GET /api/v2/status HTTP/1.1\r\nHost: {}\r\n\r\n", host.address);
        let root_key = exchange(host.address, status.as_bytes()).item().get("root_key").bytes().to_vec();
        Self { address: host.address, caller, root_key }
    }

    /// The content of a request for a canister.
    pub fn content(&self, kind: &str, canister: &[u8], method: &str, argument: &[u8]) -> Item {
        static NONCE: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        let nonce = NONCE.fetch_add(1, Ordering::Relaxed).to_be_bytes().to_vec();
        Item::map(&[
            ("request_type", Item::text(kind)),
            ("nonce", Item::Bytes(nonce)),
            ("ingress_expiry", Item::Number(now_ns() + 240_000_000_000)),
            ("sender", Item::Bytes(self.caller.principal())),
            ("canister_id", Item::Bytes(canister.to_vec())),
            ("method_name", Item::text(method)),
            ("arg", Item::Bytes(argument.to_vec())),
        ])
    }

    /// Calls a method by the address of another canister than its own, which the management canister has none of.
    #[track_caller]
    pub fn call_at(&self, effective: &[u8], canister: &[u8], method: &str, argument: &[u8]) -> Outcome {
        let (id, body) = self.caller.envelope(&self.content("call", canister, method, argument));
        let path = format!("/api/v4/canister/{}/call", principal_text(effective));
        let answer = post(self.address, &path, &body).item();
        match answer.get("status").as_text() {
            "replied" => {
                let certified = Certified::verify(answer.get("certificate").bytes(), &self.root_key);
                status_in(&certified, &id)
            }
            "non_replicated_rejection" => rejected_in(&answer),
            other => panic!("{other}"),
        }
    }

    #[track_caller]
    pub fn call(&self, canister: &[u8], method: &str, argument: &[u8]) -> Outcome {
        self.call_at(canister, canister, method, argument)
    }

    /// Calls the management canister, with an argument in Candid's text.
    #[track_caller]
    pub fn manage(&self, effective: &[u8], method: &str, text: &str) -> Outcome {
        let interface = Interface::parse(include_str!("management.did")).unwrap();
        let argument = encode_arguments(text, Some((&interface, method))).unwrap();
        self.call_at(effective, &[], method, &argument)
    }

    /// The same for the first canister; `{}` in the text stands for its field.
    #[track_caller]
    pub fn manage_first(&self, method: &str, more: &str) -> Outcome {
        let id = principal_text(&FIRST);
        self.manage(&FIRST, method, &format!("(record {{ canister_id = principal \"{id}\"; {more} }})"))
    }

    /// Asks a query, and verifies the node's signature of the answer with the key in the state tree.
    #[track_caller]
    pub fn query(&self, canister: &[u8], method: &str, argument: &[u8]) -> Outcome {
        let (id, body) = self.caller.envelope(&self.content("query", canister, method, argument));
        let answer = post(self.address, &format!("/api/v2/canister/{}/query", principal_text(canister)), &body).item();
        let Item::Array(signatures) = answer.get("signatures") else { panic!("{answer:?}") };
        let signature = &signatures[0];
        let mut signed = answer.without("signatures");
        signed.push("timestamp", signature.get("timestamp").clone());
        signed.push("request_id", Item::Bytes(id.to_vec()));
        let node = signature.get("identity").bytes();
        let subnet = [&Sha224::digest(&self.root_key)[..], &[2]].concat();
        let tree = self.read_state(canister, &[&[b"subnet"]]).unwrap();
        let key = tree.lookup(&[b"subnet", &subnet, b"node", node, b"public_key"]).expect("the node's key");
        let key = VerifyingKey::from_bytes(key[12..].try_into().unwrap()).unwrap();
        let message = [b"\x0bic-response", &signed.hash()[..]].concat();
        let signature = ed25519_dalek::Signature::from_slice(signature.get("signature").bytes()).unwrap();
        key.verify(&message, &signature).expect("the node's signature");
        match answer.get("status").as_text() {
            "replied" => Outcome::Replied(answer.get("reply").get("arg").bytes().to_vec()),
            _ => rejected_in(&answer),
        }
    }

    /// Parts of the state tree, verified.
    pub fn read_state(&self, canister: &[u8], paths: &[&[&[u8]]]) -> Result<Certified, Answer> {
        let path = |path: &&[&[u8]]| Item::Array(path.iter().map(|label| Item::Bytes(label.to_vec())).collect());
        let content = Item::map(&[
            ("request_type", Item::text("read_state")),
            ("ingress_expiry", Item::Number(now_ns() + 240_000_000_000)),
            ("sender", Item::Bytes(self.caller.principal())),
            ("paths", Item::Array(paths.iter().map(path).collect())),
        ]);
        let (_, body) = self.caller.envelope(&content);
        let address = format!("/api/v3/canister/{}/read_state", principal_text(canister));
        let answer = post(self.address, &address, &body);
        if answer.status != 200 {
            return Err(answer);
        }
        Ok(Certified::verify(answer.item().get("certificate").bytes(), &self.root_key))
    }
}

fn rejected_in(answer: &Item) -> Outcome {
    Outcome::Rejected {
        reject_code: answer.get("reject_code").number(),
        error_code: answer.get("error_code").as_text().to_owned(),
        message: answer.get("reject_message").as_text().to_owned(),
    }
}

/// What a certificate says about a call.
#[track_caller]
pub fn status_in(certified: &Certified, id: &[u8; 32]) -> Outcome {
    let leaf = |name: &[u8]| certified.lookup(&[b"request_status", id, name]);
    match leaf(b"status").expect("a status") {
        b"replied" => Outcome::Replied(leaf(b"reply").expect("a reply").to_vec()),
        b"rejected" => Outcome::Rejected {
            reject_code: tree::number(leaf(b"reject_code").expect("a code")),
            error_code: String::from_utf8(leaf(b"error_code").expect("an error code").to_vec()).unwrap(),
            message: String::from_utf8(leaf(b"reject_message").expect("a message").to_vec()).unwrap(),
        },
        other => panic!("{}", String::from_utf8_lossy(other)),
    }
}

pub fn sha256(bytes: &[u8]) -> Vec<u8> {
    Sha256::digest(bytes).to_vec()
}
