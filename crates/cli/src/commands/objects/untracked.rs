//! The types of a program that the log lacks.

use super::{Objects, text::title};
use crate::failure::Failure;
use crate::output::Output;
use crate::print::bytes::{bytes, count, counted};
use crate::print::colour::Style;
use crate::print::heading::Heading;
use crate::print::table::{Align, Cell, Table};
use highwater_formats::objlog::ObjectLogReader;
use highwater_query::objects::{UntrackedTypes, untracked_document};
use std::fmt::Write;
use std::path::Path;

impl Objects {
    /// Prints the types that the log lacks.
    pub(super) fn print_untracked(
        &self,
        module: &Path,
        reader: &ObjectLogReader,
        output: &mut Output,
    ) -> Result<(), Failure> {
        let found = UntrackedTypes::of(module, reader.matcher())?;
        if self.reading.json {
            return output.json(untracked_document(&self.path, module, self.json_rows(), &found));
        }
        let mut text = head(module, &found).render(output.paint, None);
        text += &self.untracked_table(&found, output);
        output.text(&text)
    }

    fn untracked_table(&self, found: &UntrackedTypes, output: &Output) -> String {
        let order = if found.has_sizes {
            "not in the log, largest first: the size of a value, without what it owns"
        } else {
            "not in the log, dropped types first, then those that most functions mention"
        };
        let mut text = title(order, output.paint);
        if found.types.is_empty() {
            return text + nothing(found);
        }
        let mut table = Table::default();
        if found.has_sizes {
            table = table.column(Align::Right, "size").column(Align::Right, "variants");
        } else {
            table = table.column(Align::Right, "functions");
        }
        table = table.column(Align::Left, "dropped").column(Align::Left, "type");
        let (first, rest) = found.types.split_at(self.table_rows().min(found.types.len()));
        for each in first {
            let mut cells = Vec::new();
            if found.has_sizes {
                cells.push(Cell::new(Style::Bold, &each.size.map_or_else(|| "?".to_owned(), bytes)));
                cells.push(number(each.variants.unwrap_or(0)));
            } else {
                cells.push(number(each.functions));
            }
            cells.push(if each.is_dropped { "yes".into() } else { Cell::new(Style::Dim, "·") });
            cells.push(each.name.as_str().into());
            table.row(cells);
        }
        text += &table.render(output.paint, output.width);
        if !rest.is_empty() {
            let _ = writeln!(text, "… {}; '--top 0' shows all.", counted(rest.len() as u64, "more type"));
        }
        text
    }
}

fn nothing(found: &UntrackedTypes) -> &'static str {
    match (found.tracked, found.has_sizes) {
        (1.., _) => "Nothing: the log has every type of the program that is dropped or lies in a container.\n",
        (0, true) => "Nothing: the program drops no value of a type of its own, and keeps none in a container.\n",
        (0, false) => {
            "Nothing: these names show no type that is dropped or lies in a container. DWARF shows more: build with 'debug = true'.\n"
        }
    }
}

fn number(value: u64) -> Cell {
    if value == 0 { Cell::new(Style::Dim, "·") } else { count(value).into() }
}

fn head(module: &Path, found: &UntrackedTypes) -> Heading {
    let mut head = Heading::default();
    let all = counted((found.types.len() + found.tracked) as u64, "type");
    let source = match found.has_sizes {
        true => "from its DWARF".to_owned(),
        false => format!("from the names of {}: no DWARF, so no sizes", counted(found.functions, "function")),
    };
    head.line("program", format!("{}: {all}, {source}", module.display()));
    head.line(
        "types",
        "those that the program drops, or keeps in boxes, vectors and other containers; not the standard library's"
            .to_owned(),
    );
    if found.is_truncated {
        head.line("note", "it has more types than could be looked at; some are missing".to_owned());
    }
    head.line("log", counted(found.in_log as u64, "type"));
    head.line("tracked", format!("{} of the program's types", count(found.tracked as u64)));
    head
}
