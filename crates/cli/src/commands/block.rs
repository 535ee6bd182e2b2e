//! `highwater block`: the life of one block.

use crate::args::{FileArgs, Filters, Reading};
use crate::failure::Failure;
use crate::naming::NameArgs;
use crate::open::{self, Opened};
use crate::output::Output;
use crate::print::bytes::{bytes, count, counted};
use crate::print::colour::Style;
use crate::print::heading::{self, Heading};
use crate::print::stack::{Depth, SiteView, add_site_row};
use crate::print::table::{Align, Cell, Table};
use clap::Args;
use highwater_formats::json;
use highwater_model::{AllocId, Catalog, Clock, Naming, Nanos, Source, StackId, ThreadId, When};
use highwater_query::{
    BiographyAnswer, BlockChoice, BlocksAnswer, BlocksOptions, Filter, LifeEventAnswer, OccupantAnswer, Query,
    biography, blocks, moment,
};
use serde_json::Value;
use std::sync::Arc;

/// The arguments of `highwater block`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  highwater block app.hw               the largest live blocks at the end
  highwater block app.hw --at peak     at the peak
  highwater block app.hw --ever        the largest blocks ever
  highwater block app.hw --id 4711     the life of a block
  highwater block app.hw --address 0x7f00dead1000            the last block there
  highwater block app.hw --address 0x7f00dead1000 --at 2.5s  the block at that time
  highwater block app.hw --id 4711 --json | jq '.events'

Who freed a block is known if the program was recorded with --free-stacks.")]
pub struct BlockArgs {
    #[command(flatten)]
    input: FileArgs,
    /// The block with this number
    #[arg(long, value_name = "N", conflicts_with_all = ["address", "ever"])]
    id: Option<u64>,
    /// The block that any byte of lay at this address, at the instant of --at or last before it
    #[arg(long, value_name = "ADDRESS", value_parser = parse_address, conflicts_with = "ever")]
    address: Option<u64>,
    /// The instant: start, peak, rss-peak, end, a time (12.5s, 300ms, 1h30m), a part (80%) or mark:NAME
    #[arg(long, value_name = "WHEN", default_value = "end", conflicts_with = "id")]
    at: When,
    /// List the largest blocks ever, not only those that are live at the instant
    #[arg(long, conflicts_with = "at")]
    ever: bool,
    /// How many blocks are listed
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=1000))]
    top: u16,
    #[command(flatten)]
    filters: Filters,
    /// How much of each call stack is shown
    #[arg(long, value_enum, default_value_t, value_name = "DEPTH")]
    stacks: Depth,
    #[command(flatten)]
    names: NameArgs,
    #[command(flatten)]
    reading: Reading,
}

fn parse_address(text: &str) -> Result<u64, String> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let number = if is_hex { u64::from_str_radix(digits, 16).ok() } else { None };
    number.ok_or_else(|| "not an address; such as 0x7f00dead1000".to_owned())
}

impl BlockArgs {
    /// Prints the life of a block, or the largest blocks.
    pub fn run(&self, output: &mut Output) -> Result<(), Failure> {
        let opened = open::open(&self.input.path, self.reading.on_damage())?;
        opened.must_know(&self.at)?;
        let naming = self.names.of(&opened)?;
        let choice = match (self.id, self.address) {
            (Some(id), _) => BlockChoice::Number(AllocId(id)),
            (None, Some(address)) => BlockChoice::Address(address),
            (None, None) => return self.list(&opened, &naming, output),
        };
        let answer = opened.ask_history(|history, work| {
            let at = moment(history, history.whole(), self.at.clone())?;
            biography(&Query { at, naming: naming.clone(), ..Query::new(Arc::clone(history)) }, choice, work)
        })?;
        if self.reading.json {
            return self.print_json("block", &opened, &answer, output);
        }
        let page = Page { source: opened.source(), catalog: opened.catalog(), naming: &naming, depth: self.stacks };
        output.text(&page.head(&answer).render(output.paint, output.width))?;
        output.text(&format!("\n{}", page.life(&answer).render(output.paint, output.width)))?;
        output.text(&page.remarks(&answer))
    }

    fn print_json(
        &self,
        name: &str,
        opened: &Opened,
        answer: &impl serde::Serialize,
        output: &mut Output,
    ) -> Result<(), Failure> {
        let mut document: Value = json::head(name, &*opened.snapshot(&When::End)?).into();
        let answer = serde_json::to_value(answer).map_err(Failure::fault)?;
        answer.as_object().into_iter().flatten().for_each(|(name, value)| document[name] = value.clone());
        output.json(document)
    }

    /// The largest blocks, with the numbers by which they can be asked about.
    fn list(&self, opened: &Opened, naming: &Naming, output: &mut Output) -> Result<(), Failure> {
        let options = BlocksOptions { limit: self.top.into(), ..BlocksOptions::default() };
        let answer = opened.ask_history(|history, work| {
            let at = moment(history, history.whole(), self.at.clone())?;
            let mut filters = self.filters.every();
            if self.ever {
                filters.push("allocated:0..".parse::<Filter>()?);
            }
            blocks(&Query { at, filters, naming: naming.clone(), ..Query::new(Arc::clone(history)) }, &options, work)
        })?;
        if self.reading.json {
            return self.print_json("blocks", opened, &answer, output);
        }
        let page = Page { source: opened.source(), catalog: opened.catalog(), naming, depth: self.stacks };
        let mut head = Heading::default();
        heading::add_program(&mut head, opened.source());
        let which = if self.ever { "ever".to_owned() } else { format!("live at {}", self.at) };
        let all = format!("{}, {}, {which}", counted(answer.count, "block"), bytes(answer.bytes));
        head.line("blocks", if self.filters.is_empty() { all } else { format!("{all}; only {}", self.filters) });
        output.text(&head.render(output.paint, output.width))?;
        output.text(&format!("\n{}", page.list(&answer).render(output.paint, output.width)))
    }
}

/// What is printed about blocks of one file.
struct Page<'a> {
    source: &'a Source,
    catalog: &'a Catalog,
    naming: &'a Naming,
    depth: Depth,
}

impl Page<'_> {
    /// An instant with enough digits to tell two events apart.
    fn instant(&self, at: u64) -> String {
        match self.source.clock {
            Clock::Time => format!("{}.{:06}s", count(at / 1_000_000_000), at % 1_000_000_000 / 1000),
            _ => self.source.instant(Nanos(at)),
        }
    }

    fn thread(&self, thread: u64) -> String {
        match self.catalog.thread_name(ThreadId(thread)) {
            "" => thread.to_string(),
            name => format!("{name} ({thread})"),
        }
    }

    fn head(&self, answer: &BiographyAnswer) -> Heading {
        let block = &answer.block;
        let mut head = Heading::default();
        heading::add_program(&mut head, self.source);
        head.line("block", format!("number {} at {}", count(block.id), block.address));
        let usable = block.usable.map_or_else(String::new, |usable| format!(", usable {}", bytes(usable)));
        let weight =
            if block.weight > 1.0 { format!(", stands for {:.1} blocks", block.weight) } else { String::new() };
        head.line("size", format!("{} ({} bytes){usable}{weight}", bytes(block.size), count(block.size)));
        head.line("heap", block.heap);
        for (label, text) in [("type", &block.type_name), ("variable", &block.variable), ("task", &block.task)] {
            text.iter().for_each(|text| head.line(label, text.as_str()));
        }
        let lived = block.lifetime_ns.map(|lived| self.source.length(Nanos(lived)));
        match lived {
            Some(lived) => head.line("lived", lived),
            None if answer.has_history => head.line("lived", "never freed"),
            None => {}
        }
        head
    }

    fn life(&self, answer: &BiographyAnswer) -> Table {
        let mut table = Table::default()
            .column(Align::Right, "time")
            .column(Align::Left, "what")
            .column(Align::Right, "size")
            .column(Align::Left, "address")
            .column(Align::Left, "thread")
            .column(Align::Left, "by");
        if let Some(before) = &answer.before {
            self.add_occupant(&mut table, "was here before", before, before.until_ns.unwrap_or(before.since_ns));
        }
        for (at, event) in answer.events.iter().enumerate() {
            if answer.left_out > 0 && at + 1 == answer.events.len() {
                let cells = ["", "…", "", "", ""].map(Cell::from).to_vec();
                let what = format!("{} more reallocations", count(answer.left_out));
                table.row(cells.into_iter().chain([Cell::new(Style::Dim, &what)]).collect());
            }
            self.add_event(&mut table, event);
        }
        if let Some(after) = &answer.after {
            self.add_occupant(&mut table, "came here next", after, after.since_ns);
        }
        table
    }

    fn add_event(&self, table: &mut Table, event: &LifeEventAnswer) {
        let size = match event.old_size {
            Some(old) => format!("{} → {}", bytes(old), bytes(event.size)),
            None => bytes(event.size),
        };
        let address = match &event.old_address {
            Some(old) => format!("{old} → {}", event.address),
            None => event.address.clone(),
        };
        let what = match event.what {
            "evicted" => "freed unseen",
            "known" => "live already",
            what => what,
        };
        let cells = vec![
            self.instant(event.time_ns).into(),
            Cell::new(Style::Bold, what),
            size.into(),
            address.into(),
            event.thread.map_or_else(String::new, |thread| self.thread(thread)).into(),
        ];
        match event.site {
            Some(site) => self.add_stack(table, cells, StackId(site)),
            None => table.row(cells.into_iter().chain([Cell::new(Style::Dim, "not recorded")]).collect()),
        }
    }

    fn add_stack(&self, table: &mut Table, cells: Vec<Cell>, stack: StackId) {
        add_site_row(table, cells, self.catalog, stack, SiteView { depth: self.depth, naming: self.naming }, "");
    }

    fn add_occupant(&self, table: &mut Table, what: &str, one: &OccupantAnswer, at: u64) {
        let block = &one.block;
        let cells = vec![
            Cell::new(Style::Dim, &self.instant(at)),
            Cell::new(Style::Dim, what),
            Cell::new(Style::Dim, &bytes(block.size)),
            Cell::new(Style::Dim, &block.address),
            Cell::new(Style::Dim, &self.thread(block.thread)),
        ];
        let sites = SiteView { depth: Depth::Line, naming: self.naming };
        let number = format!("(block {})", count(block.id));
        add_site_row(table, cells, self.catalog, StackId(block.site), sites, &number);
    }

    /// What the file does not know.
    fn remarks(&self, answer: &BiographyAnswer) -> String {
        let mut lines = Vec::new();
        let freed = answer.events.last().filter(|event| event.what == "freed");
        if !answer.has_history {
            lines.push("A snapshot knows one instant: what happened to the block before and after is not known.");
        }
        if freed.is_some_and(|event| event.site.is_none()) {
            lines.push("Who freed it was not recorded: 'highwater record --free-stacks' does.");
        }
        if answer.events.last().is_some_and(|event| event.what == "evicted") {
            lines.push("Its address was given to another block, so it must have been freed before; that was not seen.");
        }
        if answer.has_history && !answer.has_every_block {
            lines.push("Only samples were recorded: other blocks may have been at its address in between.");
        }
        if answer.has_history && !answer.has_reallocations {
            lines.push("Of samples, a reallocation is a free and an allocation.");
        }
        if answer.found == Some("before") {
            lines.push("At that instant no block lay at the address; this one was the last before it.");
        }
        if answer.found == Some("after") {
            lines.push("Until that instant no block lay at the address; this one was the first after it.");
        }
        lines.iter().map(|line| format!("\n{line}\n")).collect()
    }

    fn list(&self, answer: &BlocksAnswer) -> Table {
        let mut table = Table::default()
            .column(Align::Right, "number")
            .column(Align::Right, "size")
            .column(Align::Right, "allocated")
            .column(Align::Right, "lived")
            .column(Align::Left, "address")
            .column(Align::Left, "site");
        let sites = SiteView { depth: Depth::Line, naming: self.naming };
        for block in &answer.blocks {
            let lived = match block.lifetime_ns {
                Some(lived) => self.source.length(Nanos(lived)),
                None if self.source.snapshot => String::new(),
                None => "never freed".to_owned(),
            };
            let cells = vec![
                block.id.to_string().into(),
                bytes(block.size).into(),
                self.instant(block.allocated_ns).into(),
                Cell::new(Style::Dim, &lived),
                block.address.as_str().into(),
            ];
            add_site_row(&mut table, cells, self.catalog, StackId(block.site), sites, "");
        }
        table
    }
}
