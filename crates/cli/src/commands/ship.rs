//! `highwater ship`: the memory of all live processes of this host, slot by slot.

use crate::failure::{Failure, reason};
use crate::live::Asking;
use crate::name_sources::NameSources;
use crate::output::say;
use crate::size::parse_bytes;
use clap::Args;
use highwater_model::parse_duration;
use highwater_ship::{
    Environment, LabelRules, SendError, ShipOptions, Shipper, TargetOptions, default_spool, open_target,
};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// The arguments of `highwater ship`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  highwater ship --to /mnt/lake                 every live process, each minute
  highwater ship --to s3://memory/prod --region eu-1
  highwater ship --to pyroscope http://127.0.0.1:4040
  highwater ship --to otlp http://127.0.0.1:4318
  highwater ship --to lake --name server --every 10s
  highwater ship --to lake --once               one slot now, then end
  highwater ship --to lake --spool /var/lib/highwater --spool-bytes 1GiB

It asks the collector, and waits if none listens. Labels come from the flags, from the
environment of each process (OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES, POD_NAME, ...),
and at last from the names of program and host. See docs/ship.md.")]
pub struct Ship {
    /// The lake: a folder, or a URL such as s3://bucket/prefix; or a store of profiles: 'pyroscope URL' or 'otlp URL', also as one word such as pyroscope+http://HOST:PORT
    #[arg(long = "to", value_name = "LAKE", num_args = 1..=2, required = true)]
    target: Vec<String>,
    /// The tenant of a store of profiles (X-Scope-OrgID)
    #[arg(long, value_name = "NAME")]
    tenant: Option<String>,
    /// A file whose first line is the value of the field Authorization, such as 'Bearer TOKEN' [default: $HIGHWATER_AUTHORIZATION]
    #[arg(long, value_name = "FILE")]
    authorization_file: Option<PathBuf>,
    /// Time from slot to slot; slots are multiples of it on the wall clock
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse_seconds)]
    every: i64,
    /// Take a slot up to so much later: the host's name decides by how much [default: a sixth of --every]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    jitter: Option<Duration>,
    /// The service of all processes
    #[arg(long, value_name = "NAME")]
    service: Option<String>,
    /// The version of all processes
    #[arg(long = "version", value_name = "VERSION")]
    service_version: Option<String>,
    /// The region of this host
    #[arg(long, value_name = "REGION")]
    region: Option<String>,
    /// The name of this host
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    /// Any of these labels, and container: 'container=web'; may be repeated
    #[arg(long = "label", value_name = "LABEL=VALUE", value_parser = parse_label)]
    labels: Vec<(String, String)>,
    /// Only programs whose name contains one of these texts
    #[arg(long = "name", value_name = "NAME", num_args = 1..)]
    names: Vec<String>,
    /// Where slots wait until they are sent [default: highwater/ship/... in $XDG_STATE_HOME or ~/.local/state]
    #[arg(long, value_name = "DIR")]
    spool: Option<PathBuf>,
    /// The most bytes that wait; beyond that the oldest slots are dropped
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = parse_bytes)]
    spool_bytes: u64,
    /// Send slots together, as one file for each table, after this time
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = parse_seconds)]
    file_every: i64,
    /// Send them earlier if they have more bytes in the spool
    #[arg(long, value_name = "SIZE", default_value = "8MiB", value_parser = parse_bytes)]
    file_bytes: u64,
    /// Take one slot, send it, and end
    #[arg(long)]
    once: bool,
    /// Say nothing but errors
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    names_from: NameSources,
    #[command(flatten)]
    collector: Asking,
}

fn parse_time(text: &str) -> Result<Duration, String> {
    let time = parse_duration(text).map(|time| Duration::from_nanos(time.0));
    time.ok_or_else(|| "not a time; such as 10s, 500ms, 2m".to_owned())
}

fn parse_seconds(text: &str) -> Result<i64, String> {
    const MOST: u64 = 86_400;
    let time = parse_time(text)?;
    let is_whole = time.subsec_nanos() == 0 && (1..=MOST).contains(&time.as_secs());
    is_whole.then_some(time.as_secs() as i64).ok_or_else(|| "not whole seconds, from 1s to 24h".to_owned())
}

fn parse_label(text: &str) -> Result<(String, String), String> {
    let (label, value) = text.split_once('=').ok_or("not LABEL=VALUE")?;
    LabelRules::default().set(label, value).map_err(|error| error.to_string())?;
    Ok((label.to_owned(), value.to_owned()))
}

impl Ship {
    /// The target as one word.
    fn target(&self) -> Result<String, Failure> {
        match &*self.target {
            [target] => Ok(target.clone()),
            [kind, url] if matches!(&**kind, "pyroscope" | "otlp") && url.contains("://") => {
                Ok(format!("{kind}+{url}"))
            }
            _ => Err(Failure::Usage("--to takes one lake, 'pyroscope URL' or 'otlp URL'".into())),
        }
    }

    /// Ships until a signal stops it.
    pub fn run(&self) -> Result<(), Failure> {
        let to = self.target()?;
        let stop = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&stop)).map_err(|error| Failure::fault(reason(&error)))?;
        }
        let options =
            TargetOptions { tenant: self.tenant.clone(), authorization_file: self.authorization_file.clone() };
        let target = open_target(&to, options).map_err(|error: SendError| Failure::fault(error))?;
        let options = self.options(&to)?;
        let spool = options.spool.display().to_string();
        let shipper = Shipper::new(options, target).map_err(Failure::fault)?;
        // If memory runs out, the kernel should kill it before the programs that it serves.
        highwater_session::be_ended_first();
        let quiet = self.quiet;
        if !quiet && !self.once {
            let (every, jitter) = (Duration::from_secs(self.every.unsigned_abs()), shipper.jitter().as_millis());
            say(&format!(
                "ships to {to} every {every:?}, {jitter} ms after the slot; spool in {spool}; Ctrl-C ends it"
            ));
        }
        let line = move |line: &str| {
            if !quiet || !line.starts_with("sent ") {
                say(line);
            }
        };
        shipper.run(&stop, Arc::new(line)).map_err(Failure::fault)
    }

    fn options(&self, to: &str) -> Result<ShipOptions, Failure> {
        let machine = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let mut rules = LabelRules::new(Environment::own(), &machine);
        let flags = [
            ("service", &self.service),
            ("version", &self.service_version),
            ("region", &self.region),
            ("host", &self.host),
        ];
        let flags = flags.into_iter().filter_map(|(label, value)| Some((label, value.as_deref()?)));
        let labels = self.labels.iter().map(|(label, value)| (label.as_str(), value.as_str()));
        for (label, value) in labels.chain(flags) {
            rules.set(label, value).map_err(Failure::fault)?;
        }
        Ok(ShipOptions {
            socket: self.collector.socket()?,
            timeout: self.collector.timeout(),
            every: self.every,
            jitter: self.jitter.unwrap_or(Duration::from_secs(self.every.unsigned_abs()) / 6),
            rules,
            spool: self.spool(to)?,
            spool_bytes: self.spool_bytes,
            file_every: self.file_every,
            file_bytes: self.file_bytes,
            names: self.names.clone(),
            once: self.once,
            servers: self.names_from.servers(),
        })
    }

    /// The spool of this target. Two shippers with two targets have two.
    fn spool(&self, to: &str) -> Result<PathBuf, Failure> {
        if let Some(spool) = &self.spool {
            return Ok(spool.clone());
        }
        default_spool(to).ok_or_else(|| {
            Failure::fault("neither XDG_STATE_HOME nor HOME is an absolute path; name a folder with --spool")
        })
    }
}
