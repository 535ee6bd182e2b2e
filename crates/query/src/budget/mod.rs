//! Budgets: limits on the memory of a program, and whether a recording keeps them.
//!
//! A [`BudgetFile`] has [parts](BudgetPart): limits on the whole run, on the blocks that filters select, on a window, on what happens between two marks, or
//! on the growth from one mark to the next. [`judge`] measures each limit and says by how much it is broken and which sites did it;
//! [`judge_against`] derives the limits from earlier runs instead. The command line prints these answers; nothing here prints.
//!
//! # Design
//!
//! * *A limit that cannot be measured is not kept*: [`Outcome::NotKnown`] has the reason. A budget must not pass because a file lacks a figure.
//! * *Figures are compared exactly*, averages and shares too: the comparison multiplies, it never rounds. Only what is shown is rounded, upwards.
//! * *Suppressions* ([`Suppressions`]) take sites out of what is left over (leaks and growth), and out of nothing else.

mod baseline;
mod file;
mod judge;
mod limits;
mod suppressions;

pub use baseline::{Allowance, BaselineRange, ComparedLimit, ProcessFigures, comparable, judge_against};
pub use file::{BadBudget, BudgetFile, MOST_BUDGET_BYTES, nearest};
pub use judge::{BudgetSite, CheckedLimit, Outcome, ShownIn, judge};
pub use limits::{BudgetPart, BudgetUnit, ImpossibleLimit, LimitKind, PartSpan};
pub use suppressions::{
    BadSuppression, Suppressed, Suppression, Suppressions, TooManySuppressions, parse_suppressions,
};
