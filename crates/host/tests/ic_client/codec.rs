//! CBOR and the hash of requests, written for the tests alone.

use sha2::{Digest, Sha256};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    Number(u64),
    Bytes(Vec<u8>),
    Text(String),
    Array(Vec<Item>),
    Map(Vec<(String, Item)>),
}

impl Item {
    pub fn text(text: &str) -> Self {
        Self::Text(text.to_owned())
    }

    pub fn map(entries: &[(&str, Self)]) -> Self {
        Self::Map(entries.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect())
    }

    #[track_caller]
    pub fn get(&self, key: &str) -> &Self {
        let Self::Map(entries) = self else { panic!("no map: {self:?}") };
        &entries.iter().find(|(name, _)| name == key).unwrap_or_else(|| panic!("no {key} in {self:?}")).1
    }

    pub fn without(&self, key: &str) -> Self {
        let Self::Map(entries) = self else { panic!("no map: {self:?}") };
        Self::Map(entries.iter().filter(|(name, _)| name != key).cloned().collect())
    }

    pub fn push(&mut self, key: &str, value: Self) {
        let Self::Map(entries) = self else { panic!("no map: {self:?}") };
        entries.push((key.to_owned(), value));
    }

    /// With another value, or a new one.
    pub fn with(&self, key: &str, value: Self) -> Self {
        let mut changed = self.without(key);
        changed.push(key, value);
        changed
    }

    #[track_caller]
    pub fn bytes(&self) -> &[u8] {
        let Self::Bytes(bytes) = self else { panic!("no bytes: {self:?}") };
        bytes
    }

    #[track_caller]
    pub fn as_text(&self) -> &str {
        let Self::Text(text) = self else { panic!("no text: {self:?}") };
        text
    }

    #[track_caller]
    pub fn number(&self) -> u64 {
        let Self::Number(number) = self else { panic!("no number: {self:?}") };
        *number
    }

    pub fn written(&self) -> Vec<u8> {
        let head = |kind: u8, number: u64| [&[kind << 5 | 27][..], &number.to_be_bytes()].concat();
        match self {
            Self::Number(number) => head(0, *number),
            Self::Bytes(bytes) => [head(2, bytes.len() as u64), bytes.clone()].concat(),
            Self::Text(text) => [head(3, text.len() as u64), text.clone().into_bytes()].concat(),
            Self::Array(items) => {
                [head(4, items.len() as u64), items.iter().flat_map(Self::written).collect()].concat()
            }
            Self::Map(entries) => {
                let content =
                    entries.iter().flat_map(|(key, value)| [Self::text(key).written(), value.written()].concat());
                [head(5, entries.len() as u64), content.collect()].concat()
            }
        }
    }

    #[track_caller]
    pub fn read(bytes: &[u8]) -> Self {
        let (item, rest) = take(bytes.strip_prefix(&[0xd9, 0xd9, 0xf7]).expect("the tag of CBOR"));
        assert!(rest.is_empty(), "bytes after the end");
        item
    }

    /// The hash that does not depend on the order of a map.
    pub fn hash(&self) -> [u8; 32] {
        let leb = |mut number: u64| {
            let mut bytes = Vec::new();
            loop {
                let low = (number & 0x7f) as u8;
                number >>= 7;
                bytes.push(low | if number > 0 { 0x80 } else { 0 });
                if number == 0 {
                    return bytes;
                }
            }
        };
        match self {
            Self::Number(number) => Sha256::digest(leb(*number)).into(),
            Self::Bytes(bytes) => Sha256::digest(bytes).into(),
            Self::Text(text) => Sha256::digest(text.as_bytes()).into(),
            Self::Array(items) => Sha256::digest(items.iter().flat_map(Self::hash).collect::<Vec<_>>()).into(),
            Self::Map(entries) => {
                let pair = |(key, value): &(String, Self)| [&Sha256::digest(key)[..], &value.hash()].concat();
                let mut pairs: Vec<Vec<u8>> = entries.iter().map(pair).collect();
                pairs.sort();
                Sha256::digest(pairs.concat()).into()
            }
        }
    }
}

fn take(bytes: &[u8]) -> (Item, &[u8]) {
    let (first, rest) = bytes.split_first().expect("a value");
    let width = match first & 0x1f {
        24 => 1,
        25 => 2,
        26 => 4,
        27 => 8,
        _ => 0,
    };
    let (digits, mut rest) = rest.split_at(width);
    let number = match width {
        0 => u64::from(first & 0x1f),
        _ => digits.iter().fold(0, |number, digit| number << 8 | u64::from(*digit)),
    };
    match first >> 5 {
        0 => (Item::Number(number), rest),
        2 => (Item::Bytes(rest[..number as usize].to_vec()), &rest[number as usize..]),
        3 => (Item::Text(String::from_utf8(rest[..number as usize].to_vec()).unwrap()), &rest[number as usize..]),
        4 => {
            let mut items = Vec::new();
            for _ in 0..number {
                let (item, after) = take(rest);
                items.push(item);
                rest = after;
            }
            (Item::Array(items), rest)
        }
        5 => {
            let mut entries = Vec::new();
            for _ in 0..number {
                let (key, after) = take(rest);
                let (value, after) = take(after);
                entries.push((key.as_text().to_owned(), value));
                rest = after;
            }
            (Item::Map(entries), rest)
        }
        kind => panic!("a value of kind {kind}"),
    }
}
