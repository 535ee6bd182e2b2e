//! `lifetimes`: the lifetimes of dead blocks.

use highwater_model::{LifetimeBucket, Lifetimes, Nanos};
use serde_json::{Value, json};

/// `lifetimes`: `blocks, mean_ns, median_ns, p90_ns, p99_ns` (`null` if there are no dead blocks), and `histogram[]` of `up_to_ns, blocks, bytes`.
pub fn lifetimes(lifetimes: &Lifetimes) -> Value {
    let nanoseconds = |age: Option<Nanos>| age.map(|age| age.0);
    let bucket = |(end, bucket): (Nanos, LifetimeBucket)| json!({ "up_to_ns": end.0, "blocks": bucket.blocks, "bytes": bucket.bytes.rounded() });
    json!({
        "blocks": lifetimes.blocks(),
        "mean_ns": nanoseconds(lifetimes.mean()),
        "median_ns": nanoseconds(lifetimes.quantile(0.5)),
        "p90_ns": nanoseconds(lifetimes.quantile(0.9)),
        "p99_ns": nanoseconds(lifetimes.quantile(0.99)),
        "histogram": lifetimes.iter().map(bucket).collect::<Value>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_counted_and_what_is_not_known_is_null() {
        assert_eq!(lifetimes(&Lifetimes::default())["median_ns"], Value::Null);
        let mut known = Lifetimes::default();
        known.add(Nanos(3), 2, highwater_model::ByteSum::whole(32));
        let expected = json!({
            "blocks": 2, "mean_ns": 3, "median_ns": 3, "p90_ns": 3, "p99_ns": 3,
            "histogram": [{ "up_to_ns": 3, "blocks": 2, "bytes": 32 }],
        });
        assert_eq!(lifetimes(&known), expected);
    }
}
