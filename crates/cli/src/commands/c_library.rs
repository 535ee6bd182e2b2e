//! `highwater c-library`: installs the C library, which this command carries.

use crate::failure::{Failure, reason};
use crate::output::Output;
use clap::Args;
use highwater_c::install;
use std::path::{Path, PathBuf};

/// The arguments of `highwater c-library`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  highwater c-library                           into /usr/local
  highwater c-library --prefix ~/.local         for yourself
  highwater c-library --prefix /usr --root pkg  into pkg/usr, for a package

  cc app.c $(pkg-config --cflags --libs highwater)
  cc -static app.c $(pkg-config --cflags --static --libs highwater)

Installs highwater.h, libhighwater.a, libhighwater.so and a file for pkg-config. A program that is linked with the library is recorded by \
'highwater record', even if it is statically linked, and inspected by 'highwater run'; or calls the functions of the header itself.")]
pub struct CLibrary {
    /// Where the library will be used
    #[arg(long, value_name = "DIR", default_value = "/usr/local")]
    prefix: PathBuf,
    /// Put the files below this directory, with the prefix (as DESTDIR of 'make install')
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
}

impl CLibrary {
    /// Installs the files, and says which.
    pub fn run(&self, output: &mut Output) -> Result<(), Failure> {
        let prefix =
            std::path::absolute(&self.prefix).map_err(|error| Failure::in_file(&self.prefix, reason(&error)))?;
        let files = install(&prefix, self.root.as_deref()).map_err(|problem| {
            Failure::in_file(&problem.path, format_args!("cannot be installed: {}", reason(&problem.error)))
        })?;
        for file in &files {
            output.line(&file.display().to_string())?;
        }
        if self.root.is_none() && !is_searched(&prefix) {
            let folder = prefix.join("lib");
            output.line("")?;
            output.line(&format!("pkg-config finds it with PKG_CONFIG_PATH={}/pkgconfig", folder.display()))?;
            output.line(&format!("programs find the shared library with -Wl,-rpath,{}", folder.display()))?;
        }
        Ok(())
    }
}

/// Whether compilers and the loader look there by themselves.
fn is_searched(prefix: &Path) -> bool {
    ["/usr", "/usr/local"].iter().any(|known| prefix == Path::new(known))
}
