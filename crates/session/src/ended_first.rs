//! Where memory runs out.

/// The kernel ends us rather than the program: it goes on without us, and what was written can be read. Not for a process that will start others, which would inherit it.
pub fn be_ended_first() {
    const FIRST: &str = "1000";
    let _ = std::fs::write("/proc/self/oom_score_adj", FIRST);
}
