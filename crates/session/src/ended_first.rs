//! Which process the kernel ends when memory runs out.

/// Makes the kernel end this process rather than the program: the program continues without it, and the recording so far can be read. Not for a process
/// that will start others, which would inherit it.
pub fn be_ended_first() {
    const FIRST: &str = "1000";
    let _ = std::fs::write("/proc/self/oom_score_adj", FIRST);
}
