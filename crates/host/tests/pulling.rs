//! Pulls over a real socket: interrupted and resumed, replaced meanwhile, damaged in transit.

mod support;

use highwater_host::client::{HostClient, HostClientError};
use highwater_host::frame::HostFrame;
use highwater_host::image::ImagePart;
use highwater_host::protocol::{HostRequest, HostResponse};
use highwater_host::pull::{PullError, default_name, pull};
use highwater_host::server::{HostLog, HostServer};
use highwater_host::transport::{SocketTransport, Transport, TransportError};
use highwater_image::Sidecar;
use sha2::{Digest, Sha256};
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

/// A host in a thread, with its own folder.
struct Hosted {
    folder: PathBuf,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Hosted {
    fn new() -> Self {
        Self::of("ledger")
    }

    fn of(module: &str) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("highwater-pull-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let server = HostServer::bind(&folder.join("socket"), support::start(module)).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, log) = (Arc::clone(&stop), Arc::new(|_: &str| {}) as HostLog);
        let thread = std::thread::spawn(move || server.serve(&stopped, &log));
        Self { folder, stop, thread: Some(thread) }
    }

    fn transport(&self) -> SocketTransport {
        SocketTransport::connect(&self.folder.join("socket")).unwrap()
    }

    fn client(&self) -> HostClient<SocketTransport> {
        HostClient::new(self.transport())
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// A client of a program whose memory is large enough for several parts.
    fn filled(&self) -> HostClient<SocketTransport> {
        let mut client = self.client();
        assert_eq!(client.call("open(2000)").unwrap().reply.as_deref(), Some("(2000 : nat)"));
        client.create().unwrap();
        client
    }
}

impl Drop for Hosted {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A transport that changes or loses parts in transit.
struct Meddling<F>(SocketTransport, u32, F);

impl<F: FnMut(u32, ImagePart) -> Result<ImagePart, TransportError>> Transport for Meddling<F> {
    fn ask(&mut self, request: &HostRequest) -> Result<HostResponse, TransportError> {
        match self.0.ask(request)? {
            HostResponse::Chunk(id, offset, chunk) => {
                self.1 += 1;
                Ok(HostResponse::Chunk(id, offset, (self.2)(self.1, chunk)?))
            }
            other => Ok(other),
        }
    }
}

fn hash_of(path: &Path) -> String {
    highwater_image::hexadecimal(&Sha256::digest(std::fs::read(path).unwrap()))
}

#[test]
fn stable_memory_is_pulled_with_the_image_and_goes_on_where_it_was() {
    let hosted = Hosted::of("regions");
    let mut client = hosted.client();
    client.call("write(\"kept\")").unwrap();
    client.call("fill(200)").unwrap();
    client.create().unwrap();
    let description = client.describe(None).unwrap();
    let stable = description.stable.clone().unwrap();
    let target = hosted.file("a.img");
    // The first part is of the stable memory, which comes first.
    let breaks = |number, chunk| if number > 1 { Err(TransportError::Lost) } else { Ok(chunk) };
    let mut breaking = HostClient::new(Meddling(hosted.transport(), 0, breaks));
    assert!(pull(&mut breaking, &description, &target, false, |_, _| {}).is_err());
    assert!(hosted.file("a.img.stable.part").exists() && !target.exists());
    let pulled = pull(&mut hosted.client(), &description, &target, false, |_, _| {}).unwrap();
    assert!(pulled.resumed_at > 0, "{pulled:?}");
    assert_eq!((hash_of(&target), hash_of(&hosted.file("a.img.stable"))), (description.sha256.clone(), stable.sha256));
    let options = highwater_host::program::ProgramOptions::default();
    let mut loaded =
        highwater_host::program::HostedProgram::load(support::module("regions"), &options, &target).unwrap();
    assert_eq!(support::reply(&mut loaded, "read(4)"), "(4711 : nat64, opt \"kept\")");
    let left: Vec<_> = std::fs::read_dir(&hosted.folder).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().contains(".part")), "{left:?}");
}

#[test]
fn a_pull_that_was_broken_off_goes_on_where_it_was() {
    let hosted = Hosted::new();
    let description = hosted.filled().describe(None).unwrap();
    let target = hosted.file("a.img");
    let breaks = |number, chunk| if number > 2 { Err(TransportError::Lost) } else { Ok(chunk) };
    let mut breaking = HostClient::new(Meddling(hosted.transport(), 0, breaks));
    let broken = pull(&mut breaking, &description, &target, false, |_, _| {});
    assert!(matches!(broken, Err(PullError::Client(HostClientError::Transport(TransportError::Lost)))), "{broken:?}");
    assert!(!target.exists() && hosted.file("a.img.part").exists());
    let mut progress = Vec::new();
    let pulled =
        pull(&mut hosted.client(), &description, &target, false, |done, all| progress.push((done, all))).unwrap();
    assert!(pulled.resumed_at > 0 && pulled.received < description.info.occupied_bytes, "{pulled:?}");
    assert_eq!(progress.last(), Some(&(description.info.bytes, description.info.bytes)));
    assert_eq!(hash_of(&target), description.sha256);
    assert_eq!(Sidecar::read(&target).unwrap(), description.sidecar);
    assert!(!hosted.file("a.img.part").exists() && !hosted.file("a.img.part.json").exists());
}

#[test]
fn a_part_of_another_snapshot_is_never_completed_with_this_one() {
    let hosted = Hosted::new();
    let mut client = hosted.filled();
    let first = client.describe(None).unwrap();
    let target = hosted.file("a.img");
    let breaks = |number, chunk| if number > 2 { Err(TransportError::Lost) } else { Ok(chunk) };
    pull(&mut HostClient::new(Meddling(hosted.transport(), 0, breaks)), &first, &target, false, |_, _| {}).unwrap_err();
    client.call("open(10)").unwrap();
    client.create().unwrap();
    let second = client.describe(None).unwrap();
    assert_ne!(first.sha256, second.sha256);
    let pulled = pull(&mut client, &second, &target, false, |_, _| {}).unwrap();
    assert_eq!(pulled.resumed_at, 0);
    assert_eq!(hash_of(&target), second.sha256);
}

#[test]
fn a_snapshot_that_is_replaced_while_it_is_pulled_is_refused() {
    let hosted = Hosted::new();
    let mut client = hosted.filled();
    let description = client.describe(None).unwrap();
    let target = hosted.file("a.img");
    let replaces = |number, chunk| {
        if number == 2 {
            client.call("open(1)").unwrap();
            client.update().unwrap();
        }
        Ok(chunk)
    };
    let mut meddled = HostClient::new(Meddling(hosted.transport(), 0, replaces));
    let refused = pull(&mut meddled, &description, &target, false, |_, _| {}).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "there is no snapshot 1 any more; the last one is 2; nothing of it was kept, pull again"
    );
    assert!(!target.exists() && !hosted.file("a.img.part").exists());
}

#[test]
fn what_was_damaged_on_the_way_is_not_kept() {
    let hosted = Hosted::new();
    let description = hosted.filled().describe(None).unwrap();
    let target = hosted.file("a.img");
    let flips = |number, mut chunk: ImagePart| {
        if number == 2 {
            chunk.bytes[100] ^= 1;
        }
        Ok(chunk)
    };
    let damaged =
        pull(&mut HostClient::new(Meddling(hosted.transport(), 0, flips)), &description, &target, false, |_, _| {});
    assert!(matches!(damaged, Err(PullError::Damaged(_))), "{damaged:?}");
    let overflows = |_, chunk: ImagePart| Ok(ImagePart { zeros: u64::MAX, ..chunk });
    let damaged =
        pull(&mut HostClient::new(Meddling(hosted.transport(), 0, overflows)), &description, &target, false, |_, _| {});
    assert!(matches!(damaged, Err(PullError::Damaged(_))), "{damaged:?}");
    let empty = |_, _| Ok(ImagePart { zeros: 0, bytes: Vec::new() });
    let damaged =
        pull(&mut HostClient::new(Meddling(hosted.transport(), 0, empty)), &description, &target, false, |_, _| {});
    assert!(matches!(damaged, Err(PullError::Damaged(_))), "{damaged:?}");
    assert!(!target.exists() && !hosted.file("a.img.part").exists());
}

#[test]
fn snapshots_are_numbered_and_kept() {
    let hosted = Hosted::new();
    let mut client = hosted.client();
    assert!(client.describe(None).unwrap_err().to_string().contains("no snapshot yet"));
    let mut hashes = Vec::new();
    for number in 1..=3 {
        client.call("open(10)").unwrap();
        assert_eq!(client.create().unwrap().id, number);
        hashes.push(client.describe(Some(number)).unwrap().sha256);
    }
    assert_eq!(client.update().unwrap().id, 4);
    let info = client.info().unwrap();
    assert_eq!((info.snapshots, info.last.unwrap().id, info.calls), (3, 4, 3));
    assert_eq!(client.describe(Some(1)).unwrap().sha256, hashes[0]);
    assert!(client.describe(Some(3)).is_err());
    let name = default_name(&client.describe(None).unwrap());
    assert!(name.starts_with("ledger_20") && name.ends_with("Z.img"), "{name}");
}

#[test]
fn garbage_is_answered_in_a_line_and_others_are_not_disturbed() {
    let hosted = Hosted::new();
    let garbage: [&[u8]; 6] = [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\xff\xff\xff\xffJ",
        b"\x02\0\0\0J[]",
        b"\x03\0\0\0J{x}",
        b"\x02\0\0\0Xab",
        b"\x02\0\0\0Bab",
    ];
    for bytes in garbage {
        let mut connection = UnixStream::connect(hosted.folder.join("socket")).unwrap();
        connection.write_all(bytes).unwrap();
        connection.shutdown(std::net::Shutdown::Write).unwrap();
        let response = HostResponse::from_frame(HostFrame::read(&mut connection).unwrap()).unwrap();
        assert!(matches!(&response, HostResponse::Failed(failed) if !failed.line.contains('\n')), "{response:?}");
    }
    // Cut off in the middle: no client is left to answer.
    let mut connection = UnixStream::connect(hosted.folder.join("socket")).unwrap();
    connection.write_all(b"\x20\0\0\0J{\"ver").unwrap();
    drop(connection);
    assert_eq!(hosted.client().info().unwrap().module, "ledger.wasm");
}
