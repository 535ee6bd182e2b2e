//! What the fuzz targets share; README.md says what each of them promises.

mod examine;
mod examine_budget;
mod examine_history;
mod examine_hprof;
mod examine_image;
mod examine_lake_file;
mod examine_log;
mod examine_profile;
mod examine_question;
mod examine_resident;
mod examine_stream;
mod examine_trace;
mod go_on;
mod heap;
mod reseal;
mod scene;

pub use examine::{examine_lines, examine_recorded_lines, examine_recording};
pub use examine_budget::examine_budget;
pub use examine_history::examine_history;
pub use examine_hprof::examine_hprof;
pub use examine_image::{examine_dlmalloc, examine_motoko};
pub use examine_lake_file::examine_lake_file;
pub use examine_log::examine_log;
pub use examine_profile::examine_profile;
pub use examine_question::examine_question;
pub use examine_resident::examine_resident;
pub use examine_stream::examine_stream;
pub use examine_trace::examine_trace;
pub use go_on::go_on_with_recording;
pub use reseal::reseal;
pub use scene::Scene;
