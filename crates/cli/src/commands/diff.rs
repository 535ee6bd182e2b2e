//! `highwater diff`: what changed between two instants, in one file or in two.

use crate::args::{Reading, Selection, grouping_parser};
use crate::failure::Failure;
use crate::live::{Asking, ProcessChoice, TakenSnapshot};
use crate::name_sources::NameSources;
use crate::naming::{self, NameArgs};
use crate::open;
use crate::output::Output;
use crate::print::bytes::counted;
use crate::print::colour::{Paint, Style};
use crate::print::cut;
use crate::print::figures::Units;
use crate::print::heading::{self, Heading};
use crate::print::markdown::{MarkdownTable, code};
use crate::print::rows::{RowName, add_row};
use crate::print::site_line::SiteLine;
use crate::print::stack::{Depth, SiteView};
use crate::print::table::{Align, Cell, Table};
use clap::{Args, ValueEnum};
use highwater_collector::protocol::Detail;
use highwater_formats::json as documents;
use highwater_model::diff::{Change, Delta, diff_rows_named};
use highwater_model::groups::{GroupBy, GroupKey};
use highwater_model::{Catalog, Figures, Naming, Snapshot, UnknownWhen, When};
use highwater_query::key_text;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The columns of a site's line in Markdown.
const MARKDOWN_COLUMNS: usize = 120;

/// The arguments of `highwater diff`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  highwater diff app.hw@mark:loaded app.hw        from a mark to the end
  highwater diff app.hw@50% app.hw --by function  what keeps growing
  highwater diff old.hw@peak new.hw@peak          two runs at their peaks
  highwater diff before.hw --pid 4711             since a snapshot, until now
  highwater diff massif.out.7@peak app.hw@peak    what two tools say, by function
  highwater diff old.hw new.hw --json | jq '.sites[].change'
  highwater diff main.hw new.hw --format markdown   for a comment on a pull request

WHEN is start, peak, rss-peak, end (the default), a time (12.5s), a part (80%) or mark:NAME.")]
pub struct Diff {
    /// The earlier state: a file, and an instant after '@'
    #[arg(value_name = "FILE[@WHEN]")]
    before: PathBuf,
    /// The later state: a file, and an instant after '@'
    #[arg(value_name = "FILE[@WHEN]", required_unless_present_any = ["pid", "name"], conflicts_with_all = ["pid", "name"])]
    after: Option<PathBuf>,
    #[command(flatten)]
    live: ProcessChoice,
    /// What the rows are [default: site; function if the files come from different tools]
    #[arg(long, value_name = "WHAT", value_parser = grouping_parser())]
    by: Option<GroupBy>,
    #[command(flatten)]
    selection: Selection,
    /// How much of each call stack is shown
    #[arg(long, value_enum, default_value_t, value_name = "DEPTH")]
    stacks: Depth,
    #[command(flatten)]
    names: NameArgs,
    #[command(flatten)]
    reading: Reading,
    /// How the changes are printed
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT", conflicts_with = "json")]
    format: DiffFormat,
    #[command(flatten)]
    sources: NameSources,
    #[command(flatten)]
    collector: Asking,
}

/// How changes are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum DiffFormat {
    /// For people
    #[default]
    Text,
    /// One JSON document
    Json,
    /// Tables in Markdown
    Markdown,
}

/// A file at an instant.
#[derive(Clone, Debug, PartialEq)]
struct FileAtInstant {
    path: PathBuf,
    when: When,
}

/// One side of the comparison.
struct DiffSide {
    state: SideOrigin,
    snapshot: Arc<Snapshot>,
}

/// The origin of a state.
enum SideOrigin {
    /// A file at an instant.
    Recorded(FileAtInstant),
    /// A live process now.
    Live {
        /// Its program.
        name: String,
        /// Its process number.
        pid: u32,
    },
}

impl Diff {
    /// Prints the changes.
    pub fn run(&self, output: &mut Output) -> Result<(), Failure> {
        let (before, after) = self.sides()?;
        let by = self.by.unwrap_or_else(|| default_grouping(&before.snapshot, &after.snapshot));
        let keep = self.selection.filters.keep();
        let keep = keep.as_ref().map(|keep| keep as &dyn Fn(&str) -> bool);
        let sides = [&before, &after].map(|side| self.names.of_snapshot(&side.snapshot));
        let [old, new] = sides;
        let naming = naming::of_both(old?, new?);
        let deltas = diff_rows_named(&before.snapshot, &after.snapshot, by, keep, &naming).map_err(Failure::fault)?;
        if self.reading.json || self.format == DiffFormat::Json {
            return self.print_json(&before, &after, by, &deltas, output);
        }
        if self.format == DiffFormat::Markdown {
            return output.text(&self.markdown([&before, &after], (by, &naming), &deltas));
        }
        output.text(&head(&before, &after).render(output.paint, output.width))?;
        output.text(&self.body([&before.snapshot, &after.snapshot], (by, &naming), &deltas, output))?;
        let notes = [&before, &after].map(|side| heading::sampling(&side.snapshot));
        output.text(&notes[0])?;
        if notes[1] != notes[0] {
            output.text(&notes[1])?;
        }
        Ok(())
    }

    fn sides(&self) -> Result<(DiffSide, DiffSide), Failure> {
        match &self.after {
            Some(after) => self.recorded(after),
            None => {
                let place = file_at_instant(&self.before)?;
                let opened = open::open(&place.path, self.reading.on_damage())?;
                let before = opened.snapshot_of(&place.when, &self.selection.filters.of_blocks())?;
                Ok((DiffSide { state: SideOrigin::Recorded(place), snapshot: before }, self.living()?))
            }
        }
    }

    /// Takes a snapshot of the live process.
    fn living(&self) -> Result<DiffSide, Failure> {
        let mut client = self.collector.connect()?;
        let processes = client.processes_among(&self.live.which()).map_err(Failure::fault)?;
        let process = self.live.of(&processes)?;
        let filters = self.selection.filters.of_blocks();
        // Filters look at individual blocks.
        let detail = if filters.is_empty() { Detail::Sites } else { Detail::Blocks };
        let taken = client.snapshot(process.pid, detail, None).map_err(Failure::fault)?;
        let snapshot = TakenSnapshot::open(taken.file, &filters, &mut self.sources.symbolizer())?.snapshot;
        cut::warn_of(&taken.cut);
        Ok(DiffSide {
            state: SideOrigin::Live { name: process.name.clone(), pid: process.pid },
            snapshot: Arc::new(snapshot),
        })
    }

    /// Both sides from files; if it is the same file, it is opened once.
    fn recorded(&self, after: &Path) -> Result<(DiffSide, DiffSide), Failure> {
        let places = (file_at_instant(&self.before)?, file_at_instant(after)?);
        let open = |place: &FileAtInstant| open::open(&place.path, self.reading.on_damage());
        let first = open(&places.0)?;
        let second = if places.0.path == places.1.path { None } else { Some(open(&places.1)?) };
        let filters = self.selection.filters.of_blocks();
        let before = first.snapshot_of(&places.0.when, &filters)?;
        let after = second.as_ref().unwrap_or(&first).snapshot_of(&places.1.when, &filters)?;
        let side = |place, snapshot| DiffSide { state: SideOrigin::Recorded(place), snapshot };
        Ok((side(places.0, before), side(places.1, after)))
    }

    fn print_json(
        &self,
        before: &DiffSide,
        after: &DiffSide,
        by: GroupBy,
        deltas: &[Delta],
        output: &mut Output,
    ) -> Result<(), Failure> {
        let (old, new) = (&before.snapshot, &after.snapshot);
        let mut document = documents::comparison("diff", old, new);
        document["by"] = by.key().into();
        for (name, side) in [("before", before), ("after", after)] {
            match &side.state {
                SideOrigin::Recorded(place) => {
                    document[name]["file"] = place.path.display().to_string().into();
                    document[name]["when"] = place.when.to_string().into();
                }
                SideOrigin::Live { name: program, pid } => {
                    document[name]["file"] = Value::Null;
                    document[name]["when"] = "now".into();
                    document[name]["process"] = json!({"pid": pid, "name": program});
                }
            }
        }
        let chosen = &deltas[..deltas.len().min(self.selection.json_rows())];
        let stacks = documents::stacks_among(old, new, chosen).map_err(Failure::fault)?;
        let elements = chosen.iter().map(|delta| documents::delta(old, new, by, delta, &stacks));
        let stacks = (by == GroupBy::Site).then_some(&stacks);
        output.json_with_list(document, Some((by.list_key(), elements)), stacks)
    }

    /// The changes as Markdown: the figures of both sides, and the rows that changed most.
    fn markdown(&self, sides: [&DiffSide; 2], (by, naming): (GroupBy, &Naming), deltas: &[Delta]) -> String {
        let [before, after] = sides.map(|side| &*side.snapshot);
        let units = Units::of_snapshot(before).or(Units::of_snapshot(after));
        let titles = sides.map(|side| match &side.state {
            SideOrigin::Recorded(FileAtInstant { path, when }) => code(&format!("{}@{when}", path.display())),
            SideOrigin::Live { name, .. } => code(name),
        });
        let mut whole = MarkdownTable::new(&[
            (Align::Left, ""),
            (Align::Right, &titles[0]),
            (Align::Right, &titles[1]),
            (Align::Right, "change"),
        ]);
        let (old, new) = (figures(before), figures(after));
        let mut bytes_row = |name: &str, (old, new): (u64, u64)| {
            let change = i128::from(new) - i128::from(old);
            whole.row(&[name.to_owned(), units.bytes(old), units.bytes(new), units.signed_bytes(change)]);
        };
        bytes_row("live", (old.live_bytes(), new.live_bytes()));
        // A snapshot of a live process does not know what was before.
        if [before, after].iter().all(|side| !side.source.snapshot && side.source.known.is_none()) {
            bytes_row("peak until then", (old.peak_bytes, new.peak_bytes));
            bytes_row("allocated until then", (old.allocated_bytes, new.allocated_bytes));
        }
        let mut blocks_row = |name: &str, (old, new): (u64, u64)| {
            let change = i128::from(new) - i128::from(old);
            whole.row(&[name.to_owned(), units.count(old), units.count(new), units.signed_count(change)]);
        };
        if units.has_blocks() {
            blocks_row("live blocks", (old.live_blocks(), new.live_blocks()));
        }
        let mut text = whole.finish();
        if deltas.is_empty() {
            let filters = &self.selection.filters;
            text.push_str(&match filters.is_empty() {
                true => "\nNothing changed.\n".to_owned(),
                false => format!("\nNothing that matches {} changed.\n", code(&filters.to_string())),
            });
            return text;
        }
        let mut table = MarkdownTable::new(&[
            (Align::Right, "change"),
            (Align::Right, "before"),
            (Align::Right, "after"),
            (Align::Right, "blocks"),
            (Align::Left, ""),
            (Align::Left, by.key()),
        ]);
        let (first, rest) = deltas.split_at(self.selection.table_rows().min(deltas.len()));
        let catalogs = [&*before.catalog, &*after.catalog];
        let keys: Vec<(&Catalog, &GroupKey)> =
            first.iter().filter_map(|delta| delta.key()).map(|(side, key)| (catalogs[side], key)).collect();
        let names = RowName::all(by, SiteView { depth: self.stacks, naming }, &keys);
        for ((delta, name), (catalog, key)) in first.iter().zip(names).zip(keys) {
            let name = match (key, name) {
                (GroupKey::Site(stack), RowName::Site(detail)) => {
                    let line = SiteLine::new(naming, catalog, *stack, &detail).fitted(MARKDOWN_COLUMNS);
                    code(&line.render(Paint::plain(), MARKDOWN_COLUMNS))
                }
                (GroupKey::Thread(_), _) => code(&key_text(naming, catalog, key)),
                (_, RowName::Named(name) | RowName::Site(name)) if name.is_empty() => "(not known)".to_owned(),
                (_, RowName::Named(name) | RowName::Site(name)) => code(&name),
            };
            table.row(&[
                units.signed_bytes(delta.live_bytes()),
                units.bytes(delta.before_figures().live_bytes()),
                units.bytes(delta.after_figures().live_bytes()),
                if units.has_blocks() { units.signed_count(delta.live_blocks()) } else { String::new() },
                word_for(delta.change()).to_owned(),
                name,
            ]);
        }
        text.push_str(&format!("\n{}", table.finish()));
        if !rest.is_empty() {
            let what = counted(rest.len() as u64, &format!("more {}", by.key()));
            let sum = rest.iter().map(Delta::live_bytes).sum();
            text.push_str(&format!("\n… {what}, {} together.\n", units.signed_bytes(sum)));
        }
        text
    }

    fn body(
        &self,
        [before, after]: [&Snapshot; 2],
        (by, naming): (GroupBy, &Naming),
        deltas: &[Delta],
        output: &Output,
    ) -> String {
        if deltas.is_empty() {
            let filters = &self.selection.filters;
            return match filters.is_empty() {
                false => format!("\nNothing that matches '{filters}' changed.\n"),
                true => "\nNothing changed.\n".to_owned(),
            };
        }
        let units = Units::of_snapshot(before).or(Units::of_snapshot(after));
        let mut table = Table::default()
            .column(Align::Right, "change")
            .column(Align::Right, "before")
            .column(Align::Right, "after")
            .column(Align::Right, if units.has_blocks() { "blocks" } else { "" })
            .column(Align::Left, "")
            .column(Align::Left, by.key());
        let (first, rest) = deltas.split_at(self.selection.table_rows().min(deltas.len()));
        let catalogs = [&*before.catalog, &*after.catalog];
        let keys: Vec<(&Catalog, &GroupKey)> =
            first.iter().filter_map(|delta| delta.key()).map(|(side, key)| (catalogs[side], key)).collect();
        let sites = SiteView { depth: self.stacks, naming };
        // A delta has a row on at least one side.
        for ((delta, name), (catalog, key)) in first.iter().zip(RowName::all(by, sites, &keys)).zip(keys) {
            let style = style_of(delta);
            let cells: Vec<Cell> = vec![
                Cell::new(style, &units.signed_bytes(delta.live_bytes())),
                units.bytes(delta.before_figures().live_bytes()).into(),
                units.bytes(delta.after_figures().live_bytes()).into(),
                if units.has_blocks() { units.signed_count(delta.live_blocks()).into() } else { Cell::default() },
                Cell::new(style, word_for(delta.change())),
            ];
            add_row(&mut table, cells, catalog, key, sites, &name);
        }
        let mut text = format!("\n{}", table.render(output.paint, output.width));
        if !rest.is_empty() {
            let what = counted(rest.len() as u64, &format!("more {}", by.key()));
            let sum = rest.iter().map(Delta::live_bytes).sum();
            text.push_str(&format!("\n… {what}, {} together; '--top 0' shows all.\n", units.signed_bytes(sum)));
        }
        text
    }
}

fn head(before: &DiffSide, after: &DiffSide) -> Heading {
    let describe = |side: &DiffSide| {
        let units = Units::of_snapshot(&side.snapshot);
        let live = heading::live(units, figures(&side.snapshot));
        match &side.state {
            SideOrigin::Recorded(FileAtInstant { path, when }) => {
                format!(
                    "{live}: {} at {}",
                    path.display(),
                    heading::instant(&side.snapshot.source, when, side.snapshot.at)
                )
            }
            SideOrigin::Live { name, pid } => format!("{live}: {name} (pid {pid}) now"),
        }
    };
    let (old, new) = (figures(&before.snapshot), figures(&after.snapshot));
    let bytes = new.live().rounded_difference(old.live());
    let blocks = i128::from(new.live_blocks()) - i128::from(old.live_blocks());
    let units = Units::of_snapshot(&before.snapshot).or(Units::of_snapshot(&after.snapshot));
    let mut head = Heading::default();
    head.line("before", describe(before));
    head.line("after", describe(after));
    let change = units.signed_bytes(bytes);
    head.line(
        "change",
        match units.has_blocks() {
            true => format!("{change}, {} blocks", units.signed_count(blocks)),
            false => change,
        },
    );
    head
}

/// Two tools never record the same stacks: one leaves out the allocator, another inlined calls. Names of functions are what they have in common.
fn default_grouping(before: &Snapshot, after: &Snapshot) -> GroupBy {
    if before.source.kind == after.source.kind { GroupBy::Site } else { GroupBy::Function }
}

fn figures(snapshot: &Snapshot) -> &Figures {
    &snapshot.accounts.totals().figures
}

fn word_for(change: Change) -> &'static str {
    match change {
        Change::Came => "came",
        Change::Went => "went",
        Change::Grew => "grew",
        Change::Shrank => "shrank",
        Change::Same => "same",
    }
}

fn style_of(delta: &Delta) -> Style {
    match delta.live_bytes() {
        0 => Style::Plain,
        1.. => Style::Red,
        _ => Style::Green,
    }
}

/// Splits `FILE@WHEN`. If a file with the whole name exists, including the '@', it is that file.
fn file_at_instant(argument: &Path) -> Result<FileAtInstant, Failure> {
    let whole = FileAtInstant { path: argument.to_owned(), when: When::End };
    let split = argument.to_str().and_then(|text| text.rsplit_once('@'));
    let Some((path, when)) = split.filter(|(path, _)| !path.is_empty() && !argument.exists()) else {
        return Ok(whole);
    };
    let path = PathBuf::from(path);
    match when.parse() {
        Ok(when) => Ok(FileAtInstant { path, when }),
        Err(unknown) if path.exists() => Err(Failure::Usage(UnknownWhen::to_string(&unknown))),
        Err(_) => Ok(whole),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(argument: &str) -> (String, When) {
        let place = file_at_instant(Path::new(argument)).expect("a file");
        (place.path.display().to_string(), place.when)
    }

    #[test]
    fn what_follows_the_last_at_sign_is_an_instant_if_it_reads_as_one() {
        assert_eq!(parsed("a.hw"), ("a.hw".into(), When::End));
        assert_eq!(parsed("a.hw@peak"), ("a.hw".into(), When::Peak));
        assert_eq!(parsed("me@home.hw@mark:load"), ("me@home.hw".into(), When::Mark("load".into())));
        assert_eq!(parsed("me@home.hw"), ("me@home.hw".into(), When::End));
        assert_eq!(parsed("@peak"), ("@peak".into(), When::End));
    }

    #[test]
    fn an_instant_that_is_none_is_wrong_usage_where_the_file_is_there() {
        let failure = file_at_instant(Path::new("Cargo.toml@soon")).expect_err("no instant");
        assert_eq!(failure.exit_code(), 2);
    }
}
