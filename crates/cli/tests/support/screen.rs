//! The command on a pseudo-terminal: what its screen shows, and keys.

use super::live::wait_for;
use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Mutex};

/// A command that fills a terminal. It is killed when the test ends.
pub struct TerminalScreen {
    pub child: Child,
    keyboard: File,
    /// The end that the command has.
    terminal: OwnedFd,
    modes: LocalModes,
    parser: Arc<Mutex<vt100::Parser>>,
    written: Arc<Mutex<Vec<u8>>>,
}

impl TerminalScreen {
    /// Starts a command on a terminal of this size. `setsid` makes it the command's own.
    pub fn start(command: &Command, size: (u16, u16)) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let terminal = rustix::fs::open(ptsname(&master, Vec::new()).unwrap(), flags, Mode::empty()).unwrap();
        tcsetwinsize(&terminal, window(size)).unwrap();
        let mut started = Command::new("setsid");
        started.arg("--ctty").arg(command.get_program()).args(command.get_args()).env("TERM", "xterm");
        started.env_remove("NO_COLOR");
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => started.env(name, value),
                None => started.env_remove(name),
            };
        }
        if let Some(folder) = command.get_current_dir() {
            started.current_dir(folder);
        }
        let end = || terminal.try_clone().unwrap();
        let modes = tcgetattr(&terminal).unwrap().local_modes;
        let child = started.stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
        let parser = Arc::new(Mutex::new(vt100::Parser::new(size.1, size.0, 0)));
        let written = Arc::new(Mutex::new(Vec::new()));
        let keyboard = File::from(master);
        let (mut output, screen, all) = (keyboard.try_clone().unwrap(), Arc::clone(&parser), Arc::clone(&written));
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count) = output.read(&mut bytes) {
                all.lock().unwrap().extend_from_slice(&bytes[..count]);
                screen.lock().unwrap().process(&bytes[..count]);
            }
        });
        Self { child, keyboard, terminal, modes, parser, written }
    }

    /// The lines of the screen.
    pub fn lines(&self) -> Vec<String> {
        let parser = self.parser.lock().unwrap();
        let width = parser.screen().size().1;
        parser.screen().rows(0, width).map(|line| line.trim_end().to_owned()).collect()
    }

    pub fn text(&self) -> String {
        self.lines().join("\n")
    }

    /// All bytes that were written.
    pub fn written(&self) -> String {
        String::from_utf8_lossy(&self.written.lock().unwrap()).into_owned()
    }

    /// Waits until the screen is as wanted; returns it.
    #[track_caller]
    pub fn wait(&self, what: &str, is_so: impl Fn(&str) -> bool) -> String {
        let begin = std::time::Instant::now();
        while !is_so(&self.text()) {
            assert!(begin.elapsed().as_secs() < 60, "waited too long for {what}:\n{}", self.text());
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        self.text()
    }

    /// Waits until the screen has all these texts; returns it.
    #[track_caller]
    pub fn shows(&self, texts: &[&str]) -> String {
        self.wait(&format!("{texts:?}"), |screen| texts.iter().all(|text| screen.contains(text)))
    }

    /// Presses keys, given as the bytes that a terminal sends.
    pub fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    pub fn resize(&self, size: (u16, u16)) {
        self.parser.lock().unwrap().screen_mut().set_size(size.1, size.0);
        tcsetwinsize(&self.terminal, window(size)).unwrap();
    }

    /// True while the command has the terminal for itself: the alternate screen, no cursor, keys unread by the terminal.
    pub fn is_taken(&self) -> bool {
        let parser = self.parser.lock().unwrap();
        let taken = (parser.screen().alternate_screen(), parser.screen().hide_cursor(), !self.has_its_modes());
        assert!(taken == (true, true, true) || taken.0 == taken.1, "half taken: {taken:?}");
        taken == (true, true, true)
    }

    /// True if the terminal is as it was before the command.
    pub fn is_restored(&self) -> bool {
        let parser = self.parser.lock().unwrap();
        !parser.screen().alternate_screen() && !parser.screen().hide_cursor() && self.has_its_modes()
    }

    fn has_its_modes(&self) -> bool {
        tcgetattr(&self.terminal).unwrap().local_modes == self.modes
    }

    /// Waits for the end of the command and for the last of its output.
    pub fn ends(&mut self) -> ExitStatus {
        let status = self.child.wait().unwrap();
        wait_for("the terminal to be restored", || self.is_restored());
        status
    }
}

impl Drop for TerminalScreen {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn window((width, height): (u16, u16)) -> Winsize {
    Winsize { ws_row: height, ws_col: width, ws_xpixel: 0, ws_ypixel: 0 }
}
