//! The streams of a process: which clients get them, and since when.

use super::{NO_CLIENT, ProcessRecording};
use crate::mappings::Mappings;
use crate::stream::{Stream, Wire};
use highwater_model::{Accounts, AccountsState, AddressLedger, BlockExtent, Source, Step, StepSink};
use highwater_store::StepWriter;
use std::fs::File;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How long the stream of a client that has asked to end waits for names.
const WAIT_FOR_NAMES: Duration = Duration::from_secs(3);

impl ProcessRecording {
    /// Sends what is due, drops clients that have left, and accepts new ones.
    pub(super) fn tend_streams(&mut self, now: Instant) {
        let Some(mut streaming) = self.streaming.take() else { return };
        if self.streams.iter().any(Stream::needs_names) {
            streaming.naming.go_on_until_idle(&mut self.catalog);
        }
        if !self.streams.is_empty() && streaming.naming.go_on(&mut self.catalog) {
            self.streams.iter_mut().for_each(Stream::has_news);
        }
        let source = Source { duration: self.stamps.now(), ..self.source.clone() };
        let (accounts, catalog) = (self.ledger.accounts(), &mut self.catalog);
        for mut stream in std::mem::take(&mut self.streams) {
            if !stream.tend(now, accounts, catalog, &source) {
                streaming.has_ended(stream.drop_it());
                continue;
            }
            match stream.asked_to_end(now) {
                Some(since) if since > WAIT_FOR_NAMES || streaming.naming.is_idle(catalog) => {
                    self.closing.push(stream.finish(accounts, catalog, &source));
                }
                _ => self.streams.push(stream),
            }
        }
        for done in self.closing.extract_if(.., |closing| closing.is_done()) {
            streaming.has_ended(done.wait(streaming.patience));
        }
        while let Some((outbox, slot)) = streaming.next(self.streams.len() + self.closing.len()) {
            if !self.is_awake() {
                self.wake();
            }
            if streaming.wire == Wire::Memtrace {
                streaming.naming.go_on_until_idle(&mut self.catalog);
            }
            let (source, accounts) = (&self.source, self.ledger.accounts());
            match Stream::begin(streaming.wire, outbox, slot, source, accounts, &self.catalog) {
                Ok(stream) => self.streams.push(stream),
                Err(_) => break,
            }
        }
        if streaming.is_on_demand() && self.streams.is_empty() && self.is_awake() {
            self.sleep();
        }
        self.streaming = Some(streaming);
    }

    /// A client has connected: allocations from now on are recorded. Nothing is known of earlier ones.
    fn wake(&mut self) {
        let now = self.stamps.now().max(self.last_time);
        self.last_time = now;
        self.awake_since = now;
        self.last_resident = [0; 2];
        self.last_curves = [0; 2];
        let beginning = AccountsState { last_time: now, ..AccountsState::default() };
        self.ledger = AddressLedger::from_accounts(Accounts::from_state(beginning));
        self.owners.iter_mut().for_each(|owner| owner.number = None);
        self.mappings = Mappings::default();
        self.shared.header().go.store(1, Ordering::Release);
    }

    /// The last client has left.
    fn sleep(&mut self) {
        self.shared.header().go.store(0, Ordering::Release);
        self.awake_since = NO_CLIENT;
    }

    /// Ends the streams as they are, without completing them.
    pub(crate) fn drop_streams(&mut self) {
        self.streams.drain(..).for_each(|stream| drop(stream.drop_it()));
        self.streaming = None;
    }
}

/// All writers of a recording: the file and the streams.
pub(super) struct RecordingWriters<'a> {
    pub file: &'a mut Option<StepWriter<File>>,
    pub streams: &'a mut [Stream],
}

impl StepSink for RecordingWriters<'_> {
    #[inline]
    fn write(&mut self, step: Step, was: BlockExtent) {
        if let Some(file) = self.file {
            file.write(step, was);
        }
        self.streams.iter_mut().for_each(|stream| stream.write(step, was));
    }
}
