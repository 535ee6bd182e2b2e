//! Output for people: units, tables, charts, colour.

pub mod age;
pub use highwater_query::units as bytes;
pub mod chart;
pub mod colour;
pub mod cut;
pub mod figures;
pub mod heading;
pub mod hex;
pub mod markdown;
pub mod memory_curves;
pub mod progress;
pub mod rows;
pub mod rss;
pub mod screen;
pub mod site_line;
pub mod stack;
pub mod stacked_chart;
pub mod status;
pub mod summary;
pub mod table;
pub mod text;
