//! Making mutated recordings pass their checksums, so that the mutations reach the decoders behind them.

const FILE_HEADER: usize = 16;
const BLOCK_HEADER: usize = 24;
const BLOCK_MAGIC: &[u8; 4] = b"HWB1";
const INDEX: u8 = 6;
const END: u8 = 7;

/// A file like `bytes` in which every checksum holds.
///
/// A block is what lies between one magic number and the next, whatever its length field says, so that mutations may
/// add and remove bytes. Two of the three bytes of a block header that have no meaning yet get one here: where the first
/// is 1 the block's length stays as it is, wrong or not; where the second is 1 an end block goes on pointing where it
/// did, else it points to the last index.
pub fn reseal(bytes: &[u8]) -> Vec<u8> {
    let mut file = bytes.to_vec();
    file.resize(file.len().max(FILE_HEADER + BLOCK_HEADER), 0);
    file[..8].copy_from_slice(b"\x89HW\r\n\x1a\x01\x00");
    let header_crc = crc32fast::hash(&file[..8]);
    put_u32(&mut file, 8, header_crc);
    file[12..16].fill(0);
    file[FILE_HEADER..FILE_HEADER + 4].copy_from_slice(BLOCK_MAGIC);
    let mut start = FILE_HEADER;
    let mut index = 0;
    while start + BLOCK_HEADER <= file.len() {
        let end = next_magic(&file, start + BLOCK_HEADER);
        if file[start + 4] == INDEX {
            index = start as u64;
        }
        seal_block(&mut file[start..end], index);
        start = end;
    }
    file
}

/// Where the next block begins, or the end of the file.
fn next_magic(file: &[u8], from: usize) -> usize {
    let found = file[from..].windows(BLOCK_MAGIC.len()).position(|window| window == BLOCK_MAGIC);
    found.map_or(file.len(), |at| from + at)
}

fn seal_block(block: &mut [u8], index: u64) {
    let payload_length = block.len() - BLOCK_HEADER;
    if block[5] != 1 {
        put_u32(block, 8, payload_length as u32);
    }
    if block[4] == END && block[6] != 1 && payload_length == 8 {
        block[BLOCK_HEADER..].copy_from_slice(&index.to_le_bytes());
    }
    let claimed = u32::from_le_bytes([block[8], block[9], block[10], block[11]]) as usize;
    let payload_crc = crc32fast::hash(&block[BLOCK_HEADER..][..claimed.min(payload_length)]);
    put_u32(block, 16, payload_crc);
    let header_crc = crc32fast::hash(&block[..20]);
    put_u32(block, 20, header_crc);
}

fn put_u32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}
