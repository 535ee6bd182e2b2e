//! Work that takes a while, done by a few threads: snapshots, and settings that a program has to follow.

use crate::connection::Connection;
use crate::protocol::Request;
use rustix::event::EventfdFlags;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// What somebody waits for.
#[derive(Debug)]
pub struct Job {
    /// Who.
    pub connection: Connection,
    /// What.
    pub task: Task,
}

/// What there is to do.
#[derive(Debug)]
pub enum Task {
    /// A client wants something.
    Request(Request),
    /// A program wants a snapshot of itself, under this name.
    Named(String),
}

/// What came of a job.
#[derive(Debug)]
pub struct Outcome {
    /// Who may ask for more.
    pub connection: Option<Connection>,
    /// For the log.
    pub line: Option<String>,
}

#[derive(Debug, Default)]
struct Jobs {
    waiting: VecDeque<Job>,
    done: Vec<Outcome>,
    /// Jobs that are being done.
    running: usize,
    is_closed: bool,
}

/// The jobs, and what came of them.
#[derive(Debug)]
pub struct Work {
    jobs: Mutex<Jobs>,
    news: Condvar,
    /// Readable when a job is done.
    bell: OwnedFd,
}

impl Work {
    /// Nothing to do yet.
    pub fn new() -> io::Result<Self> {
        let bell = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { jobs: Mutex::default(), news: Condvar::new(), bell })
    }

    fn jobs(&self) -> MutexGuard<'_, Jobs> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a job. Programs that wait for a snapshot of themselves come first.
    pub fn add(&self, job: Job) {
        let mut jobs = self.jobs();
        match job.task {
            Task::Named(_) => jobs.waiting.push_front(job),
            Task::Request(_) => jobs.waiting.push_back(job),
        }
        self.news.notify_one();
    }

    /// Jobs that wait or are being done.
    pub fn unfinished(&self) -> usize {
        let jobs = self.jobs();
        jobs.waiting.len() + jobs.running
    }

    /// Begins, if it was ended before.
    pub fn open(&self) {
        self.jobs().is_closed = false;
    }

    /// Jobs that wait are dropped, and those who do them go home.
    pub fn close(&self) {
        let mut jobs = self.jobs();
        jobs.is_closed = true;
        jobs.waiting.clear();
        self.news.notify_all();
    }

    /// Does jobs until there will be no more.
    pub fn help(&self, mut work: impl FnMut(Job) -> Outcome) {
        let mut jobs = self.jobs();
        while !jobs.is_closed {
            let Some(job) = jobs.waiting.pop_front() else {
                jobs = self.news.wait(jobs).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            jobs.running += 1;
            drop(jobs);
            let outcome = work(job);
            jobs = self.jobs();
            jobs.running -= 1;
            jobs.done.push(outcome);
            let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
        }
    }

    /// What came of jobs since this was asked last.
    pub fn outcomes(&self) -> Vec<Outcome> {
        let _ = rustix::io::read(&self.bell, &mut [0u8; 8]);
        std::mem::take(&mut self.jobs().done)
    }
}

impl AsFd for Work {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}
