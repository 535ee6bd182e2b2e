//! Times of instants.

use super::errors::RecordingError;
use super::recording::Recording;
use highwater_model::{Nanos, When};

impl Recording {
    /// The time of an instant.
    pub fn time_of(&self, when: &When) -> Result<Nanos, RecordingError> {
        let (start, duration) = (self.begins_at(), self.source().duration);
        Ok(match when {
            When::Start => start,
            When::End => duration,
            When::At(time) => *time,
            When::Line(line) if self.source().is_untimed() => Nanos(*line),
            When::Line(_) => return Err(RecordingError::NoLines),
            When::Peak => self.final_totals()?.peak_at,
            When::Percent(part) => {
                let length = duration.0 - start.0;
                Nanos(start.0 + ((length as f64 * part / 100.0).round() as u64).min(length))
            }
            When::Mark(name) => {
                let marks = self.marks()?;
                match marks.iter().find(|mark| mark.name == *name) {
                    Some(mark) => mark.time,
                    None => {
                        let mut known: Vec<String> = marks.into_iter().map(|mark| mark.name).collect();
                        known.dedup();
                        return Err(RecordingError::UnknownMark { name: name.clone(), known });
                    }
                }
            }
        })
    }
}
