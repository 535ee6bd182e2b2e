//! A standalone Spark cluster on this machine: a master and two workers, each a process of its own, on ports that the system chooses.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The Python that `./test` installs, with pyspark.
pub fn python() -> PathBuf {
    let python = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("tools/python/bin/python");
    let folder = python.parent().unwrap().parent().unwrap().parent().unwrap();
    assert!(python.exists(), "no {}: run crates/fleet/tools {}", python.display(), folder.display());
    python
}

/// Waits until something is there. Panics after two minutes.
pub fn wait_for<T>(what: &str, mut ready: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(120);
    loop {
        if let Some(found) = ready() {
            return found;
        }
        assert!(Instant::now() < deadline, "waited two minutes for {what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// The body of a GET request to this machine, if the answer is complete.
pub fn get(address: &str, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(20))).ok()?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n").ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    head.split_whitespace().nth(1).filter(|status| *status == "200")?;
    Some(body.to_owned())
}

/// A process of the cluster, killed when it is dropped.
struct Daemon {
    child: Child,
    log: PathBuf,
}

impl Daemon {
    fn start(folder: &Path, name: &str, class: &str, arguments: &[&str]) -> Self {
        // bin/python ─▶ lib/python3.X/site-packages/pyspark
        let libraries = python().parent().unwrap().parent().unwrap().join("lib");
        let mut versions = std::fs::read_dir(&libraries).unwrap().map(|entry| entry.unwrap().path());
        let home =
            versions.find_map(|version| Some(version.join("site-packages/pyspark")).filter(|path| path.exists()));
        let home = home.unwrap_or_else(|| panic!("no pyspark in {}", libraries.display()));
        let log = folder.join(format!("{name}.log"));
        let mut command = Command::new(home.join("bin/spark-class"));
        command.arg(class).args(arguments);
        command.env("SPARK_HOME", &home).env("SPARK_LOCAL_IP", "127.0.0.1").env("SPARK_DAEMON_MEMORY", "256m");
        command.env("SPARK_LOCAL_DIRS", folder.join("local")).env("SPARK_WORKER_DIR", folder.join("work"));
        command.env_remove("SPARK_CONF_DIR").current_dir(folder);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&log).unwrap());
        Self { child: command.spawn().unwrap(), log }
    }

    /// What follows a text in the log, up to the next space, once it is there.
    fn logged(&mut self, text: &str) -> String {
        let log = self.log.clone();
        wait_for(&format!("'{text}' in {}", log.display()), || {
            let said = std::fs::read_to_string(&log).unwrap();
            if let Some(status) = self.child.try_wait().unwrap() {
                panic!("Spark ended with {status}:\n{said}");
            }
            let (_, rest) = said.split_once(text)?;
            Some(rest.split_once('\n')?.0.split_whitespace().next().unwrap_or_default().to_owned())
        })
    }

    fn kill(&mut self) {
        // SIGKILL. It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The cluster. Its processes end with it.
pub struct Cluster {
    workers: Vec<Daemon>,
    started: u32,
    _master: Daemon,
    /// `spark://127.0.0.1:PORT`.
    pub address: String,
    /// Host and port of the master's page.
    page: String,
}

impl Cluster {
    /// A master and two workers of one core each, ready.
    pub fn start(folder: &Path) -> Self {
        let arguments = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"];
        let mut master = Daemon::start(folder, "master", "org.apache.spark.deploy.master.Master", &arguments);
        let address = master.logged("Starting Spark master at ");
        let page = master.logged("and started at http://");
        let page = page.trim_end_matches('/').to_owned();
        let mut cluster = Self { workers: Vec::new(), started: 0, _master: master, address, page };
        cluster.replace_killed_workers(folder);
        cluster
    }

    /// Starts workers until there are two, ready.
    pub fn replace_killed_workers(&mut self, folder: &Path) {
        let arguments = ["--host", "127.0.0.1", "--cores", "1", "--memory", "1g", "--webui-port", "0", &self.address];
        let kept = self.workers.len();
        while self.workers.len() < 2 {
            self.started += 1;
            let name = format!("worker-{}", self.started);
            self.workers.push(Daemon::start(folder, &name, "org.apache.spark.deploy.worker.Worker", &arguments));
        }
        for worker in &mut self.workers[kept..] {
            worker.logged("Successfully registered with master ");
        }
    }

    /// The number of executors of the running application that have done some tasks and are doing another. `None` if there is none yet.
    pub fn busy_executors(&self) -> Option<usize> {
        let state: serde_json::Value = serde_json::from_str(&get(&self.page, "/json/")?).ok()?;
        let application = state["activeapps"][0]["id"].as_str()?.to_owned();
        // The master's page of an application links its own, whose port the system chose.
        let page = get(&self.page, &format!("/app/?appId={application}"))?;
        let (before, _) = page.split_once("Application Detail UI")?;
        let (_, link) = before.rsplit_once("http://")?;
        let address = link.split(['"', '/', '>']).next()?;
        let executors = get(address, &format!("/api/v1/applications/{application}/executors"))?;
        let executors: serde_json::Value = serde_json::from_str(&executors).ok()?;
        let number = |executor: &serde_json::Value, field: &str| executor[field].as_u64().unwrap_or(0);
        let is_busy = |executor: &&serde_json::Value| {
            executor["id"] != "driver" && number(executor, "activeTasks") > 0 && number(executor, "completedTasks") > 20
        };
        Some(executors.as_array()?.iter().filter(is_busy).count())
    }

    /// Kills a worker with SIGKILL; its executor ends with it.
    pub fn kill_worker(&mut self) {
        self.workers.remove(0).kill();
    }
}
