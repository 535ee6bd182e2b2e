//! A queue of jobs that take long, done by a few worker threads: snapshots, and settings that a program has to apply.

use crate::connection::Connection;
use crate::protocol::CollectorRequest;
use rustix::event::EventfdFlags;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// A job.
#[derive(Debug)]
pub struct Job {
    /// The connection that waits for the answer.
    pub connection: Connection,
    /// The work to do.
    pub task: JobTask,
}

/// The kinds of work.
#[derive(Debug)]
pub enum JobTask {
    /// A client's request.
    Request(CollectorRequest),
    /// A program's request for a snapshot of itself, under this name.
    Named(String),
}

/// The result of a job.
#[derive(Debug)]
pub struct JobOutcome {
    /// The connection, if it stays open for further requests.
    pub connection: Option<Connection>,
    /// A line for the log.
    pub line: Option<String>,
}

/// The jobs of a queue.
#[derive(Debug, Default)]
struct QueuedJobs {
    waiting: VecDeque<Job>,
    done: Vec<JobOutcome>,
    /// Jobs being done now.
    running: usize,
    is_closed: bool,
}

/// Queued jobs, and results of finished ones.
#[derive(Debug)]
pub struct JobQueue {
    jobs: Mutex<QueuedJobs>,
    news: Condvar,
    /// Readable when a job is done.
    bell: OwnedFd,
}

impl JobQueue {
    /// An empty queue.
    pub fn new() -> io::Result<Self> {
        let bell = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { jobs: Mutex::default(), news: Condvar::new(), bell })
    }

    fn jobs(&self) -> MutexGuard<'_, QueuedJobs> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a job. A program that waits for a snapshot of itself goes to the front.
    pub fn add(&self, job: Job) {
        let mut jobs = self.jobs();
        match job.task {
            JobTask::Named(_) => jobs.waiting.push_front(job),
            JobTask::Request(_) => jobs.waiting.push_back(job),
        }
        self.news.notify_one();
    }

    /// The number of jobs that are queued or being done.
    pub fn unfinished(&self) -> usize {
        let jobs = self.jobs();
        jobs.waiting.len() + jobs.running
    }

    /// Opens the queue again, if it was closed.
    pub fn open(&self) {
        self.jobs().is_closed = false;
    }

    /// Closes the queue: queued jobs are dropped, and workers return.
    pub fn close(&self) {
        let mut jobs = self.jobs();
        jobs.is_closed = true;
        jobs.waiting.clear();
        self.news.notify_all();
    }

    /// The loop of a worker: does jobs until the queue is closed.
    pub fn help(&self, mut work: impl FnMut(Job) -> JobOutcome) {
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

    /// The results since the last call.
    pub fn outcomes(&self) -> Vec<JobOutcome> {
        let _ = rustix::io::read(&self.bell, &mut [0u8; 8]);
        std::mem::take(&mut self.jobs().done)
    }
}

impl AsFd for JobQueue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}
