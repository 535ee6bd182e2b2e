//! From samples to estimates, and back.
//!
//! A sampler that takes one byte of every `rate` on average finds a block of `size` bytes with the probability 1 − e^(−size/rate). Each sample stands
//! for the inverse of that.

/// How estimates become whole numbers: like those of the tool that shows such files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rounding {
    /// As Go's runtime and `go tool pprof` do.
    Down,
    /// To the nearest number. `jeprof` adds the fractions, and rounds what it prints.
    Nearest,
}

/// The estimate of all blocks and bytes from samples; `rate` is at most 1 if every block is a sample.
pub(super) fn scaled(count: u64, bytes: u64, rate: u64, rounding: Rounding) -> (u64, u64) {
    if rate <= 1 {
        return (count, bytes);
    }
    if count == 0 || bytes == 0 {
        return (0, 0);
    }
    let scale = scale(bytes as f64 / count as f64, rate);
    let whole = |number: u64| match rounding {
        Rounding::Down => (number as f64 * scale) as u64,
        Rounding::Nearest => (number as f64 * scale).round() as u64,
    };
    (whole(count), whole(bytes))
}

fn scale(mean_size: f64, rate: u64) -> f64 {
    1.0 / (1.0 - (-mean_size / rate as f64).exp())
}

/// The number of samples behind an estimate of Go's runtime, where all blocks have the same size; `None` if the estimate was made in another way.
pub(super) fn samples_behind(objects: u64, space: u64, size: u64, rate: u64) -> Option<u64> {
    if objects == 0 && space == 0 {
        return Some(0);
    }
    let least = (objects as f64 / scale(size as f64, rate)) as u64;
    let is_it = |count: &u64| scaled(*count, count.saturating_mul(size), rate, Rounding::Down) == (objects, space);
    (least..=least.saturating_add(1)).find(is_it)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn few_samples_of_small_blocks_stand_for_many() {
        assert_eq!(scaled(10, 10 * 16, 524_288, Rounding::Down), (327_685, 5_242_960));
        assert_eq!(scaled(3, 3 << 30, 524_288, Rounding::Down), (3, 3 << 30));
        assert_eq!(scaled(7, 70, 1, Rounding::Down), (7, 70));
        assert_eq!(samples_behind(5, 1, 100, 4096), None);
    }

    proptest! {
        #[test]
        fn samples_are_found_again(count in 1u64..10_000, size in 1u64..1 << 24, rate in 2u64..1 << 22) {
            let (objects, space) = scaled(count, count * size, rate, Rounding::Down);
            prop_assert_eq!(samples_behind(objects, space, size, rate), Some(count));
        }
    }
}
