//! The damage of a trace, with offsets.

use highwater_model::Damage;
use std::borrow::Cow;

/// Limit for damage that is listed one by one. Further damage is only counted.
const MOST_LISTED: usize = 1000;

/// All damage of a trace, in the order in which it was found.
#[derive(Clone, Debug, Default)]
pub struct DamageList {
    listed: Vec<Damage>,
    more: u64,
    more_bytes: u64,
    latest_offset: u64,
}

impl DamageList {
    /// Adds damage. Adjacent damage of one kind is merged.
    pub fn add(&mut self, offset: u64, length: u64, what: impl Into<Cow<'static, str>>) {
        let what = what.into();
        if let Some(last) = self.listed.last_mut()
            && last.offset + last.length == offset
            && last.length > 0
            && last.what == what
        {
            last.length += length;
        } else if self.listed.len() < MOST_LISTED {
            self.listed.push(Damage { offset, length, what });
        } else {
            self.more += 1;
            self.more_bytes += length;
            self.latest_offset = offset;
        }
    }

    /// All damage, by offset.
    pub fn list(&self) -> Vec<Damage> {
        let mut list = self.listed.clone();
        if self.more > 0 {
            let what = format!("{} more damaged parts, the last of them", self.more);
            list.push(Damage { offset: self.latest_offset, length: self.more_bytes, what: what.into() });
        }
        list.sort_by_key(|damage| damage.offset);
        list
    }

    /// The offset of the first damage.
    pub fn first_offset(&self) -> Option<u64> {
        self.listed.iter().map(|damage| damage.offset).min()
    }
}
