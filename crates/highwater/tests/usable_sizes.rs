//! The agent, which cannot use the model, and the model expect the same usable size of a block.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(missing_docs)]

#[test]
fn agent_and_model_expect_the_same_usable_sizes() {
    for size in (0..5_000).chain([65_535, 65_536, 65_537, 1 << 30, (1 << 40) + 3]) {
        assert_eq!(
            highwater_agent::expected_usable(size) as u64,
            highwater_model::usable_of_size(size as u64),
            "{size}"
        );
    }
}
