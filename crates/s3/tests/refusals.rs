//! What the user reads when a lake in an object store cannot be used, and whether the shipper tries again.

mod support;

use highwater_lake::store::{LakeStore, ProgramStore, StoreError};
use std::io::ErrorKind;
use std::net::TcpListener;
use std::time::Duration;
use support::{Gate, Moto, TestFolder, answering, away, keys, refused};

#[test]
fn without_credentials_nothing_is_contacted() {
    let folder = TestFolder::new();
    let (store, metadata) = (silent_listener(), silent_listener());
    let address = |listener: &TcpListener| format!("http://{}", listener.local_addr().unwrap());
    let (endpoint, service) = (address(&store), address(&metadata));
    // Everything that the library would go by.
    let environment = [
        ("AWS_ENDPOINT_URL", endpoint.as_str()),
        ("AWS_ALLOW_HTTP", "true"),
        ("AWS_METADATA_ENDPOINT", &service),
        ("AWS_CONTAINER_CREDENTIALS_FULL_URI", &service),
        ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "/dev/null"),
    ];
    let line = refused(ProgramStore::open("s3://lakes/a", folder.program(&environment)));
    assert_eq!(
        line,
        "s3://lakes/a: no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or HIGHWATER_S3_INSTANCE_CREDENTIALS=1 for the machine's role"
    );
    for listener in [&store, &metadata] {
        assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock, "contacted");
    }
    // The same listener notices the machine's credentials being asked for, if that is wanted.
    let mut environment = environment.to_vec();
    environment.push(("HIGHWATER_S3_INSTANCE_CREDENTIALS", "1"));
    let asking = ProgramStore::open("s3://lakes/a", folder.program(&environment)).unwrap();
    assert_eq!(metadata.accept().unwrap_err().kind(), ErrorKind::WouldBlock, "not before the first request");
    std::thread::scope(|scope| {
        let answer = scope.spawn(|| asking.list(""));
        support::wait_for("a question for credentials", || metadata.accept().is_ok());
        drop(metadata);
        assert!(matches!(answer.join().unwrap(), Err(StoreError::Away(_) | StoreError::Refused(_))));
    });
    assert_eq!(store.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
}

#[test]
fn half_a_key_and_other_settings_are_refused_at_once() {
    let folder = TestFolder::new();
    let id = ("AWS_ACCESS_KEY_ID", "id");
    let secret = ("AWS_SECRET_ACCESS_KEY", "secret");
    let open = |uri: &str, environment: &[(&str, &str)]| refused(ProgramStore::open(uri, folder.program(environment)));
    assert!(open("s3://lakes", &[id]).contains("AWS_SECRET_ACCESS_KEY is not"));
    assert!(open("s3://lakes", &[("AWS_SECRET_ACCESS_KEY", "")]).contains("no credentials"));
    assert_eq!(open("s3://a b/c", &[id, secret]), "s3://a b/c: is not s3://BUCKET/PREFIX");
    assert_eq!(
        open("s3://lakes", &[id, secret, ("AWS_ENDPOINT_URL", "http://127.0.0.1:1")]),
        "s3://lakes: the endpoint is http://; AWS_ALLOW_HTTP=true allows it"
    );
    let mut missing = folder.program(&[id, secret]);
    missing.path = folder.path("missing");
    assert!(matches!(ProgramStore::open("s3://lakes", missing), Err(StoreError::System { .. })));
    let mut other = folder.program(&[id, secret]);
    other.path = "/bin/echo".into();
    assert_eq!(refused(ProgramStore::open("s3://lakes", other)), "/bin/echo: does not start as highwater-s3 does");
}

#[test]
fn the_server_decides_who_may_do_what() {
    let (moto, folder) = (Moto::checked(), TestFolder::new());
    let file = folder.file("file", 100);
    let large = folder.file("large", 9 << 20);
    let endpoint = format!("http://{}", moto.address);
    let store = |uri: &str, id: &str, secret: &str| {
        let environment = [
            ("AWS_ENDPOINT_URL_S3", endpoint.as_str()),
            ("AWS_ALLOW_HTTP", "true"),
            ("AWS_REGION", "us-east-1"),
            ("AWS_ACCESS_KEY_ID", id),
            ("AWS_SECRET_ACCESS_KEY", secret),
        ];
        ProgramStore::open(uri, folder.program(&environment)).unwrap()
    };
    // The policy of the documentation allows all that a lake needs.
    let good = store("s3://lakes/service=a%2Fb", &moto.id, &moto.secret);
    good.put("sites/a%2Fb", &file).unwrap();
    good.put("sites/large", &large).unwrap();
    assert!(matches!(good.put("sites/large", &large), Err(StoreError::Exists(_))));
    assert_eq!(keys(&good, "sites/"), ["sites/a%2Fb", "sites/large"]);
    good.bring(&good.list("").unwrap()).unwrap();
    good.head("sites/large").unwrap();
    good.delete_all(&["sites/a%2Fb".to_owned(), "sites/large".to_owned()]).unwrap();
    assert_eq!(keys(&good, ""), [""; 0]);

    let expected = "s3://lakes: the store does not accept these credentials (403 ";
    for (id, secret, code) in
        [("other", "other", "InvalidAccessKeyId)"), (moto.id.as_str(), "other", "SignatureDoesNotMatch)")]
    {
        let wrong = store("s3://lakes", id, secret);
        assert_eq!(refused(wrong.put("a", &file)), format!("{expected}{code}"));
        assert_eq!(refused(wrong.list("")), format!("{expected}{code}"));
    }
    let forbidden = store("s3://others", &moto.id, &moto.secret);
    assert_eq!(refused(forbidden.put("a", &file)), "s3://others: these credentials may not do this (403 AccessDenied)");
}

#[test]
fn a_bucket_that_does_not_exist_is_refused() {
    let (moto, folder) = (Moto::start(), TestFolder::new());
    let store = folder.store("s3://nowhere/a", moto.address);
    let line = "s3://nowhere/a: there is no bucket nowhere (404 NoSuchBucket)";
    assert_eq!(refused(store.put("a", &folder.file("file", 10))), line);
    assert_eq!(refused(store.list("")), line);
}

#[test]
fn a_server_that_is_away_or_out_of_order_is_tried_again_later() {
    let folder = TestFolder::new();
    let file = folder.file("file", 10);
    let unused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let store = folder.store("s3://lakes", unused);
    let line = format!("s3://lakes: no answer from {unused}: Connection refused");
    assert_eq!(away(store.put("a", &file)), line);

    let put = |answer| folder.store("s3://lakes", answering(answer)).put("a", &file);
    let list = |answer| folder.store("s3://lakes", answering(answer)).list("");
    let skewed = "HTTP/1.1 403 Forbidden\r\nConnection: close\r\nContent-Length: 47\r\n\r\n<Error><Code>RequestTimeTooSkewed</Code></Error>";
    assert_eq!(
        away(put(skewed)),
        "s3://lakes: this machine's clock differs from the store's: set it (403 RequestTimeTooSkewed)"
    );
    let expired = "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 39\r\n\r\n<Error><Code>ExpiredToken</Code></Error>";
    assert!(refused(put(expired)).ends_with("the session token has expired (400 ExpiredToken)"));
    let region = "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 79\r\n\r\n<Error><Code>AuthorizationHeaderMalformed</Code><Region>eu-west-1</Region></Error>";
    assert_eq!(refused(put(region)), "s3://lakes: the bucket is in another region; set AWS_REGION to eu-west-1");
    let moved = "HTTP/1.1 301 Moved\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(refused(put(moved)), "s3://lakes: the bucket is in another region; set AWS_REGION to its region");
    let lacking = "HTTP/1.1 501 Not Implemented\r\nConnection: close\r\nContent-Length: 41\r\n\r\n<Error><Code>NotImplemented</Code></Error>";
    assert!(refused(put(lacking)).contains("such as If-None-Match (501"));
    let slow =
        "HTTP/1.1 503 Slow Down\r\nConnection: close\r\nContent-Length: 35\r\n\r\n<Error><Code>SlowDown</Code></Error>";
    assert_eq!(away(put(slow)), "s3://lakes: the store is busy or out of order (503 SlowDown)");
    let conflict = "HTTP/1.1 409 Conflict\r\nConnection: close\r\nContent-Length: 53\r\n\r\n<Error><Code>ConditionalRequestConflict</Code></Error>";
    assert!(away(put(conflict)).contains("another writer is at the same file"));
    let cut =
        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 4000\r\n\r\n<ListBucketResult><Contents><Key>a</Key>";
    assert!(away(list(cut)).starts_with("s3://lakes: no answer from 127.0.0.1:"));
    let foreign = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 18\r\n\r\n<html>hello</html>";
    let empty = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    for answer in [foreign, empty] {
        let line = "s3://lakes: the server does not answer as an object store does: its listing is none";
        assert_eq!(refused(list(answer)), line, "not an empty lake");
    }
}

#[test]
fn an_answer_that_is_cut_is_no_file() {
    let folder = TestFolder::new();
    let cut = "HTTP/1.1 200 OK\r\nConnection: close\r\nETag: \"t\"\r\nLast-Modified: Wed, 18 Nov 2026 10:00:00 GMT\r\nContent-Length: 4000\r\n\r\nPAR1";
    let store = folder.store("s3://lakes", answering(cut));
    let file = highwater_lake::store::StoredFile { key: "a".into(), bytes: 4000, tag: "\"t\"".into() };
    assert!(away(store.local_path(&file)).starts_with("s3://lakes: a: the content was cut: "));
    assert_eq!(std::fs::read_dir(folder.path("cache/files")).unwrap().count(), 0, "nothing unfinished is left");
    assert!(!store.local_root().join("a").exists());
}

#[test]
fn a_program_that_says_nothing_is_ended() {
    let (moto, folder) = (Moto::start(), TestFolder::new());
    let gate = Gate::before(moto.address, 0);
    let mut program = folder.program_for(gate.address);
    program.patience = Duration::from_secs(8);
    let store = ProgramStore::open("s3://lakes", program).unwrap();
    let process = store.process_id().unwrap();
    assert_eq!(away(store.list("")), "s3://lakes: highwater-s3 did not answer and was ended");
    assert!(!std::path::Path::new(&format!("/proc/{process}")).exists());
    gate.open();
    assert_eq!(keys(&store, ""), [""; 0], "started again");
}

fn silent_listener() -> TcpListener {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    listener
}
