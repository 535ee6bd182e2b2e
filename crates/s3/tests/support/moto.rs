//! The S3 server of moto, which knows nothing of ours. Tests of other crates start it, too.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Any name and no signature: the server checks neither.
const ANY_NAME: &str = "Authorization: AWS4-HMAC-SHA256 Credential=a/20261118/us-east-1/s3/aws4_request";

/// A running server with the bucket `lakes`. It ends with its standard input, so with the test.
pub struct Moto {
    child: Child,
    pub address: SocketAddr,
    pub id: String,
    pub secret: String,
    log: PathBuf,
    /// The requests of the script that started it.
    preparations: usize,
}

impl Moto {
    /// A server that takes any credentials.
    pub fn start() -> Self {
        Self::with(&[])
    }

    /// A server that checks signatures and policies.
    pub fn checked() -> Self {
        Self::with(&["checked"])
    }

    fn with(arguments: &[&str]) -> Self {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
        let python = target.join("tools/python/bin/python");
        assert!(python.is_file(), "{} is missing: run 'crates/fleet/tools {0}/tools'", target.display());
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../s3/tests/support/server.py");
        let log = target.join("tmp").join(format!("moto-{}-{:?}.log", std::process::id(), std::thread::current().id()));
        let mut command = Command::new(python);
        command.arg(script).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        command.env("NO_PROXY", "127.0.0.1").stderr(File::create(&log).unwrap());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let said: serde_json::Value = serde_json::from_str(&line).expect("the server starts");
        let text = |name: &str| said[name].as_str().unwrap().to_owned();
        let address = format!("127.0.0.1:{}", said["port"]).parse().unwrap();
        let mut started = Self { child, address, id: text("id"), secret: text("secret"), log, preparations: 0 };
        started.preparations = started.requests().len();
        started
    }

    /// The requests so far, as the server saw them: `PUT /lakes/a/b`.
    pub fn requests(&self) -> Vec<String> {
        let log = fs::read_to_string(&self.log).unwrap();
        let requests = log.lines().filter_map(|line| Some(line.split('"').nth(1)?.split_once(" HTTP/1.1")?.0));
        requests.skip(self.preparations).map(str::to_owned).collect()
    }

    /// The body of a plain request, without our program.
    pub fn get(&self, path: &str) -> Vec<u8> {
        let mut connection = TcpStream::connect(self.address).unwrap();
        write!(connection, "GET {path} HTTP/1.0\r\nHost: {}\r\n{ANY_NAME}\r\n\r\n", self.address).unwrap();
        let mut answer = Vec::new();
        connection.read_to_end(&mut answer).unwrap();
        let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap();
        answer.split_off(end + 4)
    }

    /// Puts a file by a plain request, without our program. The path is percent-encoded already.
    pub fn put(&self, path: &str, content: &[u8]) {
        let mut connection = TcpStream::connect(self.address).unwrap();
        let (name, length) = (ANY_NAME, content.len());
        write!(
            connection,
            "PUT {path} HTTP/1.0\r\nHost: {}\r\n{name}\r\nContent-Length: {length}\r\n\r\n",
            self.address
        )
        .unwrap();
        connection.write_all(content).unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).unwrap();
        assert!(answer.lines().next().unwrap().contains(" 200 "), "{answer}");
    }

    /// Copies the files of a folder into the bucket.
    pub fn put_folder(&self, folder: &Path, prefix: &str) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let key = format!("{prefix}/{}", path.file_name().unwrap().to_str().unwrap());
            if path.is_dir() {
                self.put_folder(&path, &key);
                continue;
            }
            let encoded = |byte: u8| match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'/' => (byte as char).to_string(),
                other => format!("%{other:02X}"),
            };
            let key: String = key.bytes().map(encoded).collect();
            self.put(&format!("/{key}"), &fs::read(&path).unwrap());
        }
    }

    /// How many uploads the server keeps open.
    pub fn open_uploads(&self) -> usize {
        String::from_utf8(self.get("/lakes?uploads")).unwrap().matches("<UploadId>").count()
    }
}

impl Drop for Moto {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_file(&self.log);
    }
}
