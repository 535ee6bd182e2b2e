//! The live blocks of a keyframe (docs/format.md §6): columns of at most [`MOST_LIVE`] blocks, ordered by number.

use super::column::{ColumnPacker, ColumnUnpacker};
use super::events::MOST_STEPS_PER_BYTE;
use super::exceptions::{from_zigzag, zigzag};
use super::figure_checkpoint::is_sound;
use super::packed::{Buffer, LONGEST, Numbers};
use super::prediction::{Predictor, at_distance, distance};
use super::varint::{self, VarintReader};
use highwater_model::{AccountsState, AllocId, Block, Nanos, SampleSpacing, StackId, TagId, Weight};
use std::io;

/// The limit of live blocks in one block of the file.
pub const MOST_LIVE: usize = 1 << 18;

/// The columns.
mod column {
    pub const NUMBERS: u8 = 0;
    pub const TIMES: u8 = 1;
    pub const ADDRESSES: u8 = 2;
    pub const SIZES: u8 = 3;
    pub const THREADS: u8 = 4;
    pub const STACKS: u8 = 5;
    pub const TAGS: u8 = 6;
    pub const SURPLUSES: u8 = 7;
    pub const ROUNDED_WEIGHTS: u8 = 8;
    pub const SAMPLES: u8 = 9;
    pub const ROUNDED_SPACINGS: u8 = 10;
    pub const WEIGHTS: u8 = 11;
    pub const SPACINGS: u8 = 12;
    pub const COUNT: u8 = 13;
}

/// Encodes the live blocks of a keyframe part by part, reusing its buffers.
pub struct LiveEncoder {
    columns: [Buffer; column::COUNT as usize],
    predictor: Predictor,
}

impl LiveEncoder {
    /// An encoder for parts of at most `count` blocks.
    pub fn with_room_for(count: usize) -> Self {
        Self { columns: std::array::from_fn(|_| Buffer::with_room_for(count)), predictor: Predictor::new() }
    }

    /// Appends the payload with these blocks. There must be `count`, and their numbers and times must not decrease.
    pub fn encode(
        &mut self,
        blocks: impl Iterator<Item = Block>,
        count: usize,
        packer: &mut ColumnPacker,
        out: &mut Vec<u8>,
    ) -> io::Result<()> {
        let start = out.len();
        varint::put(out, count as u64);
        self.columns.iter_mut().for_each(Buffer::clear);
        self.predictor.clear();
        let (mut number, mut time) = (0, 0);
        for block in blocks {
            self.put(&block, number, time);
            (number, time) = (block.id.0, block.time.0);
        }
        for (id, column) in (0..).zip(&self.columns) {
            // A packed zero is a zero byte. If all values are zero, the column is left out.
            let is_optional = id >= column::SURPLUSES;
            if !is_optional || column.bytes().iter().any(|&byte| byte != 0) {
                packer.add(id, column.bytes())?;
            }
        }
        packer.finish(out);
        let least = start + (count as u64 / MOST_STEPS_PER_BYTE) as usize;
        if out.len() < least {
            out.resize(least, 0);
        }
        Ok(())
    }

    /// Appends a block that follows one with this number and time.
    #[inline]
    fn put(&mut self, block: &Block, number: u64, time: u64) {
        let latest = self.predictor.expect(block.thread as usize, block.size).latest;
        let (samples, spacing) = block.weight.counted().unwrap_or_default();
        let weight = u64::from(block.weight.bits());
        let (rounded_weight, rounded_spacing, weight, spacing) = match block.weight.is_rounded() {
            true => (weight, spacing.old_bits().into(), 0, 0),
            false => (0, 0, weight, spacing.bits()),
        };
        let values = [
            (column::NUMBERS, block.id.0 - number),
            (column::TIMES, block.time.0 - time),
            (column::ADDRESSES, distance(latest, block.address)),
            (column::SIZES, block.size),
            (column::THREADS, block.thread.into()),
            (column::STACKS, block.stack.0.into()),
            (column::TAGS, block.tag.0.into()),
            (column::SURPLUSES, zigzag(block.surplus)),
            (column::ROUNDED_WEIGHTS, rounded_weight),
            (column::SAMPLES, samples.into()),
            (column::ROUNDED_SPACINGS, rounded_spacing),
            (column::WEIGHTS, weight),
            (column::SPACINGS, spacing),
        ];
        for (id, value) in values {
            self.columns[usize::from(id)].put(value);
        }
        self.predictor.allocated(block.thread as usize, block.size, block.address, false);
    }
}

/// Appends the live blocks of a payload to `state`; `None` if it is malformed or refers to rows that do not exist.
pub fn decode(payload: &[u8], state: &mut AccountsState) -> Option<()> {
    let mut input = VarintReader::new(payload);
    let count = input.number()?;
    if count > MOST_LIVE as u64 || count > (payload.len() as u64).saturating_add(1) * MOST_STEPS_PER_BYTE {
        return None;
    }
    let mut unpacker = ColumnUnpacker::new(column::COUNT).ok()?;
    unpacker.unpack(input, count * LONGEST as u64)?;
    let mut columns: [Numbers<'_>; column::COUNT as usize] = std::array::from_fn(|id| unpacker.numbers(id as u8));
    let has: [bool; column::COUNT as usize] = std::array::from_fn(|id| !columns[id].is_empty());
    let mut predictor = Predictor::new();
    let (mut number, mut time) = (0u64, 0u64);
    for _ in 0..count {
        let mut next = |id: u8| columns[usize::from(id)].next();
        let is_stored = |id: u8| has[usize::from(id)];
        number = number.checked_add(next(column::NUMBERS)?)?;
        time = time.checked_add(next(column::TIMES)?)?;
        let size = next(column::SIZES)?;
        let thread = u32::try_from(next(column::THREADS)?).ok()?;
        let address = at_distance(predictor.expect(thread as usize, size).latest, next(column::ADDRESSES)?);
        predictor.allocated(thread as usize, size, address, false);
        let block = Block {
            id: AllocId(number),
            address,
            size,
            time: Nanos(time),
            thread,
            stack: StackId(u32::try_from(next(column::STACKS)?).ok()?),
            tag: TagId(u32::try_from(next(column::TAGS)?).ok()?),
            surplus: if is_stored(column::SURPLUSES) { from_zigzag(next(column::SURPLUSES)?)? } else { 0 },
            weight: {
                let mut optional = |id: u8| if is_stored(id) { next(id) } else { Some(0) };
                let rounded_weight = optional(column::ROUNDED_WEIGHTS)?;
                let samples = u32::try_from(optional(column::SAMPLES)?).ok()?;
                let rounded_spacing = u32::try_from(optional(column::ROUNDED_SPACINGS)?).ok()?;
                let (weight, spacing) = (optional(column::WEIGHTS)?, optional(column::SPACINGS)?);
                let is_rounded = rounded_weight != 0 || rounded_spacing != 0;
                let is_one_form = !is_rounded || (weight == 0 && spacing == 0);
                is_one_form.then_some(())?;
                if is_rounded {
                    let spacing = SampleSpacing::from_old_bits(rounded_spacing);
                    Weight::from_bits(rounded_weight)?.of_samples(samples, spacing).rounded_per_record()
                } else {
                    Weight::from_bits(weight)?.of_samples(samples, SampleSpacing::from_bits(spacing))
                }
            },
        };
        is_sound(state, &block).then_some(())?;
        state.blocks.push(block);
    }
    Some(())
}
