//! Reading a process's memory from outside.
//!
//! Only pages that the scan showed in RAM are read. Reading another page changes the process: the kernel maps the page of zeros there, brings a page back from swap, or
//! makes a page of a file resident.

use crate::mappings::PAGE;
use crate::regions::Regions;
use libc::iovec;

/// Memory that can be read where it is in RAM.
pub trait ReadMemory {
    /// Fills `to` with the bytes at `address`; `false` if not all of them are in RAM.
    fn read(&self, address: u64, to: &mut [u8]) -> bool;

    /// The word at an address.
    fn word(&self, address: u64) -> Option<u64> {
        let mut word = [0; 8];
        self.read(address, &mut word).then(|| u64::from_ne_bytes(word))
    }

    /// Words in a row.
    fn words<const COUNT: usize>(&self, address: u64) -> Option<[u64; COUNT]>
    where
        Self: Sized,
    {
        let mut bytes = vec![0; COUNT * 8];
        self.read(address, &mut bytes).then(|| {
            let words = bytes.as_chunks::<8>().0;
            std::array::from_fn(|index| u64::from_ne_bytes(words[index]))
        })
    }

    /// Three words at each of the addresses.
    fn triples(&self, addresses: &[u64]) -> Vec<Option<[u64; 3]>>
    where
        Self: Sized,
    {
        addresses.iter().map(|&address| self.words(address)).collect()
    }

    /// The words of a range. Pages that are not in RAM read as zeros.
    fn words_or_zeros(&self, start: u64, end: u64) -> Vec<u64> {
        let mut words = Vec::new();
        let mut page = [0; PAGE as usize];
        let mut at = start;
        while at < end {
            let to = (at - at % PAGE).saturating_add(PAGE).min(end);
            let part = &mut page[..(to - at) as usize];
            if !self.read(at, part) {
                part.fill(0);
            }
            words.extend(part.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word)));
            at = to;
        }
        words
    }
}

/// The memory of another process.
#[derive(Debug)]
pub struct RemoteMemory<'a> {
    pub pid: u32,
    pub regions: &'a Regions,
}

/// Ranges that one call reads.
const BATCH: usize = 512;

impl ReadMemory for RemoteMemory<'_> {
    fn read(&self, address: u64, to: &mut [u8]) -> bool {
        let Some(end) = address.checked_add(to.len() as u64) else { return false };
        if !self.regions.are_present(address, end) {
            return false;
        }
        let local = iovec { iov_base: to.as_mut_ptr().cast(), iov_len: to.len() };
        let remote = iovec { iov_base: address as *mut libc::c_void, iov_len: to.len() };
        read_vectors(self.pid, &[local], &[remote]) == to.len()
    }

    fn triples(&self, addresses: &[u64]) -> Vec<Option<[u64; 3]>> {
        addresses.chunks(BATCH).flat_map(|batch| self.batch(batch)).collect()
    }
}

impl RemoteMemory<'_> {
    fn batch(&self, addresses: &[u64]) -> Vec<Option<[u64; 3]>> {
        const BYTES: usize = 24;
        let is_present =
            |address: u64| address.checked_add(BYTES as u64).is_some_and(|end| self.regions.are_present(address, end));
        let present: Vec<usize> = (0..addresses.len()).filter(|&index| is_present(addresses[index])).collect();
        let mut read = vec![[0u64; 3]; present.len()];
        let local = iovec { iov_base: read.as_mut_ptr().cast(), iov_len: BYTES * read.len() };
        let remote = |&index: &usize| iovec { iov_base: addresses[index] as *mut libc::c_void, iov_len: BYTES };
        let remote: Vec<iovec> = present.iter().map(remote).collect();
        let done = read_vectors(self.pid, &[local], &remote) / BYTES;
        let mut triples = vec![None; addresses.len()];
        for (&index, words) in present.iter().zip(&read).take(done) {
            triples[index] = Some(*words);
        }
        triples
    }
}

/// The bytes that were read.
fn read_vectors(pid: u32, local: &[iovec], remote: &[iovec]) -> usize {
    // SAFETY: the local ranges are writable and of these lengths; the remote ones are checked by the kernel.
    let read = unsafe {
        libc::process_vm_readv(
            pid as libc::pid_t,
            local.as_ptr(),
            local.len() as libc::c_ulong,
            remote.as_ptr(),
            remote.len() as libc::c_ulong,
            0,
        )
    };
    usize::try_from(read).unwrap_or(0)
}
