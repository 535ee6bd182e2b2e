//! The figures of a state, and frames, as fields of a line.

use super::super::fault::EventLineFault;
use super::super::fields::Fields;
use super::super::writer::{JsonObjectWriter, known};
use super::writer::Line;
use highwater_model::{
    AccountsState, AllocId, Anomalies, Anomaly, Catalog, ColumnRange, Figures, Frame, Nanos, Rests, Totals,
};
use std::io::{self, Write};

/// The counters of [`Figures`], by the names of their fields; zeros are left out.
macro_rules! counters {
    ($($name:ident),* $(,)?) => {
        fn counters(figures: &Figures) -> impl Iterator<Item = (&'static str, u64)> {
            [$((stringify!($name), figures.$name)),*].into_iter()
        }

        fn read_counters(fields: &Fields<'_>) -> Result<Figures, EventLineFault> {
            Ok(Figures { $($name: fields.number(stringify!($name))?.unwrap_or(0),)* ..Figures::default() })
        }
    };
}

counters!(
    allocations,
    frees,
    allocated_bytes,
    freed_bytes,
    peak_bytes,
    cross_thread_frees,
    temporary_allocations,
    reallocations,
    reallocated_away,
    promotions,
    unrecorded_promotions,
    unrecorded,
    unrecorded_gone,
    more_samples,
    more_samples_gone,
);

/// Rests are stored as numbers from 0: half a byte is added.
const REST_ZERO: i64 = 1 << 31;

pub(super) fn put_figures(line: &mut Line<'_>, figures: &Figures) -> io::Result<()> {
    for (name, value) in counters(figures) {
        line.known_number(name, known(value))?;
    }
    let Rests { allocated, freed } = figures.rests;
    for (name, rest) in [("allocated_rest", allocated), ("freed_rest", freed)] {
        if rest != 0 {
            line.number(name, (i64::from(rest) + REST_ZERO) as u64)?;
        }
    }
    Ok(())
}

pub(super) fn read_figures(fields: &Fields<'_>) -> Result<Figures, EventLineFault> {
    let rest = |name: &'static str| match fields.number(name)? {
        None => Ok(0),
        Some(stored) => i64::try_from(stored)
            .ok()
            .and_then(|stored| i32::try_from(stored - REST_ZERO).ok())
            .ok_or(EventLineFault::TooLarge(name)),
    };
    let rests = Rests { allocated: rest("allocated_rest")?, freed: rest("freed_rest")? };
    Ok(Figures { rests, ..read_counters(fields)? })
}

pub(super) fn put_totals(line: &mut Line<'_>, totals: &Totals) -> io::Result<()> {
    line.known_number("peak_blocks", known(totals.peak_blocks))?;
    line.known_number("peak_ns", known(totals.peak_at.0))?;
    line.known_number("peak_event", known(totals.peak_event))?;
    line.known_number("peak_bytes_inside_reallocation", known(totals.peak_bytes_inside_reallocation))?;
    put_figures(line, &totals.figures)
}

pub(super) fn read_totals(fields: &Fields<'_>) -> Result<Totals, EventLineFault> {
    let number = |name: &'static str| Ok::<_, EventLineFault>(fields.number(name)?.unwrap_or(0));
    Ok(Totals {
        figures: read_figures(fields)?,
        peak_blocks: number("peak_blocks")?,
        peak_at: Nanos(number("peak_ns")?),
        peak_event: number("peak_event")?,
        peak_bytes_inside_reallocation: number("peak_bytes_inside_reallocation")?,
    })
}

/// What a state has besides figures and blocks.
pub(super) fn put_state(line: &mut Line<'_>, state: &AccountsState) -> io::Result<()> {
    line.number("time_ns", state.last_time.0)?;
    line.number("events", state.events)?;
    line.number("next_block", state.next_id)?;
    for (anomaly, count) in state.anomalies.iter() {
        line.known_number(anomaly.key(), known(count))?;
    }
    Ok(())
}

pub(super) fn read_state(fields: &Fields<'_>) -> Result<AccountsState, EventLineFault> {
    let mut anomalies = Anomalies::default();
    for anomaly in Anomaly::ALL {
        anomalies.add(anomaly, fields.number(anomaly.key())?.unwrap_or(0));
    }
    Ok(AccountsState {
        last_time: Nanos(fields.required_number("time_ns")?),
        events: fields.required_number("events")?,
        next_id: fields.required_number("next_block")?,
        anomalies,
        ..AccountsState::default()
    })
}

/// The latest allocation of a thread; none if the field is missing.
pub(super) fn read_last_block(fields: &Fields<'_>) -> Result<AllocId, EventLineFault> {
    Ok(fields.number("last_block")?.map_or_else(AllocId::default, AllocId))
}

/// The fields of a frame. Its module is a number.
pub(super) fn put_frame<W: Write>(
    object: &mut JsonObjectWriter<W>,
    frame: &Frame,
    catalog: &Catalog,
) -> io::Result<()> {
    object.known_text("function", catalog.strings.get(frame.function))?;
    object.known_text("file", catalog.strings.get(frame.file))?;
    object.known_number("line", known(frame.line.into()))?;
    object.known_number("module", known(frame.module.into()))?;
    if frame.address != 0 {
        object.address("address", frame.address)?;
    }
    if frame.inlined {
        object.truth("inlined", true)?;
    }
    let ColumnRange { start, end } = frame.columns;
    if frame.columns.are_known() {
        object.number("column", start.into())?;
        object.number("end_column", end.into())?;
    }
    Ok(())
}
