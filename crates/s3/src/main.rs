//! `highwater-s3`: reads and writes lakes in object stores. `highwater ship`, `lake` and `fleet` start it for `s3://BUCKET/PREFIX`.
//!
//! It is a program of its own because the libraries take minutes to build. It speaks [`protocol`](highwater_lake::store::protocol) on its standard input and
//! output, and ends with its input: an upload that was begun is given up first.
//!
//! * [`bucket`] opens the store, from the environment. It refuses without credentials, before anything is contacted.
//! * [`requests`] does what is asked. [`failure`] makes one line of what went wrong, and [`listing_check`] notices answers of other servers.
#![forbid(unsafe_code)]

mod bucket;
mod failure;
mod listing_check;
mod requests;

use bucket::Bucket;
use futures_util::future::{Either, select};
use highwater_lake::store::protocol::{StoreAnswer, StoreFailure, StoreRequest};
use std::io::{BufRead, Read, Write};
use std::pin::pin;
use std::process::ExitCode;
use tokio::sync::mpsc;

const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The longest request that is taken: a thousand downloads are some hundred kilobytes.
const LONGEST_REQUEST: u64 = 16 << 20;
const USAGE: &str = "usage: highwater-s3 [--instance-credentials] s3://BUCKET/PREFIX";

fn main() -> ExitCode {
    let mut uri = None;
    // A variable too, because 'highwater' starts this program.
    let mut instance_credentials =
        std::env::var("HIGHWATER_S3_INSTANCE_CREDENTIALS").is_ok_and(|value| value == "1" || value == "true");
    for argument in std::env::args_os().skip(1) {
        match argument.to_str() {
            Some("--version") => {
                println!("highwater-s3 {VERSION}");
                return ExitCode::SUCCESS;
            }
            Some("--help" | "-h") => {
                println!("{USAGE}\nReads and writes a lake for 'highwater': docs/lake-s3.md");
                return ExitCode::SUCCESS;
            }
            Some("--instance-credentials") => instance_credentials = true,
            Some(text) if uri.is_none() && !text.starts_with('-') => uri = Some(text.to_owned()),
            _ => uri = None,
        }
    }
    let Some(uri) = uri else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    match serve(&uri, instance_credentials) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            say(&StoreAnswer::Failed(failure));
            ExitCode::FAILURE
        }
    }
}

fn serve(uri: &str, instance_credentials: bool) -> Result<(), StoreFailure> {
    let internal = |error: std::io::Error| StoreFailure::Refused(format!("highwater-s3: {error}"));
    let bucket = Bucket::open(uri, |name| std::env::var(name).ok(), std::env::vars_os(), instance_credentials)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(internal)?;
    let (sender, mut lines) = mpsc::channel(1);
    std::thread::Builder::new().spawn(move || read_requests(&sender)).map_err(internal)?;
    say(&StoreAnswer::Ready { version: VERSION.to_owned(), identity: bucket.identity() });
    runtime.block_on(async {
        while let Some(line) = lines.recv().await {
            let request: StoreRequest = match serde_json::from_slice(&line) {
                Ok(request) => request,
                Err(error) => return Err(StoreFailure::Refused(format!("highwater-s3: not a request: {error}"))),
            };
            let done = match select(pin!(requests::answer(&bucket, request)), pin!(lines.recv())).await {
                Either::Left((done, _)) => done,
                // The client has closed its end, or asks something else.
                Either::Right(_) => break,
            };
            say(&done.map_or_else(StoreAnswer::Failed, |()| StoreAnswer::Done));
        }
        requests::give_up_upload(&bucket).await;
        Ok(())
    })
}

fn read_requests(requests: &mpsc::Sender<Vec<u8>>) {
    let mut input = std::io::stdin().lock();
    loop {
        let mut line = Vec::new();
        let read = input.by_ref().take(LONGEST_REQUEST).read_until(b'\n', &mut line);
        if read.is_err() || line.pop() != Some(b'\n') || requests.blocking_send(line).is_err() {
            return;
        }
    }
}

/// Writes an answer. An error is ignored: without a reader the input has ended too.
fn say(answer: &StoreAnswer) {
    if let Ok(mut line) = serde_json::to_vec(answer) {
        line.push(b'\n');
        let mut output = std::io::stdout().lock();
        let _ = output.write_all(&line).and_then(|()| output.flush());
    }
}
