//! Packs and lists the files of the built page, so that they become part of the binary.

use highwater_packed::pack;
use std::fmt::Write;
use std::path::{Path, PathBuf};

fn main() {
    let folder = Path::new(&std::env::var_os("CARGO_MANIFEST_DIR").expect("set by cargo")).join("../../web/dist");
    println!("cargo:rerun-if-changed={}", folder.display());
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("set by cargo"));
    let mut files = Vec::new();
    collect(&folder, &mut files);
    files.sort();
    let mut list = format!("static FILES: [(&str, Packed); {}] = [\n", files.len());
    for (number, file) in files.iter().enumerate() {
        println!("cargo:rerun-if-changed={}", file.display());
        let name = file.strip_prefix(&folder).expect("inside").to_string_lossy().replace('\\', "/");
        let packed = out.join(format!("page_file_{number}"));
        std::fs::write(&packed, pack(&std::fs::read(file).expect("readable"))).expect("can be written");
        let path = packed.display().to_string();
        writeln!(list, "    ({name:?}, Packed::new(include_bytes!({path:?}))),").expect("memory");
    }
    list.push_str("];\n");
    std::fs::write(out.join("page_files.rs"), list).expect("can be written");
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("web/dist is there").flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, files);
        } else {
            files.push(path);
        }
    }
}
