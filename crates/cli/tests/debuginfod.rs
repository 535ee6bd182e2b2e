//! Debug files from servers: Debian's own, and servers that do not behave.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(missing_docs)]

mod support;

use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use support::{Place, Run};

const PROGRAM: &str = r"
#include <stdlib.h>
__attribute__((noinline)) static void *hidden_maker(int size) { void *volatile block = malloc(size); return block; }
int main(void) { return hidden_maker(4321) == 0; }
";

fn run(program: &str, arguments: &[&str], folder: &Path) -> String {
    let done = Command::new(program).args(arguments).current_dir(folder).output().unwrap();
    assert!(done.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

/// A recording of a stripped program, whose original is in the folder `served`.
struct Scene {
    place: Place,
    build_id: String,
}

impl Scene {
    fn new() -> Self {
        let scene = Self::unrecorded();
        // The C library is left out: it may have debug files of its own.
        let run = scene.highwater("record -o maker.hw -- ./maker", "");
        assert_eq!(run.code, 0, "{}", run.stderr);
        assert_eq!(scene.function("maker.hw"), Value::Null);
        scene
    }

    fn unrecorded() -> Self {
        let place = Place::new();
        place.write("maker.c", PROGRAM);
        fs::create_dir(place.file("served")).unwrap();
        run("cc", &["-O1", "-g", "-Wl,--build-id", "maker.c", "-o", "served/maker"], place.path());
        run("strip", &["-o", "maker", "served/maker"], place.path());
        let notes = run("readelf", &["-n", "maker"], place.path());
        let build_id = notes.lines().find_map(|line| line.trim().strip_prefix("Build ID: ")).unwrap().to_owned();
        Self { place, build_id }
    }

    /// Runs the command with caches of its own. `urls` is the value of `DEBUGINFOD_URLS`.
    fn highwater(&self, line: &str, urls: &str) -> Run {
        Run::of(self.command(line, urls).stdin(Stdio::null()).output().unwrap())
    }

    fn command(&self, line: &str, urls: &str) -> Command {
        let mut command = self.place.command(line.split_whitespace());
        command.env("XDG_CACHE_HOME", self.place.file("cache")).env("DEBUGINFOD_TIMEOUT", "1");
        command.env_remove("DEBUGINFOD_CACHE_PATH");
        match urls {
            "" => command.env_remove("DEBUGINFOD_URLS"),
            urls => command.env("DEBUGINFOD_URLS", urls),
        };
        command
    }

    fn symbolize(&self, urls: &str) -> Run {
        let run = self.highwater("symbolize maker.hw -o named.hw --force", urls);
        assert_eq!(run.code, 0, "{}", run.stderr);
        run
    }

    fn frame(&self, file: &str) -> Value {
        let report = self.place.json(&format!("report {file}"));
        let sites = report["sites"].as_array().unwrap();
        let site = sites.iter().find(|site| site["live_bytes"] == 4321).expect("the block is there");
        site["stack"][0].clone()
    }

    fn function(&self, file: &str) -> Value {
        self.frame(file)["function"].clone()
    }

    fn assert_named(&self, file: &str) {
        let frame = self.frame(file);
        assert_eq!((&frame["function"], &frame["line"]), (&"hidden_maker".into(), &3.into()));
    }

    /// The file of the shared folder of downloads.
    fn downloaded(&self, kind: &str) -> PathBuf {
        self.place.file("cache/debuginfod_client").join(&self.build_id).join(kind)
    }
}

/// Debian's server, with the files of a folder.
struct RealServer {
    server: Child,
    url: String,
    log: PathBuf,
}

impl RealServer {
    fn of(scene: &Scene, folder: &str) -> Self {
        // A port that is free now.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let log = scene.place.file("server.log");
        let server = Command::new("debuginfod")
            .args(["-v", "-p", &port.to_string(), "-d", ":memory:", "-F", folder])
            .current_dir(scene.place.path())
            .stdout(fs::File::create(&log).unwrap())
            .stderr(fs::File::options().append(true).open(&log).unwrap())
            .spawn()
            .expect("Debian's debuginfod is installed");
        let server = Self { server, url: format!("http://127.0.0.1:{port}"), log };
        let until = Instant::now() + Duration::from_secs(30);
        while !server.get("/metrics").contains("thread_work_total{role=\"traverse\"} 1") {
            assert!(Instant::now() < until, "the server has not read its folder: {}", server.log());
            std::thread::sleep(Duration::from_millis(50));
        }
        server
    }

    /// The response to a request of ours.
    fn get(&self, path: &str) -> String {
        let mut response = String::new();
        if let Ok(mut stream) = TcpStream::connect(self.url.strip_prefix("http://").unwrap()) {
            let _ = write!(stream, "GET {path} HTTP/1.0\r\n\r\n")
                .and_then(|()| stream.read_to_string(&mut response).map(drop));
        }
        response
    }

    fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    /// How often files were asked for.
    fn requests(&self) -> usize {
        self.log().matches("GET /buildid/").count()
    }
}

impl Drop for RealServer {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

#[test]
fn a_stripped_program_gets_names_and_lines_from_a_server_that_is_asked_once() {
    let scene = Scene::new();
    let server = RealServer::of(&scene, "served");
    scene.symbolize("");
    assert_eq!((server.requests(), scene.function("named.hw")), (0, Value::Null));
    let run = scene.highwater("symbolize maker.hw -o named.hw --force --no-debuginfod", &server.url);
    assert_eq!((run.code, server.requests(), run.stderr.as_str()), (0, 0, ""));

    let run = scene.symbolize(&server.url);
    scene.assert_named("named.hw");
    let told = [scene.place.file("maker").display().to_string(), server.url.clone(), "KiB downloaded".to_owned()];
    assert!(told.iter().all(|text| run.stderr.contains(text)), "{}", run.stderr);
    let asked = server.requests();
    assert!(server.log().contains(&format!("GET /buildid/{}/debuginfo 200", scene.build_id)), "{}", server.log());

    // Even with the names that were kept gone.
    fs::remove_dir_all(scene.place.file("cache/highwater/names")).unwrap();
    assert_eq!(scene.symbolize(&server.url).stderr, "");
    scene.assert_named("named.hw");
    assert_eq!(server.requests(), asked);
}

#[test]
fn record_finds_the_names_itself() {
    let scene = Scene::unrecorded();
    let server = RealServer::of(&scene, "served");
    let run = scene.highwater(&format!("record -o maker.hw --debuginfod {} -- ./maker", server.url), "");
    assert_eq!(run.code, 0, "{}", run.stderr);
    scene.assert_named("maker.hw");
}

#[test]
fn a_program_that_is_gone_is_found_on_the_server() {
    let scene = Scene::new();
    let server = RealServer::of(&scene, "served");
    fs::remove_file(scene.place.file("maker")).unwrap();
    scene.symbolize(&server.url);
    scene.assert_named("named.hw");
}

#[test]
fn elfutils_and_we_use_what_the_other_has_downloaded() {
    let scene = Scene::new();
    let server = RealServer::of(&scene, "served");
    let find = |build_id: &str| {
        let mut find = Command::new("debuginfod-find");
        find.args(["debuginfo", build_id]).env("DEBUGINFOD_URLS", &server.url);
        find.env("XDG_CACHE_HOME", scene.place.file("cache")).env_remove("DEBUGINFOD_CACHE_PATH");
        find.output().expect("Debian's debuginfod-find is installed")
    };
    scene.symbolize(&server.url);
    let ours = server.requests();
    let found = find(&scene.build_id);
    assert_eq!(String::from_utf8_lossy(&found.stdout).trim(), scene.downloaded("debuginfo").to_str().unwrap());
    assert_eq!(server.requests(), ours);

    // The other way round: the same file with the same rights.
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
    let ours_mode = mode(&scene.downloaded("debuginfo"));
    fs::remove_dir_all(scene.place.file("cache")).unwrap();
    assert!(find(&scene.build_id).status.success());
    assert_eq!(mode(&scene.downloaded("debuginfo")), ours_mode);
    let theirs = server.requests();
    scene.symbolize(&server.url);
    scene.assert_named("named.hw");
    let asked_again = server.log().lines().filter(|line| line.contains(&scene.build_id)).count();
    assert_eq!(asked_again, 2, "{}", server.log());
    assert!(server.requests() >= theirs);
}

#[test]
fn what_no_server_has_is_remembered_for_a_while_by_both() {
    let scene = Scene::new();
    fs::create_dir(scene.place.file("empty")).unwrap();
    let server = RealServer::of(&scene, "empty");
    let asked = || server.log().matches(&format!("{}/debuginfo 404", scene.build_id)).count();
    for _ in 0..2 {
        let run = scene.symbolize(&server.url);
        assert_eq!((asked(), run.stderr.as_str(), scene.function("named.hw")), (1, "", Value::Null));
    }
    // An empty file, as elfutils writes it.
    let absence = scene.downloaded("debuginfo");
    assert_eq!(fs::metadata(&absence).unwrap().len(), 0);
    let mut find = Command::new("debuginfod-find");
    find.args(["debuginfo", &scene.build_id]).env("DEBUGINFOD_URLS", &server.url);
    assert!(!find.env("XDG_CACHE_HOME", scene.place.file("cache")).output().unwrap().status.success());
    assert_eq!(asked(), 1);

    // After ten minutes it is asked for again, and found on a server that has it now.
    drop(server);
    let file = fs::File::options().write(true).open(&absence).unwrap();
    file.set_modified(std::time::SystemTime::now() - Duration::from_secs(601)).unwrap();
    let server = RealServer::of(&scene, "served");
    scene.symbolize(&server.url);
    scene.assert_named("named.hw");
}

/// A server of the test's own: what it does with each connection.
struct OwnServer {
    url: String,
    requests: Arc<AtomicUsize>,
}

impl OwnServer {
    fn new(serve: impl Fn(&str, TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&requests);
        std::thread::spawn(move || {
            let serve = Arc::new(serve);
            for stream in listener.incoming().flatten() {
                let (serve, count) = (Arc::clone(&serve), Arc::clone(&count));
                std::thread::spawn(move || {
                    let mut head = BufReader::new(stream.try_clone().unwrap());
                    let mut first = String::new();
                    let _ = head.read_line(&mut first);
                    let mut line = String::new();
                    while head.read_line(&mut line).is_ok_and(|count| count > 2) {
                        line.clear();
                    }
                    count.fetch_add(1, Ordering::SeqCst);
                    serve(first.split(' ').nth(1).unwrap_or_default(), stream);
                });
            }
        });
        Self { url, requests }
    }

    fn sending(response: Vec<u8>) -> Self {
        Self::new(move |_, mut stream| drop(stream.write_all(&response)))
    }
}

fn response(fields: &str, body: &[u8]) -> Vec<u8> {
    [format!("HTTP/1.1 200 OK\r\n{fields}\r\n").as_bytes(), body].concat()
}

/// The server's file is not used, the reason is said in one line, and nothing stays in the folder of downloads.
fn assert_refused(scene: &Scene, server: &OwnServer, reason: &str) {
    let run = scene.symbolize(&server.url);
    assert_eq!(scene.function("named.hw"), Value::Null, "{reason}");
    let about = format!("warning: no debug information of {}", scene.place.file("maker").display());
    let lines: Vec<&str> = run.stderr.lines().filter(|line| line.contains(&about)).collect();
    assert_eq!(lines.len(), 1, "{}", run.stderr);
    assert!(lines[0].contains(reason) && lines[0].contains(&server.url), "{}", lines[0]);
    assert!(!scene.downloaded("debuginfo").parent().unwrap().exists(), "{reason}");
    assert!(server.requests.load(Ordering::SeqCst) <= 5);
}

#[test]
fn a_server_that_does_not_answer_as_it_should_is_harmless() {
    let scene = Scene::new();
    let whole = fs::read(scene.place.file("served/maker")).unwrap();
    let length = format!("Content-Length: {}\r\n", whole.len());

    // It never answers, or a byte at a time: a second in all, whatever the number of modules.
    let silent = OwnServer::new(|_, stream| {
        std::thread::sleep(Duration::from_secs(300));
        drop(stream);
    });
    assert_refused(&scene, &silent, "less than 100 KB in 1 seconds");
    assert_eq!(silent.requests.load(Ordering::SeqCst), 1);
    let slow = OwnServer::new(|_, mut stream| {
        let _ = stream.write_all(&response("Content-Length: 100000\r\n", b""));
        while stream.write_all(b"x").is_ok() {
            std::thread::sleep(Duration::from_millis(100));
        }
    });
    assert_refused(&scene, &slow, "less than 100 KB in 1 seconds");
    let closed = OwnServer { url: "http://127.0.0.1:1".to_owned(), requests: Arc::default() };
    assert_refused(&scene, &closed, "refused");

    assert_refused(&scene, &OwnServer::sending(b"\x00\xff garbage \r\n\r\n".to_vec()), "does not speak HTTP");
    assert_refused(
        &scene,
        &OwnServer::sending(b"HTTP/1.1 200 OK\r\n".repeat(10_000)),
        "head of its response is too long",
    );
    assert_refused(&scene, &OwnServer::sending(response(&length, &whole[..1000])), "ended early");
    assert_refused(&scene, &OwnServer::sending(response(&length, &vec![0; whole.len()])), "a file of another build");
    assert_refused(&scene, &OwnServer::sending(response("", b"")), "a file of another build");
    let busy = OwnServer::sending(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n".to_vec());
    assert_refused(&scene, &busy, "status 503");
    let circle = OwnServer::sending(b"HTTP/1.1 302 Found\r\nLocation: /round/and/round\r\n\r\n".to_vec());
    assert_refused(&scene, &circle, "redirects more than 4 times");
    let local = OwnServer::sending(b"HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\n\r\n".to_vec());
    assert_refused(&scene, &local, "file:///etc/passwd");
}

#[test]
fn a_file_of_another_build_is_not_used() {
    let scene = Scene::new();
    scene.place.write("maker.c", PROGRAM.replace("hidden_maker", "something_else"));
    run("cc", &["-O1", "-g", "-Wl,--build-id", "maker.c", "-o", "other"], scene.place.path());
    let other = fs::read(scene.place.file("other")).unwrap();
    assert_refused(&scene, &OwnServer::sending(response("", &other)), "a file of another build");
}

#[test]
fn an_endless_file_ends_at_the_limit() {
    let scene = Scene::new();
    let endless = OwnServer::new(|_, mut stream| {
        let _ = stream.write_all(&response("Transfer-Encoding: chunked\r\n", b""));
        let chunk = [b"10000\r\n".as_slice(), &[0; 0x10000], b"\r\n"].concat();
        while stream.write_all(&chunk).is_ok() {}
    });
    let line = "symbolize maker.hw -o named.hw --force";
    let done = scene.command(line, &endless.url).env("DEBUGINFOD_MAXSIZE", "5000000").output().unwrap();
    let run = Run::of(done);
    assert!(run.code == 0 && run.stderr.contains("more than 5000000 bytes"), "{}", run.stderr);
    assert!(!scene.downloaded("debuginfo").exists());
}

#[test]
fn files_are_read_in_every_form_that_http_has() {
    let scene = Scene::new();
    let whole = fs::read(scene.place.file("served/maker")).unwrap();
    let chunks = |size: usize| {
        let mut body = Vec::new();
        for chunk in whole.chunks(size) {
            body.extend(format!("{:x}\r\n", chunk.len()).bytes());
            body.extend(chunk);
            body.extend(b"\r\n");
        }
        [body.as_slice(), b"0\r\n\r\n"].concat()
    };
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&whole).unwrap();
    let gzip = gzip.finish().unwrap();
    let forms = [
        response("", &whole),
        response("Transfer-Encoding: chunked\r\n", &chunks(1000)),
        response(&format!("Content-Encoding: gzip\r\nContent-Length: {}\r\n", gzip.len()), &gzip),
    ];
    for form in forms {
        let served = OwnServer::new(move |path, mut stream| {
            let redirect = b"HTTP/1.1 301 Moved\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n";
            let _ = stream.write_all(if path == "/elsewhere" { &form } else { redirect });
        });
        // The second server is asked because the first one is not there.
        scene.symbolize(&format!("http://127.0.0.1:1 {}", served.url));
        scene.assert_named("named.hw");
        fs::remove_dir_all(scene.place.file("cache")).unwrap();
    }
}

#[test]
fn an_encrypted_server_is_asked_through_curl_if_its_certificate_is_right() {
    let scene = Scene::new();
    let subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"];
    let key = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "key.pem", "-out", "cert.pem", "-days", "2"];
    run("openssl", &[key.as_slice(), &subject].concat(), scene.place.path());
    let folder = scene.place.file("served/buildid").join(&scene.build_id);
    fs::create_dir_all(&folder).unwrap();
    fs::copy(scene.place.file("served/maker"), folder.join("debuginfo")).unwrap();
    let script = "
import http.server, ssl, sys
server = http.server.HTTPServer(('127.0.0.1', 0), http.server.SimpleHTTPRequestHandler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain('../cert.pem', '../key.pem')
server.socket = context.wrap_socket(server.socket, server_side=True)
print(server.server_port, flush=True)
server.serve_forever()
";
    let mut server = Command::new("python3")
        .args(["-c", script])
        .current_dir(scene.place.file("served"))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut port = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut port).unwrap();
    let url = format!("https://localhost:{}", port.trim());
    let refused = scene.symbolize(&url);
    let refused_name = scene.function("named.hw");
    let line = "symbolize maker.hw -o named.hw --force";
    let done = scene.command(line, &url).env("CURL_CA_BUNDLE", scene.place.file("cert.pem")).output().unwrap();
    server.kill().unwrap();
    server.wait().unwrap();
    assert!(refused.stderr.contains("certificate"), "{}", refused.stderr);
    assert_eq!(refused_name, Value::Null);
    let run = Run::of(done);
    assert!(run.stderr.contains("KiB downloaded"), "{}", run.stderr);
    scene.assert_named("named.hw");
}

#[test]
fn a_word_that_is_no_server_is_a_mistake() {
    let place = Place::new();
    let run = place.highwater("symbolize maker.hw --debuginfod ftp://host");
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("http:// or https://"), "{}", run.stderr);
}
