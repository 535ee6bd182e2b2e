//! What `highwater --version` prints: the version, the commit of the sources, and the versions of what other versions of Highwater must understand.

use std::sync::LazyLock;

/// The version of this command and its formats. `-V` prints the first word only.
pub fn long() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| {
        let commit = match env!("HIGHWATER_COMMIT") {
            "" => String::new(),
            commit => format!(" ({commit})"),
        };
        format!(
            "{}{commit}\n.hw files   {}\nlive table  {}\nattach      {}",
            env!("CARGO_PKG_VERSION"),
            highwater_store::FORMAT_VERSION,
            highwater_shm::live_hello_v1::VERSION,
            highwater_shm::attach_v1::VERSION,
        )
    });
    &TEXT
}
