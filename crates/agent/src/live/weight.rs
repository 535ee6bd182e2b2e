//! How many blocks and bytes a sampled block stands for: see [`sampling`](crate::sampling).

use highwater_shm::table_v1::TableBlock;

/// The blocks (in units of 1/256) and bytes that a sampled block stands for besides its own.
#[cold]
#[inline(never)]
pub fn stands_for(block: &TableBlock) -> (u64, u64) {
    let mean = super::rate_bytes(block.rate).max(1) as f64;
    let more = 1.0 / chance(block.size.max(1) as f64 / mean) - 1.0;
    ((more * 256.0) as u64, (more * block.size as f64) as u64)
}

/// 1 − e^(−x) for x > 0, to twelve digits.
fn chance(x: f64) -> f64 {
    if x > 36.0 {
        return 1.0;
    }
    // In steps of ln 2; the rest by its series, which avoids the digits lost by subtracting from 1.
    let halvings = (x / core::f64::consts::LN_2) as u32;
    let rest = x - f64::from(halvings) * core::f64::consts::LN_2;
    let (mut term, mut sum) = (-1.0, 0.0);
    for number in 1..20 {
        term *= -rest / f64::from(number);
        sum += term;
    }
    let scale = 1.0 / (1u64 << halvings) as f64;
    // 1 − (1 − sum) · scale
    sum * scale + (1.0 - scale)
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;

    #[test]
    fn the_chance_of_a_sample() {
        for x in [1e-9, 1e-5, 0.001, 0.1, 0.5, 0.7, 1.0, 3.0, 20.0, 35.9, 100.0] {
            let exact = -f64::exp_m1(-x);
            assert!((chance(x) / exact - 1.0).abs() < 1e-11, "{x}: {} {exact}", chance(x));
        }
    }
}
