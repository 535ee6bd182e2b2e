//! A folder with images and their modules, and the programs that run scripts over them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU64, Ordering};

pub const MOVM: &str = env!("CARGO_BIN_EXE_highwater-movm");

/// A folder with images and modules, gone when the test ends.
pub struct Folder(pub PathBuf);

impl Folder {
    /// Unpacks fixtures under new names.
    pub fn with_all(files: &[(&str, &str)]) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("eval-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../image/tests/fixtures/motoko");
        for (name, to) in files {
            let packed = std::fs::File::open(fixtures.join(format!("{name}.zst"))).unwrap();
            std::fs::write(folder.join(to), zstd::decode_all(packed).unwrap()).unwrap();
        }
        Self(folder)
    }

    /// Runs the program in the folder.
    #[allow(dead_code, reason = "not all tests use it")]
    pub fn movm(&self, arguments: &[&str]) -> Output {
        Command::new(MOVM).current_dir(&self.0).args(arguments).output().unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The command, which is built with the workspace.
#[allow(dead_code, reason = "not all tests use it")]
pub fn highwater() -> PathBuf {
    let highwater = Path::new(MOVM).with_file_name("highwater");
    assert!(highwater.exists(), "{} is missing: 'cargo build -p highwater-cli' makes it", highwater.display());
    highwater
}
