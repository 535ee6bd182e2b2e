//! `highwater attach`: the live table of a process that runs already.

mod children;
mod older;
mod order;

pub(crate) use children::attach_to_children;

use super::record::parse_pause;
use super::run::make_sure_of_a_collector;
use crate::attaching::{self, AttachedProcess};
use crate::descendants::StartTime;
use crate::failure::Failure;
use crate::live::{CollectorSocket, ProcessChoice, outside};
use crate::output::{Output, warn};
use crate::print::bytes::counted;
use crate::size::{parse_sample, parse_sample_rate};
use clap::Args;
use highwater_attach::{AttachPlan, NotWalkable, estimate_walk};
use highwater_collector::CollectorClient;
use highwater_collector::protocol::{ProcessState, Which};
use highwater_formats::json;
use highwater_model::Nanos;
use older::{OlderFound, estimate_in_words};
use order::LiveOrder;
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

/// The arguments of `highwater attach`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  highwater attach --pid 4711                   then: highwater snapshot --pid 4711
  highwater attach --name server --dry-run      what would be done, and how long threads would be stopped
  highwater attach --pid 4711 --sample 512KiB   estimates, for less time
  highwater detach --pid 4711                   leaves the process as it was

No library is loaded into the process and no function of it is called. Its threads are stopped for some tenths of a millisecond, and once more while \
glibc's heap is read for blocks from before. A collector is started if none listens; if it ends, recording ends after 10 seconds and the process goes on. \
Children that the process starts from now on are attached to as well.")]
pub struct Attach {
    #[command(flatten)]
    choice: ProcessChoice,
    /// Follow samples: one block for each BYTES allocated, on average (such as 512KiB); 'off' follows all
    #[arg(long, value_name = "BYTES|off", value_parser = parse_sample, default_value = "off")]
    sample: u64,
    /// The same as a rate: the chance of each word of 8 bytes to be a sample, as OCaml's memtrace has it (1e-4: one for each 80 KB)
    #[arg(long, value_name = "RATE", conflicts_with = "sample", value_parser = parse_sample_rate)]
    sample_rate: Option<u64>,
    /// The longest that threads may be stopped while blocks from before are read; 0 leaves these blocks unknown
    #[arg(long, value_name = "TIME", value_parser = parse_pause, default_value = "50ms")]
    pause: Nanos,
    /// Say what would be done, or why it cannot be: nothing in the process is touched, and no thread stops
    #[arg(long)]
    dry_run: bool,
    /// Leave out the process's arguments: only its name is kept
    #[arg(long)]
    no_args: bool,
    /// Let 'highwater snapshot --contents' read what is in the process's blocks
    #[arg(long)]
    allow_contents: bool,
    /// Attach only to the process itself, not to the children that it starts from now on
    #[arg(long)]
    no_children: bool,
    /// Print one JSON document ("schema": 2) instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    socket: CollectorSocket,
}

impl Attach {
    /// Attaches, or says what that would do.
    pub fn run(&self, output: &mut Output) -> Result<(), Failure> {
        if self.choice.is_any() {
            return Err(Failure::Usage("which process to attach to? Name it with --pid or --name".to_owned()));
        }
        let pid = self.choice.outside()?;
        let plan = match attaching::plan(pid) {
            Err(refusal) if self.dry_run && self.json => return refused_as_json(pid, &refusal, output),
            other => other?,
        };
        if self.dry_run {
            return self.show_plan(&plan, output);
        }
        let is_attached = plan.is_attached();
        let socket = self.socket.path()?;
        make_sure_of_a_collector(&socket)?;
        // Also makes sure that the collector answers, before anything is touched.
        if is_known(&socket, pid)? && is_attached {
            drop(plan);
            return self.describe_attached(pid, output);
        }
        if is_attached && plan.has_reader(attaching::SIGN_PATIENCE) {
            return Err(attaching::already_attached(pid));
        }
        drop(plan);
        let order = self.order();
        let children = (!self.no_children).then(|| order.for_children(StartTime::now()));
        let attached = attaching::attach(pid, &LiveOrder::layouts(), is_attached, order.configure())?;
        if let Err(problem) = order::hand_over(&attached, children, &socket) {
            if let Err(failure) = attached.detach() {
                warn(failure.line().unwrap_or_default());
            }
            return Err(Failure::fault(format_args!("process {pid} was detached again: {problem}")));
        }
        let older = OlderFound::read(&attached, &order, &socket);
        self.tell_of_new(pid, &attached, &older, is_attached, output)
    }

    fn order(&self) -> LiveOrder {
        LiveOrder {
            sample_bytes: self.sample_rate.unwrap_or(self.sample),
            no_args: self.no_args,
            contents: self.allow_contents,
            pause: Duration::from_nanos(self.pause.0),
        }
    }

    fn tell_of_new(
        &self,
        pid: u32,
        attached: &AttachedProcess,
        older: &OlderFound,
        replaced: bool,
        output: &mut Output,
    ) -> Result<(), Failure> {
        let stop = &attached.attached.stop;
        if self.json {
            return output.json(json!({
                "schema": json::SCHEMA,
                "command": "attach",
                "pid": pid,
                "name": name_of(pid),
                "is_new": true,
                "functions": attached.attached.header.hook_count,
                "threads": stop.threads,
                "pause_ns": nanoseconds(stop.pause),
                "borrowed_ns": nanoseconds(attached.attached.borrowed),
                "older_blocks": older.as_json(),
            }));
        }
        output.line(&attached.in_words())?;
        if replaced {
            output.line("an earlier attach had lost its collector, and was ended")?;
        }
        let socket = self.socket.to_repeat();
        output.line(&older.in_words())?;
        let since = if matches!(older, OlderFound::Known(..)) { "" } else { " since" };
        output.line(&format!(
            "'highwater snapshot --pid {pid}{socket}' shows what it holds{since}; 'highwater detach --pid {pid}{socket}' ends this"
        ))
    }

    fn describe_attached(&self, pid: u32, output: &mut Output) -> Result<(), Failure> {
        if self.json {
            let name = name_of(pid);
            return output.json(json!({
                "schema": json::SCHEMA, "command": "attach", "pid": pid, "name": name, "is_new": false,
            }));
        }
        let socket = self.socket.to_repeat();
        output.line(&format!(
            "{} ({pid}) is attached to already, and stays so; 'highwater set --pid {pid}{socket} --sample …' changes its rate",
            name_of(pid)
        ))
    }

    /// What attaching would do.
    fn show_plan(&self, plan: &AttachPlan, output: &mut Output) -> Result<(), Failure> {
        let pid = plan.pid().cast_unsigned();
        let older = estimate_walk(plan.pid());
        if self.json {
            return output.json(plan_as_json(plan, &older));
        }
        let (threads, pause) = (counted(plan.threads() as u64, "thread"), plan.estimated_pause());
        let verb = if plan.is_attached() { "is attached to already" } else { "can be attached to" };
        output.line(&format!("{} ({pid}) {verb}; nothing was touched", name_of(pid)))?;
        for allocator in plan.allocators() {
            let functions = counted(allocator.functions.len() as u64, "function");
            output.line(&format!(
                "  hooks    {functions} of {}: {}",
                allocator.module,
                functions_in_words(&allocator.functions)
            ))?;
            if !allocator.probed.is_empty() {
                output.line(&format!("           probes of another tool stay on {}", allocator.probed.join(", ")))?;
            }
        }
        let stopped = attaching::milliseconds(pause);
        output.line(&format!("  stop     {threads}, once, for about {stopped} on a quiet machine"))?;
        output.line(&format!("  before   {}", estimate_in_words(&older)))?;
        if plan.is_filtered() {
            output.line("  seccomp  it has a filter, which is read when a thread stops; if it forbids a call, attaching is refused")?;
        }
        if plan.has_leftover() && !plan.is_attached() {
            output.line("  memory   that an earlier attach left is unmapped")?;
        }
        Ok(())
    }
}

/// Functions in a line. The forms of `operator new` and `delete`, which have long names, are only counted.
fn functions_in_words(functions: &[&str]) -> String {
    let (operators, others): (Vec<&str>, Vec<&str>) = functions.iter().partition(|name| name.starts_with("_Z"));
    let operators = (!operators.is_empty())
        .then(|| counted(operators.len() as u64, "form") + " of operator new and delete")
        .into_iter();
    others.into_iter().map(str::to_owned).chain(operators).collect::<Vec<_>>().join(", ")
}

fn plan_as_json(plan: &AttachPlan, older: &Result<Duration, NotWalkable>) -> Value {
    let allocators: Vec<Value> = plan
        .allocators()
        .into_iter()
        .map(|one| json!({"module": one.module, "functions": one.functions, "probed": one.probed}))
        .collect();
    let older = match older {
        Ok(pause) => json!({"can_be_read": true, "pause_ns": nanoseconds(*pause)}),
        Err(problem) => json!({"can_be_read": false, "problem": problem.to_string()}),
    };
    json!({
        "schema": json::SCHEMA,
        "command": "attach",
        "is_dry_run": true,
        "pid": plan.pid(),
        "name": name_of(plan.pid().cast_unsigned()),
        "can_be_attached": true,
        "is_attached": plan.is_attached(),
        "allocators": allocators,
        "threads": plan.threads(),
        "pause_ns": nanoseconds(plan.estimated_pause()),
        "older_blocks": older,
        "has_filter": plan.is_filtered(),
    })
}

fn refused_as_json(pid: u32, refusal: &Failure, output: &mut Output) -> Result<(), Failure> {
    output.json(json!({
        "schema": json::SCHEMA,
        "command": "attach",
        "is_dry_run": true,
        "pid": pid,
        "can_be_attached": false,
        "problem": refusal.line(),
    }))?;
    Err(Failure::Found)
}

/// Whether the collector reads the agent of a process.
fn is_known(socket: &Path, pid: u32) -> Result<bool, Failure> {
    let asked = CollectorClient::connect(socket).and_then(|mut client| client.processes_among(&Which::Pid(pid)));
    let processes = asked.map_err(Failure::fault)?;
    Ok(processes.iter().any(|process| process.pid == pid && process.state == ProcessState::Live && process.is_attached))
}

/// The name of a process, as `ps -e` shows it.
pub(super) fn name_of(pid: u32) -> String {
    outside::comm(pid).unwrap_or_default()
}

/// For JSON documents.
pub(super) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
