//! Files that commands write: nothing is replaced without --force, no existing link is followed, and no other user can read them.

mod support;

use std::fs;
use std::io::Write;
use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use support::live::Collector;
use support::recorded::{Ended, run};
use support::streams::Beside;
use support::{HIGHWATER, Place, Run, as_lines, in_the_kitchen, kitchen};

/// Commands that write `out` in the kitchen.
const WRITING: [&str; 5] = [
    "import kitchen.jsonl -o out",
    "export kitchen.hw --to folded -o out",
    "export kitchen.hw --to memtrace -o out",
    "view kitchen.hw --save out",
    "record -o out -- /bin/true",
];

fn kitchen_with_lines() -> Place {
    let place = in_the_kitchen();
    place.write("kitchen.jsonl", as_lines(&kitchen()));
    place
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

/// Runs a shell script in which `$highwater` is the command.
fn shell(place: &Place, script: &str) -> Ended {
    let mut command = Command::new("sh");
    command.args(["-c", script]).env("highwater", HIGHWATER).current_dir(place.path()).stdin(Stdio::null());
    run(&mut command)
}

#[test]
fn nothing_is_replaced_without_force() {
    let place = kitchen_with_lines();
    for line in WRITING {
        place.write("out", "precious");
        place.highwater(line).is_one_clear_line_about(&["out exists", "--force"]);
        assert_eq!(fs::read(place.file("out")).unwrap(), b"precious", "{line}");
        let forced = line.replacen(" -o", " --force -o", 1).replacen(" --save", " --force --save", 1);
        assert_eq!(place.highwater(&forced).code, 0, "{forced}");
        assert_ne!(fs::read(place.file("out")).unwrap(), b"precious", "{line}");
        // A dangling link is in the way, too.
        fs::remove_file(place.file("out")).unwrap();
        symlink("elsewhere", place.file("out")).unwrap();
        place.highwater(line).is_one_clear_line_about(&["out exists", "--force"]);
        assert!(!place.file("elsewhere").exists(), "{line}");
        fs::remove_file(place.file("out")).unwrap();
    }
    place.write("taken", "precious");
    place.highwater("listen 0 -o taken").is_one_clear_line_about(&["taken exists", "--force"]);
    place.highwater("connect 1 -o taken").is_one_clear_line_about(&["taken exists", "--force"]);
    assert_eq!(fs::read(place.file("taken")).unwrap(), b"precious");
}

#[test]
fn a_program_is_not_started_whose_recording_would_replace_a_file() {
    let place = Place::new();
    place.write("app.hw", "precious");
    let refused = shell(&place, "$highwater record -o app.hw -- touch started");
    assert_eq!(refused.status.code(), Some(1), "{}", refused.stderr_text());
    assert!(refused.stderr_text().contains("app.hw exists; --force replaces it"), "{}", refused.stderr_text());
    assert!(!place.file("started").exists());
    // Nor a name whose recordings of children would be mistaken for the new program's.
    fs::create_dir(place.file("other.children")).unwrap();
    place.write("other.children/4711-cc1.hw", "precious");
    let refused = shell(&place, "$highwater record -o other.hw -- touch started");
    assert!(refused.stderr_text().contains("other.children: has recordings of"), "{}", refused.stderr_text());
    assert!(!place.file("started").exists() && !place.file("other.hw").exists());
    shell(&place, "$highwater record --force -o other.hw -- touch started").succeeded();
    assert!(place.file("started").exists() && !place.file("other.children").exists());
}

#[test]
fn a_recording_without_a_name_gets_the_next_number() {
    let place = Place::new();
    let first = shell(&place, "$highwater record /bin/true").succeeded();
    assert!(!first.stderr_text().contains("exists"), "{}", first.stderr_text());
    let content = fs::read(place.file("true.hw")).unwrap();
    let second = shell(&place, "$highwater record /bin/true").succeeded();
    assert!(second.stderr_text().contains("true.hw exists; this recording is true-2.hw"), "{}", second.stderr_text());
    assert_eq!(fs::read(place.file("true.hw")).unwrap(), content);
    assert_eq!(place.names(), ["true-2.hw", "true.hw"]);
    shell(&place, "$highwater record --force /bin/true").succeeded();
    assert_ne!(fs::read(place.file("true.hw")).unwrap(), content);
    assert_eq!(place.names(), ["true-2.hw", "true.hw"]);
}

#[test]
fn a_link_in_the_place_of_the_unfinished_file_is_not_followed() {
    let place = kitchen_with_lines();
    place.write("precious", "precious");
    for line in WRITING {
        // The command gets the process number of the shell.
        let ended = shell(&place, &format!("ln -s precious out.$$.unfinished; exec $highwater {line}")).succeeded();
        assert_eq!(fs::read(place.file("precious")).unwrap(), b"precious", "{line}");
        assert!(!place.file("out").is_symlink() && place.file("out").exists(), "{line}: {}", ended.stderr_text());
        for name in place.names().iter().filter(|name| name.starts_with("out")) {
            fs::remove_file(place.file(name)).unwrap();
        }
    }
}

#[test]
fn a_file_that_was_made_meanwhile_is_left_alone() {
    let place = Place::new();
    let mut command = place.command(["import", "-", "-o", "out.hw"]);
    let mut import = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = import.stdin.take().unwrap();
    let unfinished = place.file(&format!("out.hw.{}.unfinished", import.id()));
    // At least once: the file may be there before the first line is.
    loop {
        lines.write_all(b"@ ALLOCATE 64 shop.rs:7 Cart 1\n@ DROP 64 Cart 1\n").unwrap();
        if unfinished.exists() {
            break;
        }
        assert!(import.try_wait().unwrap().is_none(), "it waits for more");
    }
    place.write("out.hw", "precious");
    drop(lines);
    let run = Run::of(import.wait_with_output().unwrap());
    run.is_one_clear_line_about(&["out.hw: was made by another program meanwhile", "out-2.hw was written instead"]);
    assert_eq!(fs::read(place.file("out.hw")).unwrap(), b"precious");
    assert_eq!(place.highwater("report out-2.hw").code, 0);
    assert_eq!(place.names(), ["out-2.hw", "out.hw"]);
}

#[test]
fn a_recording_whose_name_was_taken_while_the_program_ran_is_kept_under_another() {
    let place = Place::new();
    // When the process execs another program, the recording of the first one moves to the children's directory, and the name is free for a while.
    let taker = "while [ -e app.hw ]; do :; done; echo precious > app.hw";
    place.write("taker", taker);
    let ended = shell(&place, "$highwater record --keep-children 0 -o app.hw -- sh -c 'exec sh taker'").succeeded();
    let said = ended.stderr_text();
    assert!(
        said.contains("app.hw: another program made this file meanwhile; the recording is app.children/"),
        "{said}"
    );
    assert_eq!(fs::read(place.file("app.hw")).unwrap(), b"precious\n");
    let kept = said.split("the recording is ").nth(1).unwrap().lines().next().unwrap();
    let report = place.json(&format!("report {kept}"));
    assert_eq!(report["source"]["command"], serde_json::json!(["sh", "taker"]));
}

#[test]
fn what_holds_a_programs_data_is_for_its_owner_alone() {
    let place = kitchen_with_lines();
    for line in WRITING {
        shell(&place, &format!("umask 022; $highwater {line}")).succeeded();
        assert_eq!(mode(&place.file("out")), 0o600, "{line}");
        fs::remove_file(place.file("out")).unwrap();
        shell(&place, &format!("umask 0277; $highwater {line}")).succeeded();
        assert_eq!(mode(&place.file("out")), 0o400, "{line}: a stricter umask counts");
        fs::remove_file(place.file("out")).unwrap();
    }
    // A file that replaces a world-readable file does not get its mode.
    place.write("out", "");
    fs::set_permissions(place.file("out"), fs::Permissions::from_mode(0o644)).unwrap();
    shell(&place, "$highwater record --force -o out -- /bin/true").succeeded();
    assert_eq!(mode(&place.file("out")), 0o600);
    // The recordings of children, their directory, and the default name.
    shell(&place, "umask 022; $highwater record --keep-children 0 -o app.hw -- sh -c '/bin/true; /bin/true'")
        .succeeded();
    assert_eq!(mode(&place.file("app.children")), 0o700);
    let children: Vec<_> =
        fs::read_dir(place.file("app.children")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(!children.is_empty() && children.iter().all(|path| mode(path) == 0o600), "{children:?}");
    shell(&place, "umask 022; $highwater record /bin/true").succeeded();
    assert_eq!(mode(&place.file("true.hw")), 0o600);
    // A recording that is symbolized stays private to its owner.
    shell(&place, "umask 022; $highwater symbolize app.hw").succeeded();
    assert_eq!(mode(&place.file("app.hw")), 0o600);
}

#[test]
fn streams_and_snapshots_are_for_their_owner_alone_too() {
    let place = Place::new();
    for (options, name) in [("-o out.hw", "out.hw"), ("-o folder", "folder")] {
        fs::create_dir_all(place.file("folder")).unwrap();
        let mut listener = Beside::start(&mut {
            let mut command = Command::new("sh");
            let line = format!("umask 022; exec $highwater listen 0 --once {options}");
            command.args(["-c", &line]).env("highwater", HIGHWATER).current_dir(place.path());
            command
        });
        let port = listener.port();
        assert_eq!(place.highwater(&format!("record --stream {port} -- /bin/true")).code, 0);
        listener.ended();
        let path = place.file(name);
        let path = if path.is_dir() { fs::read_dir(path).unwrap().next().unwrap().unwrap().path() } else { path };
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
    let collector = Collector::new();
    let holder = collector.holder(&[]);
    for name in ["held.hw", "held.json", "held.svg"] {
        let line = format!("snapshot --pid {} -o {name}", holder.pid);
        collector.highwater(&line).succeeded();
        assert_eq!(mode(&collector.place.file(name)), 0o600, "{name}");
        let again = collector.highwater(&line);
        assert!(again.stderr_text().contains(&format!("{name} exists; --force")), "{}", again.stderr_text());
        collector.highwater(&format!("{line} --force")).succeeded();
    }
}

#[test]
fn devices_pipes_and_descriptors_are_written_to_as_they_are() {
    let place = kitchen_with_lines();
    let expected = place.highwater("export kitchen.hw --to folded -o -").stdout;
    for script in [
        "$highwater export kitchen.hw --to folded -o /dev/stdout",
        "$highwater export kitchen.hw --to folded -o /dev/stdout | cat",
        "$highwater export kitchen.hw --to folded -o /dev/stdout > there; cat there",
        "mkfifo pipe; cat pipe & $highwater export kitchen.hw --to folded -o pipe; wait",
    ] {
        assert_eq!(shell(&place, script).succeeded().stdout_text(), expected, "{script}");
    }
    shell(&place, "$highwater record -o /dev/stdout -- /bin/true | cat > piped.hw").succeeded();
    assert_eq!(place.json("report piped.hw")["source"]["program"], "true");
    // Pipes stay in place even if the program's process execs another one, and a recording is discarded. Not tested with a device: moving or removing
    // one would damage the machine.
    let script = "mkfifo other; cat other >/dev/null & $highwater record -o other -- sh -c 'exec /bin/true'; wait";
    shell(&place, script).succeeded();
    assert!(fs::symlink_metadata(place.file("other")).unwrap().file_type().is_fifo(), "{:?}", place.names());
}
