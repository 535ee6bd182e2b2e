//! The strings of a snapshot: names of constructors, properties and functions, and the texts of strings.

/// All strings, one after another.
#[derive(Debug, Default)]
pub struct Strings {
    bytes: Vec<u8>,
    /// By number: where a string ends.
    ends: Vec<u64>,
}

impl Strings {
    /// The place to append the bytes of the next string to; [`finish`](Self::finish) ends it.
    pub fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Ends a string.
    pub fn finish(&mut self) {
        self.ends.push(self.bytes.len() as u64);
    }

    /// Gives back memory that is not needed any more.
    pub fn shrink(&mut self) {
        self.bytes.shrink_to_fit();
        self.ends.shrink_to_fit();
    }

    /// The number of strings.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// The bytes of a string; empty if there is none with this number.
    pub fn raw(&self, number: u32) -> &[u8] {
        let end = |at: usize| self.ends.get(at).map_or(0, |end| *end as usize);
        let at = number as usize;
        let start = if at == 0 { 0 } else { end(at - 1) };
        self.bytes.get(start..end(at)).unwrap_or_default()
    }

    /// The text of a string, cut after some characters.
    pub fn preview(&self, number: u32, most: usize) -> String {
        // A character has at most four bytes.
        let raw = self.raw(number);
        let text = String::from_utf8_lossy(&raw[..raw.len().min(most.saturating_mul(4))]);
        let mut shown: String = text.chars().take(most).collect();
        if shown.len() < raw.len() {
            shown.push('…');
        }
        shown
    }
}
