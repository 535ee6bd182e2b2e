//! The head and foot of a report: the recorded process, its totals, and anomalies.

use super::bytes::{bytes, count, counted, share};
use super::colour::{Paint, Style};
use super::figures::{Units, blocks_handed_out};
use super::table::{Align, Cell, Table};
use super::text::{printable, wrapped};
use highwater_model::{
    AddressSpace, Anomalies, Figures, Heap, Lifetimes, Nanos, Snapshot, Source, StringId, Totals, When,
};
use std::fmt::Write;

/// Lines of `label  text`, with aligned labels.
#[derive(Default)]
pub struct Heading {
    lines: Vec<(&'static str, String)>,
}

impl Heading {
    /// Adds a line.
    pub fn line(&mut self, label: &'static str, text: impl Into<String>) {
        self.lines.push((label, text.into()));
    }

    /// The lines as text. A text that is wider than the terminal goes on in the next line: everything in a heading matters.
    pub fn render(&self, paint: Paint, width: Option<usize>) -> String {
        let mut table = Table::default().column(Align::Left, "").column(Align::Left, "");
        for (label, _) in &self.lines {
            table.row(vec![Cell::new(Style::Dim, label), Cell::default()]);
        }
        let room = width.map_or(usize::MAX, |width| table.room(width));
        let mut table = Table::default().column(Align::Left, "").column(Align::Left, "");
        for (label, text) in &self.lines {
            let mut lines = wrapped(&printable(text), room).into_iter();
            table.row(vec![Cell::new(Style::Dim, label), lines.next().unwrap_or_default().into()]);
            lines.for_each(|line| table.continuation(line.into()));
        }
        table.render(paint, width)
    }
}

/// The recorded process: `server (pid 42 on build7)`.
pub fn program(source: &Source) -> String {
    let mut text = if source.program.is_empty() { "(unnamed)".to_owned() } else { source.program.clone() };
    // A program without a process has a negative number.
    let pid = if (source.pid as i64) < 0 { 0 } else { source.pid };
    match (pid, source.host.as_str()) {
        (0, "") => {}
        (0, host) => text.push_str(&format!(" (on {host})")),
        (pid, "") => text.push_str(&format!(" (pid {pid})")),
        (pid, host) => text.push_str(&format!(" (pid {pid} on {host})")),
    }
    // The program was a link to a file of another name.
    if !source.executable.is_empty() && !source.executable.ends_with(&format!("/{}", source.program)) {
        let _ = write!(text, ", executable {}", source.executable);
    }
    text
}

/// Adds the recorded process and, for a snapshot, its instant.
pub fn add_program(head: &mut Heading, source: &Source) {
    if source.kind.is_object_graph() {
        // The image's bytes do not say when they were taken.
        head.line("snapshot", format!("of {}", program(source)));
    } else if source.snapshot && source.known.is_some() && source.duration.0 == 0 {
        head.line("profile", format!("of {}", program(source)));
    } else if source.snapshot {
        head.line("snapshot", format!("of {} at {}", program(source), source.instant(source.duration)));
    } else {
        head.line("program", program(source));
    }
}

/// An instant as the user named it and as a time: `peak (8.21s)`.
pub fn instant(source: &Source, when: &When, at: Nanos) -> String {
    // A profile of one instant may not say which.
    if source.snapshot && source.known.is_some() && at.0 == 0 {
        return "its instant".to_owned();
    }
    let at = source.instant(at);
    match when {
        When::At(_) | When::Line(_) => at,
        _ => format!("{when} ({at})"),
    }
}

/// What is live: `12.4 MiB in 1,204 blocks`.
pub fn live(units: Units, figures: &Figures) -> String {
    match units.has_blocks() {
        true => format!("{} in {}", units.live(figures), units.counted(figures.live_blocks(), "block")),
        false => units.live(figures),
    }
}

/// The highest point: `24.1 MiB at 8.21s`.
pub fn peak(source: &Source, units: Units, totals: &Totals) -> String {
    format!("{} at {}", units.peak(totals), source.instant(totals.peak_at))
}

/// The highest point, and the amount held during a moving reallocation if that was more:
/// `24.1 MiB at 8.21s; 30.0 MiB while a reallocation held both blocks`.
pub fn peak_in_full(source: &Source, units: Units, totals: &Totals) -> String {
    let mut text = peak(source, units, totals);
    let inside = units.bytes(totals.peak_bytes_inside_reallocation);
    let is_more = totals.peak_bytes_inside_reallocation > totals.figures.peak_bytes;
    if is_more && !units.is_estimated() && inside != units.bytes(totals.figures.peak_bytes) {
        let _ = write!(text, "; {inside} while a reallocation held both blocks");
    }
    text
}

/// The usable size of the allocator's blocks, and the slack that it gave away with them:
/// `1.3 MiB in 1.1 MiB of blocks (slack 200.0 KiB)`. `None` if it is not known, or nothing is live.
pub fn usable(units: Units, snapshot: &Snapshot) -> Option<String> {
    let (usable, asked_for) = (snapshot.usable_bytes()?, snapshot.live_bytes_of(Heap::Malloc));
    let slack = units.bytes(usable.saturating_sub(asked_for));
    let text = format!("{} in {} of blocks (slack {slack})", units.bytes(usable), units.bytes(asked_for));
    (usable > 0).then_some(text)
}

/// Less address space than this is left out: nearly every program has a guard page or two.
const LEAST_SPACE: u64 = 64 << 10;

/// Adds the address space of one instant: what is in no figure, and what was given back.
pub fn add_address_space(head: &mut Heading, space: AddressSpace) {
    add_given_back(head, space);
    add_not_counted(head, space);
}

/// Adds the memory that is in the figures, but that the program gave back to the kernel: `up to 64.0 MiB`.
pub fn add_given_back(head: &mut Heading, space: AddressSpace) {
    if space.returned_bytes >= LEAST_SPACE {
        let returned = bytes(space.returned_bytes);
        head.line("given back", format!("up to {returned} of mappings (madvise), still counted"));
    }
}

/// Adds the address space that is mapped and in no figure: `7.5 GiB of reserved address space, 12.0 MiB of mapped files`.
pub fn add_not_counted(head: &mut Heading, space: AddressSpace) {
    let AddressSpace { reserved_bytes, mapped_file_bytes, .. } = space;
    let parts: Vec<String> = [(reserved_bytes, "reserved address space"), (mapped_file_bytes, "mapped files")]
        .iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, what)| format!("{} of {what}", bytes(*number)))
        .collect();
    if reserved_bytes.saturating_add(mapped_file_bytes) >= LEAST_SPACE {
        head.line("not counted", parts.join(", "));
    }
}

/// Adds notes about the recording that its reader must know.
pub fn add_notes(head: &mut Heading, source: &Source) {
    source.notes.iter().for_each(|note| head.line("note", note.as_str()));
}

/// Adds the notes about a profile of another tool: they say of which instants it knows what.
pub fn add_profile_notes(head: &mut Heading, source: &Source) {
    if source.known.is_some() {
        add_notes(head, source);
    }
}

/// All memory ever handed out: `1.2 GiB in 602,112 allocations, 30 reallocations; 12.3% temporary`.
pub fn allocated(units: Units, figures: &Figures) -> String {
    if !units.has_blocks() {
        return units.allocated(figures);
    }
    let mut text = format!("{} in {}", units.allocated(figures), units.counted(figures.allocations, "allocation"));
    // Samples do not show which blocks were resized or temporary.
    if figures.reallocations_alone() > 0 && !units.is_estimated() {
        let _ = write!(text, ", {}", units.counted(figures.reallocations_alone(), "reallocation"));
    }
    if figures.promotions > 0 {
        let _ = write!(text, ", {}", units.counted(figures.promotions, "promotion"));
    }
    // For samples it is not known whether anything was allocated between them.
    if figures.temporary_allocations > 0 && !units.is_estimated() {
        let part = share(figures.temporary_allocations, blocks_handed_out(figures));
        let _ = write!(text, "; {} temporary ({part})", units.count(figures.temporary_allocations));
    }
    text
}

/// The anomalies in plain words; empty if there are none.
pub fn oddities(anomalies: &Anomalies, paint: Paint) -> String {
    if anomalies.is_empty() {
        return String::new();
    }
    let mut table = Table::default().column(Align::Right, "").column(Align::Left, "");
    for (anomaly, number) in anomalies.iter().filter(|&(_, number)| number > 0) {
        table.row(vec![format!("  {}", count(number)).into(), anomaly.explanation().into()]);
    }
    format!("\n{}\n{}", paint.paint(Style::Yellow, "Oddities:"), table.render(paint, None))
}

/// Adds a line that says that figures are estimates, if they are.
pub fn add_sampling(head: &mut Heading, source: &Source, figures: &Figures) {
    if source.sample_rate.is_some() || figures.is_estimate() {
        if let (Some(rate), false) = (source.sample_rate, source.knows_samples()) {
            head.line("estimates", format!("from samples, one per {} allocated", bytes(rate)));
            return;
        }
        let samples = counted(figures.samples(), "sample");
        let rate = source.sample_rate.map(|rate| format!(", one per {} allocated", bytes(rate)));
        let hit = match figures.more_samples {
            0 => String::new(),
            _ => format!(" that hit {}", counted(figures.records(), "object")),
        };
        head.line("estimates", format!("from {samples}{hit}{}", rate.unwrap_or_default()));
    }
}

/// A note for sampled sources; empty for exact ones.
pub fn sampling(snapshot: &Snapshot) -> String {
    if !snapshot.is_estimate() {
        return String::new();
    }
    let certainty = snapshot.certainty();
    if certainty.is_some_and(|certainty| certainty.is_exact()) {
        return "\nEvery word was sampled: figures are exact, and include the headers of blocks.\n".to_owned();
    }
    if let (Some(rate), false) = (snapshot.source.sample_rate, snapshot.source.knows_samples()) {
        return format!("\n~ figures are estimates: one sample for each {} allocated on average.\n", bytes(rate));
    }
    let sure = if certainty.is_some() { "; ranges hold in 95 of 100 cases" } else { "" };
    let samples = counted(snapshot.accounts.totals().figures.samples(), "sample");
    match snapshot.source.sample_rate {
        Some(rate) => {
            let rate = bytes(rate);
            format!(
                "\n~ figures are estimates: one sample for each {rate} allocated on average, {samples} in all{sure}.\n"
            )
        }
        None => format!("\n~ figures are estimates, made from {samples}.\n"),
    }
}

/// A hint for profiles of other tools in which all code is an address; empty for others.
pub fn missing_names(snapshot: &Snapshot) -> &'static str {
    let frames = snapshot.catalog.stacks.frames();
    let has_names = frames.iter().any(|frame| frame.function != StringId::EMPTY);
    let has_code = frames.iter().any(|frame| frame.address != 0 && frame.module != 0);
    match snapshot.source.known.is_some() && has_code && !has_names {
        true => {
            "\nCode has addresses only: 'highwater import' makes a recording, 'highwater symbolize' finds its names.\n"
        }
        false => "",
    }
}

/// How a source samples, in words; `None` if it does not.
pub fn sampled(source: &Source) -> Option<String> {
    let rate = source.sample_rate?;
    Some(match source.word_sampling {
        Some(words) if words.rate() == 1.0 => "every word".to_owned(),
        Some(words) => {
            format!("each word with a chance of {}: one sample for each {} on average", words.rate(), bytes(rate))
        }
        None => format!("one sample for each {} allocated on average", bytes(rate)),
    })
}

/// The number of samples, not of the blocks that they stand for: `838 were sampled, 718 of them freed, 120 promoted`.
pub fn records(figures: &Figures) -> String {
    let mut text = format!("{} sampled, {} of them freed", count(figures.records()), count(figures.freed_records()));
    if figures.promotions > 0 {
        let _ = write!(text, ", {} promoted", count(figures.promoted_records()));
    }
    text
}

/// The lifetimes of freed blocks: `half of them up to 1.2ms, nine of ten up to 8.3ms, 5.0ms on average`.
pub fn lifetimes(source: &Source, units: Units, lifetimes: &Lifetimes) -> String {
    match (lifetimes.quantile(0.5), lifetimes.quantile(0.9), lifetimes.mean()) {
        (Some(half), Some(most), Some(mean)) => format!(
            "{} or less for half of what is gone, {} for nine of ten, {} on average ({})",
            source.length(half),
            source.length(most),
            source.length(mean),
            units.counted(lifetimes.blocks(), "block")
        ),
        _ => "nothing is gone".to_owned(),
    }
}
