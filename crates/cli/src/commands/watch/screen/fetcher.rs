//! Takes looks on a thread of its own: keys work while the collector is asked, however long it takes.

use super::super::looks::{Look, Looker};
use crate::failure::Failure;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};

/// The thread, seen from the view.
pub struct Fetcher {
    requests: Sender<()>,
    answers: Receiver<Result<Look, Failure>>,
    is_asked: bool,
}

impl Fetcher {
    /// Starts the thread. It ends with the process: a collector that does not answer must not delay the end.
    pub fn start(mut looker: Looker) -> Self {
        let (requests, asked) = channel();
        let (answer, answers) = channel();
        std::thread::spawn(move || while asked.recv().is_ok() && answer.send(looker.look()).is_ok() {});
        Self { requests, answers, is_asked: false }
    }

    /// Asks for a look, unless one is on its way.
    pub fn ask(&mut self) {
        if !self.is_asked {
            self.is_asked = true;
            // If the thread is gone, `take` says so.
            let _ = self.requests.send(());
        }
    }

    /// Whether a look is on its way.
    pub fn is_asked(&self) -> bool {
        self.is_asked
    }

    /// The look that was asked for, if it is there.
    pub fn take(&mut self) -> Option<Result<Look, Failure>> {
        let answer = match self.answers.try_recv() {
            Ok(answer) => answer,
            Err(TryRecvError::Empty) => return None,
            Err(TryRecvError::Disconnected) => Err(Failure::fault("the thread that asks the collector has ended")),
        };
        self.is_asked = false;
        Some(answer)
    }
}
