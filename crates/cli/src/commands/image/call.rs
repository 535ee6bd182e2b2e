//! `highwater image call`: calls a hosted program.

use super::program::{show_printed, show_troubles};
use super::socket::HostSocketArgs;
use crate::failure::Failure;
use crate::output::Output;
use clap::Args;
use highwater_formats::json;
use highwater_host::call::{self, duration};
use highwater_host::client::HostClientError;
use serde_json::json;

/// The arguments of `highwater image call`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  highwater image call open '(100)'
  highwater image call 'open(100)'
  highwater image call put '(\"key\", opt record { amount = 5 })'
  highwater image call tick --after 5s     time passes first; timers run
  highwater image call step '(400)'        a plain module's function

Arguments of canisters are Candid's text, those of plain modules whole numbers. The reply goes to standard output, what the program \
printed to standard error. A call that traps changes nothing.")]
pub struct CallArgs {
    /// The method, or the whole call: METHOD(ARGS)
    #[arg(value_name = "METHOD", required_unless_present = "after")]
    method: Option<String>,
    /// Its arguments, in parentheses
    #[arg(value_name = "ARGS")]
    arguments: Option<String>,
    /// Let so much time pass first: 5s, 300ms, 2h
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    after: Option<u64>,
    #[command(flatten)]
    socket: HostSocketArgs,
    /// Print one JSON document ("schema": 2) instead of text
    #[arg(long)]
    json: bool,
}

impl CallArgs {
    /// Makes the call, and prints the reply.
    pub fn run(&self, output: &mut Output) -> Result<(), Failure> {
        let after = self.after.map_or_else(String::new, |nanoseconds| format!("+{nanoseconds}ns "));
        let (method, arguments) = (self.method.as_deref(), self.arguments.as_deref());
        let text = format!("{after}{}{}", method.unwrap_or_default(), arguments.unwrap_or_default());
        let call: call::ProgramCall = text.parse().map_err(Failure::Usage)?;
        let answer = match self.socket.connect()?.call(&call.to_string()) {
            Ok(answer) => answer,
            Err(HostClientError::Failed(failed)) => {
                show_printed(&failed.printed);
                return Err(Failure::fault(failed.line));
            }
            Err(error) => return Err(Failure::fault(error)),
        };
        if self.json {
            return output.json(json!({
                "schema": json::SCHEMA, "command": "image call", "call": call.to_string(),
                "reply": answer.reply, "printed": answer.printed, "troubles": answer.troubles,
            }));
        }
        show_printed(&answer.printed);
        show_troubles(&answer.troubles);
        match answer.reply {
            Some(reply) => output.text(&format!("{reply}\n")),
            None => Ok(()),
        }
    }
}
