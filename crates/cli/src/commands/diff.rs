//! `highwater diff`: what changed between two instants, in one file or in two.

use crate::args::{By, Reading, Selection};
use crate::failure::Failure;
use crate::live::{Asking, Choice, TakenSnapshot};
use crate::open;
use crate::output::Output;
use crate::print::bytes::counted;
use crate::print::colour::Style;
use crate::print::cut;
use crate::print::figures::Units;
use crate::print::heading::{self, Heading};
use crate::print::rows::add_row;
use crate::print::stack::Depth;
use crate::print::table::{Align, Cell, Table};
use clap::Args;
use highwater_collector::protocol::Detail;
use highwater_formats::json as documents;
use highwater_model::diff::{Change, Delta, diff_rows};
use highwater_model::groups::GroupBy;
use highwater_model::{Figures, Snapshot, UnknownWhen, When};
use highwater_symbols::Symbolizer;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// The arguments of `highwater diff`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  highwater diff app.hw@mark:loaded app.hw        from a mark to the end
  highwater diff app.hw@50% app.hw --by function  what keeps growing
  highwater diff old.hw@peak new.hw@peak          two runs at their peaks
  highwater diff before.hw --pid 4711             since a snapshot, until now
  highwater diff old.hw new.hw --json | jq '.sites[].change'

WHEN is start, peak, end (the default), a time (12.5s), a part (80%) or mark:NAME.")]
pub struct Diff {
    /// The earlier state: a file, and an instant after '@'
    #[arg(value_name = "FILE[@WHEN]")]
    before: PathBuf,
    /// The later state: a file, and an instant after '@'
    #[arg(value_name = "FILE[@WHEN]", required_unless_present_any = ["pid", "name"], conflicts_with_all = ["pid", "name"])]
    after: Option<PathBuf>,
    #[command(flatten)]
    live: Choice,
    /// What the rows are
    #[arg(long, value_enum, default_value_t, value_name = "WHAT")]
    by: By,
    #[command(flatten)]
    selection: Selection,
    /// How much of each call stack is shown
    #[arg(long, value_enum, default_value_t, value_name = "DEPTH")]
    stacks: Depth,
    #[command(flatten)]
    reading: Reading,
    #[command(flatten)]
    collector: Asking,
}

/// A file at an instant.
#[derive(Clone, Debug, PartialEq)]
struct Place {
    path: PathBuf,
    when: When,
}

/// One side of the comparison.
struct Side {
    state: State,
    snapshot: Snapshot,
}

/// The origin of a state.
enum State {
    /// A file at an instant.
    Recorded(Place),
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
        let keep = self.selection.keep();
        let keep = keep.as_ref().map(|keep| keep as &dyn Fn(&str) -> bool);
        let deltas = diff_rows(&before.snapshot, &after.snapshot, self.by.group(), keep).map_err(Failure::fault)?;
        if self.reading.json {
            return self.print_json(&before, &after, &deltas, output);
        }
        output.text(&head(&before, &after).render(output.paint, output.width))?;
        output.text(&self.body(&before.snapshot, &after.snapshot, &deltas, output))?;
        for side in [&before, &after] {
            output.text(&heading::sampling(&side.snapshot))?;
        }
        Ok(())
    }

    fn sides(&self) -> Result<(Side, Side), Failure> {
        match &self.after {
            Some(after) => self.recorded(after),
            None => {
                let place = place_in(&self.before)?;
                let opened = open::open(&place.path, self.reading.on_damage())?;
                let before = opened.snapshot_of(&place.when, self.selection.heap())?;
                Ok((Side { state: State::Recorded(place), snapshot: before }, self.living()?))
            }
        }
    }

    /// Takes a snapshot of the live process.
    fn living(&self) -> Result<Side, Failure> {
        let mut client = self.collector.connect()?;
        let processes = client.processes_among(&self.live.which()).map_err(Failure::fault)?;
        let process = self.live.of(&processes)?;
        let heap = self.selection.heap();
        // Only individual blocks have a heap.
        let detail = if heap.is_some() { Detail::Blocks } else { Detail::Sites };
        let taken = client.snapshot(process.pid, detail, None).map_err(Failure::fault)?;
        let snapshot = TakenSnapshot::open(taken.file, heap, &mut Symbolizer::with_users_cache())?.snapshot;
        cut::warn_of(&taken.cut);
        Ok(Side { state: State::Live { name: process.name.clone(), pid: process.pid }, snapshot })
    }

    /// Both sides from files; if it is the same file, it is opened once.
    fn recorded(&self, after: &Path) -> Result<(Side, Side), Failure> {
        let places = (place_in(&self.before)?, place_in(after)?);
        let open = |place: &Place| open::open(&place.path, self.reading.on_damage());
        let first = open(&places.0)?;
        let second = if places.0.path == places.1.path { None } else { Some(open(&places.1)?) };
        let heap = self.selection.heap();
        let before = first.snapshot_of(&places.0.when, heap)?;
        let after = second.as_ref().unwrap_or(&first).snapshot_of(&places.1.when, heap)?;
        let side = |place, snapshot| Side { state: State::Recorded(place), snapshot };
        Ok((side(places.0, before), side(places.1, after)))
    }

    fn print_json(&self, before: &Side, after: &Side, deltas: &[Delta], output: &mut Output) -> Result<(), Failure> {
        let by = self.by.group();
        let (old, new) = (&before.snapshot, &after.snapshot);
        let mut document = documents::comparison("diff", old, new);
        document["by"] = self.by.singular().into();
        for (name, side) in [("before", before), ("after", after)] {
            match &side.state {
                State::Recorded(place) => {
                    document[name]["file"] = place.path.display().to_string().into();
                    document[name]["when"] = place.when.to_string().into();
                }
                State::Live { name: program, pid } => {
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
        output.json_with_list(document, Some((documents::list_name(by), elements)), stacks)
    }

    fn body(&self, before: &Snapshot, after: &Snapshot, deltas: &[Delta], output: &Output) -> String {
        if deltas.is_empty() {
            return match &self.selection.filter {
                Some(filter) => format!("\nNothing that matches '{filter}' changed.\n"),
                None => "\nNothing changed.\n".to_owned(),
            };
        }
        let units = Units::of_snapshot(before).or(Units::of_snapshot(after));
        let mut table = Table::default()
            .column(Align::Right, "change")
            .column(Align::Right, "before")
            .column(Align::Right, "after")
            .column(Align::Right, "blocks")
            .column(Align::Left, "")
            .column(Align::Left, self.by.singular());
        let (first, rest) = deltas.split_at(self.selection.table_rows().min(deltas.len()));
        for delta in first {
            let style = style_of(delta);
            let cells: Vec<Cell> = vec![
                Cell::new(style, &units.signed_bytes(delta.live_bytes())),
                units.bytes(delta.before_figures().live_bytes()).into(),
                units.bytes(delta.after_figures().live_bytes()).into(),
                units.signed_count(delta.live_blocks()).into(),
                Cell::new(style, word_for(delta.change())),
            ];
            match (&delta.after, &delta.before) {
                (Some((key, _)), _) => add_row(&mut table, cells, &after.catalog, key, self.stacks),
                (None, Some((key, _))) => add_row(&mut table, cells, &before.catalog, key, self.stacks),
                (None, None) => table.row(cells),
            }
        }
        let mut text = format!("\n{}", table.render(output.paint, output.width));
        if !rest.is_empty() {
            let what = counted(rest.len() as u64, &format!("more {}", self.by.singular()));
            let sum = rest.iter().map(Delta::live_bytes).sum();
            text.push_str(&format!("\n… {what}, {} together; '--top 0' shows all.\n", units.signed_bytes(sum)));
        }
        text
    }
}

fn head(before: &Side, after: &Side) -> Heading {
    let describe = |side: &Side| {
        let units = Units::of_snapshot(&side.snapshot);
        let live = heading::live(units, figures(&side.snapshot));
        match &side.state {
            State::Recorded(Place { path, when }) => {
                format!(
                    "{live}: {} at {}",
                    path.display(),
                    heading::instant(&side.snapshot.source, when, side.snapshot.at)
                )
            }
            State::Live { name, pid } => format!("{live}: {name} (pid {pid}) now"),
        }
    };
    let (old, new) = (figures(&before.snapshot), figures(&after.snapshot));
    let bytes = new.live().rounded_difference(old.live());
    let blocks = i128::from(new.live_blocks()) - i128::from(old.live_blocks());
    let units = Units::of_snapshot(&before.snapshot).or(Units::of_snapshot(&after.snapshot));
    let mut head = Heading::default();
    head.line("before", describe(before));
    head.line("after", describe(after));
    head.line("change", format!("{}, {} blocks", units.signed_bytes(bytes), units.signed_count(blocks)));
    head
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
fn place_in(argument: &Path) -> Result<Place, Failure> {
    let whole = Place { path: argument.to_owned(), when: When::End };
    let split = argument.to_str().and_then(|text| text.rsplit_once('@'));
    let Some((path, when)) = split.filter(|(path, _)| !path.is_empty() && !argument.exists()) else {
        return Ok(whole);
    };
    let path = PathBuf::from(path);
    match when.parse() {
        Ok(when) => Ok(Place { path, when }),
        Err(unknown) if path.exists() => Err(Failure::Usage(UnknownWhen::to_string(&unknown))),
        Err(_) => Ok(whole),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(argument: &str) -> (String, When) {
        let place = place_in(Path::new(argument)).expect("a place");
        (place.path.display().to_string(), place.when)
    }

    #[test]
    fn what_follows_the_last_at_sign_is_an_instant_if_it_reads_as_one() {
        assert_eq!(place("a.hw"), ("a.hw".into(), When::End));
        assert_eq!(place("a.hw@peak"), ("a.hw".into(), When::Peak));
        assert_eq!(place("me@home.hw@mark:load"), ("me@home.hw".into(), When::Mark("load".into())));
        assert_eq!(place("me@home.hw"), ("me@home.hw".into(), When::End));
        assert_eq!(place("@peak"), ("@peak".into(), When::End));
    }

    #[test]
    fn an_instant_that_is_none_is_wrong_usage_where_the_file_is_there() {
        let failure = place_in(Path::new("Cargo.toml@soon")).expect_err("no instant");
        assert_eq!(failure.exit_code(), 2);
    }
}
