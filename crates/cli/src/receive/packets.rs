//! An incoming memtrace trace: its complete packets and its progress.

use highwater_formats::memtrace::{Decoder, NotATrace, looks_like_memtrace};
use highwater_model::{AddressLedger, Catalog, Event, Source, Totals};

/// The maximum length of a packet; a larger size field is not a packet's.
const LONGEST_PACKET: usize = 1 << 20;
/// The size of a packet is known from this number of bytes.
const SIZE_KNOWN: usize = 8;

/// Takes the bytes of a trace in pieces of any size, and returns them in complete packets.
#[derive(Default)]
pub struct Packets {
    pending: Vec<u8>,
    is_damaged: bool,
    decoder: Decoder,
    catalog: Catalog,
    ledger: AddressLedger,
    packets: u64,
}

impl Packets {
    /// Takes bytes, and appends those of complete packets to `whole`.
    pub fn take(&mut self, bytes: &[u8], whole: &mut Vec<u8>) -> Result<(), NotATrace> {
        self.pending.extend_from_slice(bytes);
        let mut done = 0;
        while let Some(size) = self.size_of_packet(done) {
            let Some(_) = self.pending.get(done..done + size) else { break };
            done += size;
            self.packets += 1;
        }
        if self.is_damaged {
            // Readers find the next packet themselves.
            done = self.pending.len();
        }
        let Self { pending, decoder, catalog, ledger, .. } = self;
        let mut receive = |event: Event, _: &Catalog| ledger.record(&event, &mut ());
        decoder.push(&pending[..done], catalog, &mut receive)?;
        decoder.flush(catalog, &mut receive)?;
        whole.extend(self.pending.drain(..done));
        Ok(())
    }

    fn size_of_packet(&mut self, at: usize) -> Option<usize> {
        let header = self.pending.get(at..at + SIZE_KNOWN)?;
        let bits = u32::from_le_bytes([header[4], header[5], header[6], header[7]]);
        let size = bits as usize / 8;
        self.is_damaged |= !looks_like_memtrace(header) || !(SIZE_KNOWN..=LONGEST_PACKET).contains(&size);
        (!self.is_damaged).then_some(size)
    }

    /// The number of bytes of an incomplete packet.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Whether some bytes were not recognised as packets.
    pub fn is_damaged(&self) -> bool {
        self.is_damaged
    }

    /// The source of the trace, once it is known.
    pub fn source(&self) -> Option<Source> {
        self.decoder.source()
    }

    /// The number of events received.
    pub fn events(&self) -> u64 {
        self.decoder.events()
    }

    /// The figures so far.
    pub fn totals(&self) -> &Totals {
        self.ledger.accounts().totals()
    }
}
