//! Times of instants.

use super::errors::RecordingError;
use super::recording::Recording;
use highwater_model::{GaugeReading, Nanos, When, gauge};

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
            When::RssPeak => rss_peak(&self.gauges()?).ok_or(RecordingError::NoRss)?.time,
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

/// The highest reading of RSS, and the first of these.
fn rss_peak(gauges: &[GaugeReading]) -> Option<&GaugeReading> {
    let rss = gauges.iter().filter(|reading| reading.name == gauge::RSS);
    rss.reduce(|highest, reading| if reading.value > highest.value { reading } else { highest })
}
