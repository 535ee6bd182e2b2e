//! Starts and ends of programs, of collectors, and of both.

mod support;

use std::process::Command;
use support::live::{Collector, Holder, wait_for};
use support::{HIGHWATER, programs};

fn state_of(collector: &Collector, pid: u32) -> String {
    collector.process(pid)["state"].as_str().unwrap_or("none").to_owned()
}

#[test]
fn after_its_death_a_program_still_tells() {
    let collector = Collector::new();
    let mut holder = collector.holder(&[]);
    holder.tell("churn 2");
    holder.tell("keep 1234 10");
    let pid = holder.pid;
    holder.kill();
    wait_for("the end to be seen", || state_of(&collector, pid) == "exited");
    assert_eq!(collector.function(pid, "keep_blocks"), (1234, 12_340));
    let shown = collector.highwater(&format!("snapshot --pid {pid}")).succeeded();
    assert!(shown.stderr_text().contains("exited"), "{}", shown.stderr_text());
}

#[test]
fn exited_programs_are_kept_up_to_a_limit() {
    let collector = Collector::with(&["--keep-exited", "3"]);
    let pids: Vec<u32> = (0..6)
        .map(|_| {
            let mut holder = collector.holder(&[]);
            holder.tell("keep 10 10");
            holder.kill();
            holder.pid
        })
        .collect();
    wait_for("the oldest to go", || {
        let states: Vec<String> = pids.iter().map(|&pid| state_of(&collector, pid)).collect();
        states == ["none", "none", "none", "exited", "exited", "exited"]
    });
    let gone = collector.highwater(&format!("snapshot --pid {}", pids[0]));
    assert_eq!(gone.shell_status(), 1);
    assert!(gone.stderr_text().contains(&format!("there is no process {}", pids[0])), "{}", gone.stderr_text());
}

#[test]
fn a_program_that_is_older_than_its_collector_is_found() {
    let mut collector = Collector::new();
    collector.child.kill().unwrap();
    collector.child.wait().unwrap();
    // The program is started without a collector: the variable alone makes it live.
    let mut command = collector.command(["run", "-q", "--", programs::c("holder").to_str().unwrap()]);
    // A collector cannot start if a directory is in the way of its socket.
    let socket = collector.socket();
    let _ = std::fs::remove_file(&socket);
    std::fs::create_dir(&socket).unwrap();
    command.stderr(std::process::Stdio::piped());
    let mut holder = Holder::start(command);
    holder.tell("keep 77 10");
    std::fs::remove_dir(&socket).unwrap();
    collector.restart();
    assert_eq!(collector.function(holder.pid, "keep_blocks"), (77, 770));
    assert_eq!(holder.tell("snapshot found"), "0");
}

#[test]
fn a_collector_that_restarts_gets_its_programs_back_with_all_they_hold() {
    let mut collector = Collector::new();
    let mut holders: Vec<Holder> = (0..3).map(|_| collector.holder(&[])).collect();
    for (at, holder) in holders.iter_mut().enumerate() {
        holder.tell(&format!("keep {} 10", 100 + at));
    }
    for _ in 0..3 {
        collector.restart();
        for (at, holder) in holders.iter_mut().enumerate() {
            assert_eq!(collector.function(holder.pid, "keep_blocks").0, 100 + at as u64);
        }
    }
    holders[1].tell("drop 50");
    assert_eq!(collector.function(holders[1].pid, "keep_blocks"), (51, 510));
}

#[test]
fn a_collector_killed_in_a_snapshot_hurts_nobody() {
    let mut collector = Collector::new();
    let mut holder = collector.holder(&[]);
    holder.tell("keep 2000000 16");
    holder.tell("churn 2");
    let pid = holder.pid;
    for round in 0..8u64 {
        let mut asking = collector.command(["snapshot", "--pid", &pid.to_string()]);
        let mut asking =
            asking.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(5 + round * 7));
        collector.restart();
        assert!(!asking.wait().unwrap().success() || round > 0);
        // The program continues, and the next collector reads it.
        assert_eq!(holder.holds("keep 1 16").0, 2_000_001 + round);
        assert_eq!(collector.function(pid, "keep_blocks").0, 2_000_001 + round);
    }
    // The memory reserved for the unfinished snapshots is released: the table does not grow.
    let table = |collector: &Collector| collector.process(pid)["table_bytes"].as_u64().unwrap();
    let before = table(&collector);
    holder.tell("drop 1000000");
    holder.tell("keep 1000000 16");
    assert!(table(&collector) < before + before / 8, "{before} {}", table(&collector));
}

#[test]
fn a_forked_child_has_a_table_of_its_own() {
    let collector = Collector::new();
    let mut holder = collector.holder(&[]);
    let parent = holder.pid;
    holder.tell("keep 100 10");
    let child = holder.fork();
    holder.tell("keep 7 10");
    assert_eq!(collector.function(child, "keep_blocks"), (7, 70));
    assert_eq!(collector.function(parent, "keep_blocks"), (100, 1000));
    assert_eq!(collector.process(child)["forked_from"], parent);
    assert_eq!(holder.tell("exit 0"), "back");
    wait_for("the child's end", || state_of(&collector, child) == "exited");
    holder.tell("drop 50");
    assert_eq!(collector.function(parent, "keep_blocks"), (50, 500));
}

#[test]
fn another_program_in_the_same_process_is_another_entry() {
    let collector = Collector::new();
    let mut holder = collector.holder(&[]);
    let pid = holder.pid;
    holder.tell("keep 100 10");
    // It execs itself: a new program under the same process number.
    let path = programs::c("holder");
    assert_eq!(holder.tell(&format!("exec {}", path.display())), format!("pid {pid}"));
    holder.tell("keep 5 10");
    assert_eq!(collector.function(pid, "keep_blocks"), (5, 50));
    // Execs a program that is not live: the entry of the first one has ended.
    let mut holder = collector.holder(&["--no-children"]);
    let pid = holder.pid;
    holder.tell("keep 100 10");
    assert_eq!(state_of(&collector, pid), "live");
    assert_eq!(holder.tell(&format!("exec {}", path.display())), format!("pid {pid}"));
    wait_for("the exec to be seen", || state_of(&collector, pid) == "exited");
}

#[test]
fn a_program_that_closes_everything_stays_live() {
    let collector = Collector::new();
    let mut holder = collector.holder(&[]);
    holder.tell("keep 100 10");
    holder.tell("closeall");
    holder.tell("keep 100 10");
    assert_eq!(collector.function(holder.pid, "keep_blocks"), (200, 2000));
    // A child must not close files that the program has opened since at those descriptor numbers.
    let child = holder.fork();
    holder.tell("keep 3 10");
    assert_eq!(collector.function(child, "keep_blocks"), (3, 30));
}

#[test]
fn named_snapshots_are_kept_listed_fetched_and_removed() {
    let mut collector = Collector::with(&["--keep", "3"]);
    let mut holder = collector.holder(&[]);
    for number in 1..=5 {
        holder.tell("keep 100 10");
        assert_eq!(holder.tell(&format!("snapshot after load {number}")), "0");
    }
    let names = |collector: &Collector| -> Vec<String> {
        let kept = collector.json("snapshots list");
        let names = kept["snapshots"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap().to_owned());
        names.collect()
    };
    wait_for("the last to be written", || names(&collector).contains(&"after load 5".to_owned()));
    assert_eq!(names(&collector), ["after load 3", "after load 4", "after load 5"]);
    let kept = collector.json("snapshots list");
    let id = kept["snapshots"][0]["id"].as_u64().unwrap();
    collector.highwater(&format!("snapshots get {id} -o third.hw")).succeeded();
    let report = collector.json("report third.hw --by function --top 0");
    assert_eq!(support::live::function_in(&report, "keep_blocks"), (300, 3000));
    // The snapshots outlive the program and the collector.
    holder.kill();
    collector.restart();
    assert_eq!(names(&collector).len(), 3);
    collector.highwater(&format!("snapshots rm {id}")).succeeded();
    assert_eq!(names(&collector).len(), 2);
    collector.highwater("snapshots rm --all").succeeded();
    assert_eq!(names(&collector).len(), 0);
}

#[test]
fn without_a_collector_a_named_snapshot_fails_and_figures_do_not() {
    let mut collector = Collector::new();
    let mut holder = collector.holder(&[]);
    collector.child.kill().unwrap();
    collector.child.wait().unwrap();
    const NOT_CONNECTED: &str = "107";
    assert_eq!(holder.tell("snapshot nobody"), NOT_CONNECTED);
    let numbers = |text: String| -> Vec<u64> { text.split(' ').map(|number| number.parse().unwrap()).collect() };
    let before = numbers(holder.tell("stats"));
    holder.tell("keep 1000 100");
    holder.tell("drop 400");
    let after = numbers(holder.tell("stats"));
    assert_eq!((before[0], after[0]), (0, 0));
    let change: Vec<u64> = after.iter().zip(&before).map(|(after, before)| after - before).collect();
    assert_eq!(change, [0, 1000, 100_000, 400, 40_000]);
}

#[test]
fn one_clear_line_for_everything_that_can_be_wrong() {
    let collector = Collector::new();
    let line = |arguments: &str| {
        let ended = collector.highwater(arguments);
        assert_eq!(ended.shell_status(), 1, "{arguments}");
        let text = ended.stderr_text();
        assert_eq!(text.lines().count(), 1, "{arguments}: {text}");
        text
    };
    assert!(line("snapshot --pid 4194303").contains("there is no process 4194303"));
    let own = format!("snapshot --pid {}", std::process::id());
    assert!(line(&own).contains("highwater run") && line(&own).contains("highwater attach"));
    assert!(line("snapshot --name nothing-like-it").contains("nothing-like-it"));
    let first = collector.holder(&[]);
    let second = collector.holder(&[]);
    let several = line("snapshot --name holder");
    assert!(several.contains(&first.pid.to_string()) && several.contains(&second.pid.to_string()), "{several}");
    let in_use = line(&format!("collector --socket {}", collector.socket().display()));
    assert!(in_use.contains("already"), "{in_use}");
    let nobody = Command::new(HIGHWATER).args(["ps", "--socket", "/tmp/highwater-no-such.sock"]).output().unwrap();
    assert_eq!(nobody.status.code(), Some(1));
    let text = String::from_utf8_lossy(&nobody.stderr).into_owned();
    assert!(text.contains("no collector listens at /tmp/highwater-no-such.sock"), "{text}");
    // A file that is not a socket is not replaced.
    let file = collector.place.write("file", "mine");
    let taken = line(&format!("collector --socket {}", file.display()));
    assert!(taken.contains("not a socket"), "{taken}");
    assert_eq!(std::fs::read_to_string(file).unwrap(), "mine");
}

#[test]
fn the_socket_is_its_owners_alone() {
    use std::os::unix::fs::{FileTypeExt, PermissionsExt};
    let collector = Collector::new();
    let about = std::fs::metadata(collector.socket()).unwrap();
    assert!(about.file_type().is_socket());
    assert_eq!(about.permissions().mode() & 0o777, 0o600);
    let id = Command::new("id").arg("-u").output().unwrap();
    if String::from_utf8_lossy(&id.stdout).trim() == "0" {
        // Another user is refused even if the file's mode would allow the connection.
        std::fs::set_permissions(collector.socket(), std::fs::Permissions::from_mode(0o666)).unwrap();
        let stranger = Command::new("setpriv")
            .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--", "/usr/bin/python3", "-c"])
            .arg(
                "import socket,sys\ns=socket.socket(socket.AF_UNIX,socket.SOCK_SEQPACKET)\ns.connect(sys.argv[1])\n\
                 try:\n    s.send(b'{\"version\":1,\"request\":\"processes\"}')\n    print(len(s.recv(100)))\n\
                 except OSError:\n    print(0)",
            )
            .arg(collector.socket())
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&stranger.stdout).trim(), "0", "{stranger:?}");
    }
}

#[test]
fn a_collector_that_is_started_on_the_way_keeps_nothing_of_its_starter() {
    let collector = Collector::new();
    let socket = std::env::temp_dir().join(format!("highwater-started-{}.sock", std::process::id()));
    // The reader of this pipe sees its end when the program ends, though the collector continues.
    let line = format!("{HIGHWATER} run -q -- true 7>&1");
    let mut shell = Command::new("sh");
    shell.args(["-c", &line]).env("HIGHWATER_SOCKET", &socket).current_dir(collector.place.path());
    let ended = shell.env("HOME", collector.place.path()).output().unwrap();
    assert!(ended.status.success(), "{ended:?}");
    let status = Command::new(HIGHWATER).args(["ps", "--socket"]).arg(&socket).output().unwrap();
    assert!(status.status.success(), "it goes on: {status:?}");
    let pid = std::fs::read_to_string(socket.with_extension("sock.lock")).unwrap();
    let files = std::fs::read_dir(format!("/proc/{}/fd", pid.trim())).unwrap();
    let links: Vec<_> = files.map(|entry| std::fs::read_link(entry.unwrap().path()).unwrap()).collect();
    let killed = Command::new("kill").arg(pid.trim()).status().unwrap();
    assert!(killed.success());
    assert!(!links.iter().any(|link| link.to_string_lossy().starts_with("pipe:")), "{links:?}");
}
