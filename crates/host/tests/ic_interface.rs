//! The network's interface, against a client that shares no code with the host: every certificate and every signature is verified.

mod ic_client;
mod support;

use highwater_host::candid::{decode, encode_arguments, principal_text};
use highwater_host::ic::FIRST_CANISTER;
use highwater_image::hexadecimal;
use ic_client::codec::Item;
use ic_client::{
    Answer, Caller, Client, FIRST, Outcome, TestHost, exchange, now_ns, post, read_answer, sha256, status_in,
};
use sha2::{Digest, Sha224};
use std::io::Write;
use std::net::TcpStream;

/// Bytes as Candid's text has them.
fn blob(bytes: &[u8]) -> String {
    let digits: String = bytes.iter().map(|byte| format!("\\{byte:02x}")).collect();
    format!("blob \"{digits}\"")
}

/// `(…)` as bytes.
fn arguments(text: &str) -> Vec<u8> {
    encode_arguments(text, None).unwrap()
}

fn text_of(reply: &[u8], names: &[&str]) -> String {
    decode(reply, &names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()).unwrap()
}

/// A module that replies with its caller (`whoami`, `asks`), and traps (`traps`). It carries an interface and a private section.
fn whoami() -> Vec<u8> {
    module_with("canister_update traps")
}

/// The same, with another name for the function that traps.
fn module_with(trapping: &str) -> Vec<u8> {
    fn section(id: u8, content: &[u8]) -> Vec<u8> {
        assert!(content.len() < 16_384);
        [&[id, content.len() as u8 | 0x80, (content.len() >> 7) as u8], content].concat()
    }
    fn name(text: &str) -> Vec<u8> {
        [&[text.len() as u8], text.as_bytes()].concat()
    }
    let import = |function: &str, ty: u8| [name("ic0"), name(function), vec![0, ty]].concat();
    let export = |function: &str, index: u8| [name(function), vec![0, index]].concat();
    let custom = |title: &str, content: &str| section(0, &[name(title), content.as_bytes().to_vec()].concat());
    let types = [4, 0x60, 0, 1, 0x7f, 0x60, 3, 0x7f, 0x7f, 0x7f, 0, 0x60, 2, 0x7f, 0x7f, 0, 0x60, 0, 0];
    let imports = [
        vec![4],
        import("msg_caller_size", 0),
        import("msg_caller_copy", 1),
        import("msg_reply_data_append", 2),
        import("msg_reply", 3),
    ];
    let exports = [vec![3], export("canister_update whoami", 4), export("canister_query asks", 4), export(trapping, 5)];
    // Copies the caller to address 0, and replies with it.
    let replies = [0, 0x41, 0, 0x41, 0, 0x10, 0, 0x10, 1, 0x41, 0, 0x10, 0, 0x10, 2, 0x10, 3, 0x0b];
    let traps = [0, 0x00, 0x0b];
    let code = [&[2, replies.len() as u8][..], &replies, &[traps.len() as u8], &traps].concat();
    [
        b"\0asm\x01\0\0\0".to_vec(),
        section(1, &types),
        section(2, &imports.concat()),
        section(3, &[2, 3, 3]),
        section(5, &[1, 0, 1]),
        section(7, &exports.concat()),
        section(10, &code),
        custom("icp:public candid:service", "service : { whoami : () -> () }"),
        custom("icp:private secret", "for controllers"),
    ]
    .concat()
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn fixture(name: &str) -> Vec<u8> {
    support::module(name).installed.to_vec()
}

#[track_caller]
fn install(client: &Client, module: &[u8], mode: &str) -> Outcome {
    let (module, argument) = (blob(module), blob(&arguments("()")));
    client
        .manage_first("install_code", &format!("mode = variant {{ {mode} }}; wasm_module = {module}; arg = {argument}"))
}

#[track_caller]
fn installed(module: &[u8]) -> (TestHost, Client) {
    let host = TestHost::start(None);
    let client = Client::new(&host, Caller::Anonymous);
    install(&client, module, "install").reply();
    (host, client)
}

fn number(client: &Client, method: &str, argument: &str) -> String {
    text_of(&client.call(&FIRST, method, &arguments(argument)).reply(), &[])
}

#[test]
fn callers_are_who_their_keys_say_they_are() {
    let (host, anonymous) = installed(&whoami());
    assert_eq!(anonymous.call(&FIRST, "whoami", &[]).reply(), [4]);
    let callers = [
        Caller::ed25519(7),
        Caller::Secp256k1(k256::ecdsa::SigningKey::from_slice(&[7; 32]).unwrap()),
        Caller::P256(p256::ecdsa::SigningKey::from_slice(&[7; 32]).unwrap()),
    ];
    for caller in callers {
        let client = Client::new(&host, caller.clone());
        assert_eq!(client.call(&FIRST, "whoami", &[]).reply(), caller.principal());
        assert_eq!(client.query(&FIRST, "asks", &[]).reply(), caller.principal());
    }
}

#[test]
fn a_key_may_let_another_key_speak_for_it() {
    let (host, client) = installed(&whoami());
    let (owner, session) = (Caller::ed25519(1), Caller::ed25519(2));
    let send = |expiration: u64, targets: Option<&[u8]>, signer: &Caller| {
        let mut delegation =
            Item::map(&[("pubkey", Item::Bytes(session.key().unwrap())), ("expiration", Item::Number(expiration))]);
        if let Some(target) = targets {
            delegation.push("targets", Item::Array(vec![Item::Bytes(target.to_vec())]));
        }
        let message = [b"\x1aic-request-auth-delegation", &delegation.hash()[..]].concat();
        let link = Item::map(&[("delegation", delegation), ("signature", Item::Bytes(signer.sign(&message)))]);
        let content = client.content("call", &FIRST, "whoami", &[]).with("sender", Item::Bytes(owner.principal()));
        let id = content.hash();
        let envelope = Item::map(&[
            ("sender_sig", Item::Bytes(session.sign(&[b"\x0aic-request", &id[..]].concat()))),
            ("content", content),
            ("sender_pubkey", Item::Bytes(owner.key().unwrap())),
            ("sender_delegation", Item::Array(vec![link])),
        ]);
        (id, post(host.address, &format!("/api/v3/canister/{FIRST_CANISTER}/call"), &envelope.written()))
    };
    let later = now_ns() + 60_000_000_000;
    let (id, answer) = send(later, Some(&FIRST), &owner);
    let certified = ic_client::tree::Certified::verify(answer.item().get("certificate").bytes(), &client.root_key);
    assert_eq!(status_in(&certified, &id).reply(), owner.principal());
    for (expiration, targets, signer, problem) in [
        (now_ns() - 1, None, &owner, "it has expired"),
        (later, Some(&[1, 2, 3][..]), &owner, "it is for other canisters"),
        (later, None, &session, "Invalid signature"),
    ] {
        let (_, answer) = send(expiration, targets, signer);
        assert_eq!(answer.status, 400);
        assert!(answer.text().contains(problem), "{}", answer.text());
    }
}

#[test]
fn requests_that_are_not_sound_are_refused() {
    let (host, client) = installed(&whoami());
    let path = format!("/api/v4/canister/{FIRST_CANISTER}/call");
    let content = client.content("call", &FIRST, "whoami", &[]);
    let send = |content: &Item| post(host.address, &path, &Item::map(&[("content", content.clone())]).written());
    #[track_caller]
    fn refused(answer: &Answer, problem: &str) {
        assert_eq!(answer.status, 400, "{}", answer.text());
        assert!(answer.text().contains(problem), "{}", answer.text());
        assert_eq!(answer.text().lines().count(), 1);
    }
    refused(&post(host.address, &path, b""), "it ends too early, at byte 0");
    refused(&post(host.address, &path, b"\xff"), "at byte 1");
    refused(&post(host.address, &path, &[0x81; 4000]), "nested too deeply");
    refused(&post(host.address, &path, &Item::map(&[]).written()), "'content'");
    for field in ["request_type", "ingress_expiry", "sender", "canister_id", "method_name", "arg"] {
        refused(&send(&content.without(field)), &format!("'{field}'"));
        refused(&send(&content.with(field, Item::Array(vec![]))), &format!("'{field}'"));
    }
    refused(&send(&content.with("request_type", Item::text("dance"))), "'dance' is unknown");
    refused(&send(&content.with("request_type", Item::text("query"))), "request_type");
    refused(&send(&content.with("nonce", Item::Bytes(vec![0; 33]))), "a nonce of more than 32 bytes");
    refused(&send(&content.with("sender", Item::Bytes(vec![1; 30]))), "'sender'");
    for expiry in [0, now_ns() - 1_000_000_000, now_ns() + 600_000_000_000, u64::MAX] {
        refused(&send(&content.with("ingress_expiry", Item::Number(expiry))), "Invalid request expiry");
    }
    // Senders without a signature, with another's, and with a wrong one.
    let owner = Caller::ed25519(3);
    let signed = content.with("sender", Item::Bytes(owner.principal()));
    refused(&send(&signed), "not signed");
    let (_, other) = Caller::ed25519(4).envelope(&signed);
    refused(&post(host.address, &path, &other), "is not the principal of the key");
    let (_, changed) = owner.envelope(&signed);
    let at = changed.windows(6).position(|part| part == b"whoami").unwrap();
    let mut changed = changed;
    changed[at] = b'W';
    refused(&post(host.address, &path, &changed), "did not sign this request");
    let (_, signed_as_nobody) = owner.envelope(&content);
    refused(&post(host.address, &path, &signed_as_nobody), "the sender is anonymous");
    let unknown_key = vec![0x30, 0x00];
    let sender = [&Sha224::digest(&unknown_key)[..], &[2]].concat();
    let envelope = Item::map(&[
        ("content", content.with("sender", Item::Bytes(sender))),
        ("sender_pubkey", Item::Bytes(unknown_key)),
        ("sender_sig", Item::Bytes(vec![0; 64])),
    ]);
    refused(&post(host.address, &path, &envelope.written()), "neither Ed25519 nor");
    // Addresses that do not fit.
    refused(
        &post(host.address, "/api/v4/canister/rubbish/call", &Item::map(&[("content", content.clone())]).written()),
        "'rubbish' is no principal",
    );
    let elsewhere = principal_text(&[0, 0, 0, 0, 0, 0, 0, 9, 1, 1]);
    let body = Item::map(&[("content", content.clone())]).written();
    refused(&post(host.address, &format!("/api/v4/canister/{elsewhere}/call"), &body), "effective canister id");
    refused(&post(host.address, &format!("/api/v3/subnet/{elsewhere}/read_state"), &body), "is not here");
    // Nothing was run.
    assert_eq!(host.state.lock().unwrap().first().unwrap().program.as_ref().unwrap().calls(), &[] as &[String]);
}

#[test]
fn the_server_keeps_to_its_part_of_http() {
    let (host, client) = installed(&whoami());
    let (_, body) = client.caller.envelope(&client.content("call", &FIRST, "whoami", &[]));
    let at = host.address;
    let path = format!("/api/v4/canister/{FIRST_CANISTER}/call");
    let send =
        |head: &str, body: &[u8]| exchange(at, &[head.replace("HOST", &at.to_string()).as_bytes(), body].concat());
    let head =
        |more: &str| format!("POST {path} HTTP/1.1\r\nHost: HOST\r\nContent-Type: application/cbor\r\n{more}\r\n");
    let length = format!("Content-Length: {}\r\n", body.len());
    // In chunks.
    let (first, second) = body.split_at(10);
    let chunks = [
        format!("{:x};note=1\r\n", first.len()).as_bytes(),
        first,
        format!("\r\n{:X}\r\n", second.len()).as_bytes(),
        second,
        b"\r\n0\r\nAfter: this\r\n\r\n",
    ]
    .concat();
    assert_eq!(send(&head("Transfer-Encoding: chunked\r\n"), &chunks).status, 200);
    // One connection, several requests.
    let mut stream = TcpStream::connect(at).unwrap();
    for _ in 0..3 {
        stream.write_all(head(&length).replace("HOST", &at.to_string()).as_bytes()).unwrap();
        stream.write_all(&body).unwrap();
        assert_eq!(read_answer(&mut stream).status, 200);
    }
    let cases = [
        (head("Content-Length: 5000000\r\n"), 413),
        (head("Transfer-Encoding: chunked\r\n") + "ffffffff\r\n", 413),
        (head("Transfer-Encoding: chunked\r\n") + "x\r\n", 400),
        (head("Transfer-Encoding: gzip\r\n"), 400),
        (head(&length).replace("application/cbor", "text/plain"), 415),
        (head(&length).replace("HOST", "evil.example"), 403),
        (head(&length).replace("POST", "PUT"), 405),
        (head(&length).replace("/call", "/dance"), 404),
        (head(&length).replace("/v4/", "/v5/"), 404),
        ("GET / HTTP/1.1\r\nHost: HOST\r\n\r\n".into(), 404),
        ("rubbish\r\n\r\n".into(), 400),
        (head(&format!("X: {}\r\n", "y".repeat(20_000))), 431),
    ];
    for (head, status) in cases {
        let answer = send(&head, &body);
        assert_eq!(answer.status, status, "{head:.200} {}", answer.text());
    }
}

#[test]
fn a_message_may_have_two_mebibytes() {
    let (host, client) = installed(&whoami());
    let send = |bytes: usize| {
        let (_, body) = client.caller.envelope(&client.content("call", &FIRST, "whoami", &vec![0; bytes]));
        post(host.address, &format!("/api/v4/canister/{FIRST_CANISTER}/call"), &body)
    };
    assert_eq!(send(2 << 20).status, 200);
    let refused = send((2 << 20) + (16 << 10));
    assert_eq!(refused.status, 413);
    assert!(refused.text().contains("too large"), "{}", refused.text());
}

#[test]
fn a_call_can_be_polled_and_is_made_once() {
    let (host, client) = installed(&fixture("busy"));
    let content = client.content("call", &FIRST, "add", &arguments("(5)"));
    let (id, body) = client.caller.envelope(&content);
    let address = format!("/api/v2/canister/{FIRST_CANISTER}/call");
    for _ in 0..3 {
        let answer = post(host.address, &address, &body);
        assert_eq!((answer.status, answer.body.len()), (202, 0));
    }
    let tree = client.read_state(&FIRST, &[&[b"request_status", &id]]).unwrap();
    assert_eq!(text_of(&status_in(&tree, &id).reply(), &[]), "(5 : nat)");
    // The result belongs to its sender.
    let stranger = Client::new(&host, Caller::ed25519(9));
    assert_eq!(stranger.read_state(&FIRST, &[&[b"request_status", &id]]).unwrap_err().status, 403);
    // A call that was never made is absent.
    let tree = client.read_state(&FIRST, &[&[b"request_status", &[7; 32]]]).unwrap();
    assert_eq!(tree.lookup(&[b"request_status", &[7; 32], b"status"]), None);
    assert_eq!(number(&client, "add", "(1)"), "(6 : nat)");
}

#[test]
fn calls_that_fail_have_the_networks_codes() {
    let (host, client) = installed(&fixture("busy"));
    let nobody = [0, 0, 0, 0, 0, 0, 0, 9, 1, 1];
    assert_eq!(client.call(&nobody, "add", &[]).error(), "IC0301");
    assert_eq!(client.call(&FIRST, "missing", &[]).error(), "IC0536");
    assert_eq!(client.query(&FIRST, "missing", &[]).error(), "IC0536");
    // An update is no query.
    assert_eq!(client.query(&FIRST, "add", &arguments("(1)")).error(), "IC0536");
    assert_eq!(client.call(&FIRST, "trapNow", &arguments("(1)")).error(), "IC0503");
    assert_eq!(client.call(&FIRST, "refuse", &arguments("()")).error(), "IC0406");
    assert_eq!(client.call_at(&FIRST, &[], "dance", &arguments("()")).error(), "IC0407");
    assert_eq!(client.call_at(&FIRST, &[], "stop_canister", &arguments("(5)")).error(), "IC0408");
    assert_eq!(client.call_at(&FIRST, &[], "stop_canister", b"rubbish").error(), "IC0408");
    client.manage_first("stop_canister", "").reply();
    assert_eq!(client.call(&FIRST, "add", &arguments("(1)")).error(), "IC0508");
    assert_eq!(client.query(&FIRST, "add", &arguments("(1)")).error(), "IC0508");
    client.manage_first("start_canister", "").reply();
    install(&client, &whoami(), "reinstall").reply();
    assert_eq!(client.call(&FIRST, "traps", &[]).error(), "IC0502");
    client.manage_first("uninstall_code", "").reply();
    assert_eq!(client.call(&FIRST, "whoami", &[]).error(), "IC0537");
    drop(host);
}

#[test]
fn queries_leave_no_trace() {
    let (host, client) = installed(&whoami());
    let before = support::hash(host.state.lock().unwrap().first().unwrap().program.as_ref().unwrap());
    for _ in 0..5 {
        client.query(&FIRST, "asks", &[]).reply();
    }
    let mut state = host.state.lock().unwrap();
    let program = state.first().unwrap().program.as_ref().unwrap();
    assert_eq!(support::hash(program), before);
    assert!(program.calls().is_empty());
}

#[test]
fn the_state_tree_says_what_is_installed() {
    let (host, client) = installed(&packed(&whoami()));
    let owner = Client::new(&host, Caller::ed25519(5));
    let module = sha256(&packed(&whoami()));
    let paths: [&[&[u8]]; 4] = [
        &[b"canister", &FIRST, b"module_hash"],
        &[b"canister", &FIRST, b"controllers"],
        &[b"canister", &FIRST, b"metadata", b"candid:service"],
        &[b"canister", &FIRST, b"metadata", b"missing"],
    ];
    let tree = owner.read_state(&FIRST, &paths).unwrap();
    assert_eq!(tree.lookup(paths[0]).unwrap(), module);
    assert_eq!(Item::read(tree.lookup(paths[1]).unwrap()), Item::Array(vec![Item::Bytes(owner.caller.principal())]));
    assert_eq!(tree.lookup(paths[2]).unwrap(), b"service : { whoami : () -> () }");
    assert_eq!(tree.lookup(paths[3]), None);
    // As long as nobody is named, everybody is a controller; then only those who are named.
    let secret: &[&[u8]] = &[b"canister", &FIRST, b"metadata", b"secret"];
    assert_eq!(client.read_state(&FIRST, &[secret]).unwrap().lookup(secret).unwrap(), b"for controllers");
    let name = principal_text(&owner.caller.principal());
    let settings = format!("settings = record {{ controllers = opt vec {{ principal \"{name}\" }} }}");
    client.manage_first("update_settings", &settings).reply();
    assert_eq!(client.read_state(&FIRST, &[secret]).unwrap_err().status, 403);
    assert_eq!(owner.read_state(&FIRST, &[secret]).unwrap().lookup(secret).unwrap(), b"for controllers");
    for method in ["canister_status", "stop_canister", "uninstall_code", "list_canister_snapshots"] {
        assert_eq!(client.manage_first(method, "").error(), "IC0512");
    }
    assert_eq!(install(&client, &whoami(), "reinstall").error(), "IC0512");
    owner.manage_first("stop_canister", "").reply();
    for path in [&[b"rubbish".as_slice()][..], &[b"canister", &FIRST, b"rubbish"], &[b"canister", &[9], b"module_hash"]]
    {
        assert_eq!(client.read_state(&FIRST, &[path]).unwrap_err().status, 400);
    }
    // The subnet's canisters are a range that has ours.
    let subnet = [&Sha224::digest(&client.root_key)[..], &[2]].concat();
    let tree = client.read_state(&FIRST, &[&[b"subnet"], &[b"canister_ranges", &subnet]]).unwrap();
    let ranges = Item::read(tree.lookup(&[b"subnet", &subnet, b"canister_ranges"]).unwrap());
    let Item::Array(ranges) = ranges else { panic!("{ranges:?}") };
    let Item::Array(range) = &ranges[0] else { panic!("{ranges:?}") };
    assert!(range[0].bytes() <= &FIRST[..] && &FIRST[..] <= range[1].bytes());
    assert!(tree.lookup(&[b"canister_ranges", &subnet, range[0].bytes()]).is_some());
}

#[test]
fn code_is_installed_upgraded_and_replaced() {
    for (name, keep) in [("busy", "wasm_memory_persistence = opt variant { keep }"), ("busy32", "")] {
        let host = TestHost::start(None);
        let client = Client::new(&host, Caller::Anonymous);
        let upgrade = format!("upgrade = opt record {{ {keep} }}");
        assert_eq!(install(&client, &fixture(name), &upgrade).error(), "IC0537");
        assert_eq!(install(&client, b"rubbish", "install").error(), "IC0505");
        install(&client, &fixture(name), "install").reply();
        assert_eq!(install(&client, &fixture(name), "install").error(), "IC0514");
        assert_eq!(number(&client, "add", "(40)"), "(40 : nat)");
        // Compressed, and as an upgrade: the state stays.
        install(&client, &packed(&fixture(name)), &upgrade).reply();
        assert_eq!(number(&client, "add", "(2)"), "(42 : nat)", "{name}");
        install(&client, &fixture(name), "reinstall").reply();
        assert_eq!(number(&client, "add", "(1)"), "(1 : nat)");
    }
    // Enhanced persistence wants a choice, and another module cannot keep such a memory.
    let (_host, client) = installed(&fixture("busy"));
    assert_eq!(number(&client, "add", "(40)"), "(40 : nat)");
    assert_eq!(install(&client, &fixture("busy"), "upgrade = null").error(), "IC0504");
    let keep = "upgrade = opt record { wasm_memory_persistence = opt variant { keep } }";
    assert_eq!(install(&client, &fixture("busy32"), keep).error(), "IC0504");
    // An upgrade that traps leaves everything as it was.
    let replace = "upgrade = opt record { wasm_memory_persistence = opt variant { replace } }";
    assert_eq!(install(&client, &module_with("canister_post_upgrade"), replace).error(), "IC0502");
    assert_eq!(number(&client, "add", "(2)"), "(42 : nat)");
}

#[test]
fn large_modules_come_in_chunks() {
    let host = TestHost::start(None);
    let client = Client::new(&host, Caller::Anonymous);
    let module = fixture("busy");
    let mut hashes = Vec::new();
    for chunk in module.chunks(100_000) {
        let reply = client.manage_first("upload_chunk", &format!("chunk = {}", blob(chunk))).reply();
        assert_eq!(text_of(&reply, &["hash"]), format!("(record {{ hash = {} }})", shown(&sha256(chunk))));
        hashes.push(format!("record {{ hash = {} }}", blob(&sha256(chunk))));
    }
    assert!(hashes.len() > 2);
    let install = |hash: &[u8], list: &str| {
        client.manage(&FIRST, "install_chunked_code", &format!(
            "(record {{ mode = variant {{ install }}; target_canister = principal \"{FIRST_CANISTER}\"; chunk_hashes_list = vec {{ {list} }}; wasm_module_hash = {}; arg = {} }})",
            blob(hash), blob(&arguments("()"))
        ))
    };
    assert_eq!(install(&[0; 32], &hashes.join("; ")).error(), "IC0504");
    assert_eq!(install(&sha256(&module), &format!("record {{ hash = {} }}", blob(&[0; 32]))).error(), "IC0504");
    install(&sha256(&module), &hashes.join("; ")).reply();
    assert_eq!(number(&client, "add", "(3)"), "(3 : nat)");
    let too_long = format!("chunk = {}", blob(&vec![0; (1 << 20) + 1]));
    assert_eq!(client.manage_first("upload_chunk", &too_long).error(), "IC0504");
    client.manage_first("clear_chunk_store", "").reply();
    let left = client.manage_first("stored_chunks", "").reply();
    assert_eq!(text_of(&left, &[]), "(vec { })");
}

/// A blob as `decode` shows it.
fn shown(bytes: &[u8]) -> String {
    let digits = bytes.iter().map(|&byte| match byte {
        b'"' | b'\\' => format!("\\{}", char::from(byte)),
        b' '..=b'~' => char::from(byte).to_string(),
        _ => format!("\\{byte:02x}"),
    });
    format!("blob \"{}\"", digits.collect::<String>())
}

/// A number in an answer, by the name of its field.
fn field(text: &str, name: &str) -> u64 {
    let at = text.find(&format!("{name} = ")).unwrap_or_else(|| panic!("{name} in {text}")) + name.len() + 3;
    text[at..].split(' ').next().unwrap().parse().unwrap()
}

const NAMES: &[&str] = &[
    "id",
    "taken_at_timestamp",
    "total_size",
    "wasm_module_size",
    "wasm_memory_size",
    "stable_memory_size",
    "globals",
    "certified_data",
    "global_timer",
    "active",
    "inactive",
    "canister_version",
    "wasm_chunk_store",
    "source",
    "taken_from_canister",
    "metadata_upload",
    "on_low_wasm_memory_hook_status",
    "condition_not_satisfied",
    "i32",
    "i64",
    "status",
    "running",
    "stopped",
    "cycles",
    "memory_metrics",
    "settings",
    "module_hash",
];

/// A list in an answer, by the name of its field.
fn braced<'a>(text: &'a str, name: &str) -> &'a str {
    let begin = text.find(&format!("{name} = vec {{")).unwrap() + name.len() + 3;
    let mut depth = 0;
    let end = text[begin..].char_indices().find_map(|(at, character)| {
        depth += match character {
            '{' => 1,
            '}' => -1,
            _ => 0,
        };
        (character == '}' && depth == 0).then_some(at)
    });
    &text[begin..=begin + end.unwrap()]
}

/// All bytes of one memory of a snapshot, in parts.
fn download(client: &Client, id: &str, kind: &str, bytes: u64) -> Vec<u8> {
    let mut all = Vec::new();
    while (all.len() as u64) < bytes {
        let (offset, size) = (all.len() as u64, (bytes - all.len() as u64).min(1_500_000));
        let part =
            format!("snapshot_id = {id}; kind = variant {{ {kind} = record {{ offset = {offset}; size = {size} }} }}");
        let reply = client.manage_first("read_canister_snapshot_data", &part).reply();
        let at = reply.len() - size as usize;
        all.extend(&reply[at..]);
    }
    all
}

#[test]
fn snapshots_are_taken_read_sent_and_restored() {
    let (host, client) = installed(&fixture("busy32"));
    assert_eq!(number(&client, "add", "(40)"), "(40 : nat)");
    client.call(&FIRST, "certify", &arguments("(blob \"abc\")")).reply();
    assert_eq!(client.manage_first("take_canister_snapshot", "").error(), "IC0510");
    client.manage_first("stop_canister", "").reply();
    client.manage_first("take_canister_snapshot", "").reply();
    let listed = text_of(&client.manage_first("list_canister_snapshots", "").reply(), NAMES);
    let id = blob(&[&1u64.to_be_bytes()[..], &FIRST].concat());
    assert!(listed.contains(&format!("id = {}", shown(&[&1u64.to_be_bytes()[..], &FIRST].concat()))), "{listed}");
    // The host's own list has it as well.
    let (module, own_hash) = {
        let mut state = host.state.lock().unwrap();
        let hosted = state.first().unwrap();
        assert_eq!(hosted.snapshots.count(), 1);
        (fixture("busy32"), hosted.snapshots.last().unwrap().image.sha256())
    };
    let metadata =
        text_of(&client.manage_first("read_canister_snapshot_metadata", &format!("snapshot_id = {id}")).reply(), NAMES);
    assert!(metadata.contains("source = variant { taken_from_canister = null : reserved }"), "{metadata}");
    assert!(metadata.contains("certified_data = blob \"abc\""), "{metadata}");
    assert!(metadata.contains("global_timer = opt variant { inactive }"), "{metadata}");
    assert_eq!(field(&metadata, "wasm_module_size"), module.len() as u64);
    let memory = download(&client, &id, "wasm_memory", field(&metadata, "wasm_memory_size"));
    let stable = download(&client, &id, "stable_memory", field(&metadata, "stable_memory_size"));
    assert_eq!(hexadecimal(&sha256(&memory)), own_hash);
    assert_eq!(download(&client, &id, "wasm_module", module.len() as u64), module);

    // Sent to the same canister as another snapshot, in parts.
    let globals = braced(&metadata, "globals");
    let globals = globals.replace(" : int32", "").replace(" : int64", "");
    let begin = |memory_bytes: usize, more: &str| {
        client.manage_first("upload_canister_snapshot_metadata", &format!(
            "wasm_module_size = {}; globals = {globals}; wasm_memory_size = {memory_bytes}; stable_memory_size = {}; certified_data = blob \"abc\"; global_timer = opt variant {{ inactive }}; {more}",
            module.len(), stable.len()
        ))
    };
    assert_eq!(begin(memory.len() + 1, "").error(), "IC0408");
    assert_eq!(begin(1 << 50, "").error(), "IC0408");
    begin(memory.len(), "").reply();
    let sent = blob(&[&2u64.to_be_bytes()[..], &FIRST].concat());
    let send = |kind: &str, offset: usize, chunk: &[u8]| {
        client.manage_first(
            "upload_canister_snapshot_data",
            &format!(
                "snapshot_id = {sent}; kind = variant {{ {kind} = record {{ offset = {offset} }} }}; chunk = {}",
                blob(chunk)
            ),
        )
    };
    // Half of it cannot be restored: its module is all zeros.
    let load = |id: &str| client.manage_first("load_canister_snapshot", &format!("snapshot_id = {id}"));
    assert_eq!(load(&sent).error(), "IC0505");
    for (kind, content) in [("wasm_module", &module), ("wasm_memory", &memory), ("stable_memory", &stable)] {
        for (number, chunk) in content.chunks(400_000).enumerate() {
            send(kind, number * 400_000, chunk).reply();
        }
        assert_eq!(send(kind, content.len(), b"x").error(), "IC0408");
    }
    assert_eq!(send("wasm_memory", 0, &vec![0; 2_000_001]).error(), "IC0408");
    // Something else happens, and the sent snapshot undoes it.
    client.manage_first("start_canister", "").reply();
    assert_eq!(number(&client, "add", "(60)"), "(100 : nat)");
    assert_eq!(load(&sent).error(), "IC0510");
    client.manage_first("stop_canister", "").reply();
    load(&sent).reply();
    assert_eq!(send("wasm_memory", 0, b"x").error(), "IC0409");
    client.manage_first("start_canister", "").reply();
    assert_eq!(number(&client, "add", "(2)"), "(42 : nat)");
    // So does the taken one.
    client.manage_first("stop_canister", "").reply();
    load(&id).reply();
    client.manage_first("start_canister", "").reply();
    assert_eq!(number(&client, "add", "(3)"), "(43 : nat)");
    // Both are in the host's own list, with equal memories.
    {
        let mut state = host.state.lock().unwrap();
        let stored: Vec<_> = state.first().unwrap().snapshots.all().map(|one| (one.id(), one.image.sha256())).collect();
        assert_eq!(stored, [(1, own_hash.clone()), (2, own_hash)]);
    }
    // Deleted ones, and those of others, are not there.
    let delete = |id: &str| client.manage_first("delete_canister_snapshot", &format!("snapshot_id = {id}"));
    delete(&id).reply();
    for missing in [&id, "blob \"\"", "blob \"rubbish\""] {
        assert_eq!(delete(missing).error(), "IC0305");
    }
    let metadata = client.manage_first("read_canister_snapshot_metadata", &format!("snapshot_id = {id}"));
    assert_eq!(metadata.error(), "IC0305");
    let beyond = format!(
        "snapshot_id = {sent}; kind = variant {{ wasm_memory = record {{ offset = {}; size = 1 }} }}",
        memory.len()
    );
    assert_eq!(client.manage_first("read_canister_snapshot_data", &beyond).error(), "IC0408");
    let too_much =
        format!("snapshot_id = {sent}; kind = variant {{ wasm_memory = record {{ offset = 0; size = 2_000_001 }} }}");
    assert_eq!(client.manage_first("read_canister_snapshot_data", &too_much).error(), "IC0408");
}

#[test]
fn canisters_are_created_and_deleted() {
    let host = TestHost::start(None);
    let owner = Client::new(&host, Caller::ed25519(1));
    let create = "provisional_create_canister_with_cycles";
    let names: &[&str] = &["canister_id"];
    let made = text_of(&owner.manage(&FIRST, create, "(record { amount = opt 7 })").reply(), names);
    let second = [0, 0, 0, 0, 0, 0, 0, 2, 1, 1];
    let name = principal_text(&second);
    assert_eq!(made, format!("(record {{ canister_id = principal \"{name}\" }})"));
    let about = |client: &Client, method: &str| {
        client.manage(&second, method, &format!("(record {{ canister_id = principal \"{name}\" }})"))
    };
    let status = text_of(&about(&owner, "canister_status").reply(), NAMES);
    assert!(status.contains("status = variant { running }") && status.contains("cycles = 7 : nat"), "{status}");
    let stranger = Client::new(&host, Caller::Anonymous);
    assert_eq!(about(&stranger, "canister_status").error(), "IC0512");
    let top_up = format!("(record {{ canister_id = principal \"{name}\"; amount = 5 }})");
    stranger.manage(&second, "provisional_top_up_canister", &top_up).reply();
    let install = format!(
        "(record {{ mode = variant {{ install }}; canister_id = principal \"{name}\"; wasm_module = {}; arg = {} }})",
        blob(&whoami()),
        blob(b"")
    );
    owner.manage(&second, "install_code", &install).reply();
    assert_eq!(stranger.call(&second, "whoami", &[]).reply(), [4]);
    let status = text_of(&about(&owner, "canister_status").reply(), NAMES);
    assert!(status.contains("cycles = 12 : nat"), "{status}");
    assert_eq!(stranger.call(&FIRST, "whoami", &[]).error(), "IC0537");
    assert_eq!(about(&owner, "delete_canister").error(), "IC0510");
    about(&owner, "stop_canister").reply();
    about(&owner, "delete_canister").reply();
    assert_eq!(about(&owner, "canister_status").error(), "IC0301");
    for number in 2..17u64 {
        let wanted = principal_text(&[&(number + 100).to_be_bytes()[..], &[1, 1]].concat());
        owner.manage(&FIRST, create, &format!("(record {{ specified_id = opt principal \"{wanted}\" }})")).reply();
    }
    assert_eq!(owner.manage(&FIRST, create, "(record {})").error(), "IC0102");
}

#[test]
fn only_loopback_addresses_are_listened_at() {
    let state = highwater_host::hosted::HostState::new(None, Default::default()).shared();
    let log: highwater_host::server::HostLog = std::sync::Arc::new(|_| {});
    let bound = highwater_host::ic::server::IcServer::bind("0.0.0.0:0".parse().unwrap(), false, state, &log);
    let problem = bound.err().expect("refused").to_string();
    assert!(problem.contains("--ic-remote"), "{problem}");
}
