//! Memory by span: a layer that makes the spans of the crate `tracing` [tasks](highwater::task) of Highwater.
//!
//! What a thread allocates inside a span belongs to the task with the span's name, on every thread that enters the span. A program that has spans already
//! needs one line:
//!
//! ```
//! use tracing_subscriber::layer::SubscriberExt;
//!
//! let subscriber = tracing_subscriber::registry().with(highwater_tracing::TaskLayer::new());
//! tracing::subscriber::with_default(subscriber, || {
//!     let _span = tracing::info_span!("load").entered();
//!     // `highwater report --by task` says that "load" holds it:
//!     let _index = vec![0u8; 4096];
//! });
//! ```
//!
//! Of nested spans, the innermost counts. A filter of the layer (`with_filter`) selects the spans that are tasks; inside the others, blocks belong to the
//! nearest selected span around them.
#![forbid(unsafe_code)]

use highwater::task::Task;
use std::cell::RefCell;
use tracing_core::Subscriber;
use tracing_core::span::{Attributes, Id};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

thread_local! {
    /// The spans that this thread is in, outermost first, each with the task that the thread worked for when it entered.
    static INSIDE: RefCell<Vec<(Id, Task)>> = const { RefCell::new(Vec::new()) };
}

/// The layer: see the [crate's page](crate).
#[derive(Clone, Copy, Debug, Default)]
pub struct TaskLayer {
    has_targets: bool,
}

impl TaskLayer {
    /// A layer that makes every span a task.
    pub fn new() -> Self {
        Self::default()
    }

    /// Names a task after the span's target, which is its module unless the program says otherwise, and its name: `shop::cart::add` in place of `add`. For
    /// programs with several spans of the same name.
    pub fn with_targets(self) -> Self {
        Self { has_targets: true }
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for TaskLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let metadata = attributes.metadata();
        let task = match self.has_targets {
            true => Task::named(format!("{}::{}", metadata.target(), metadata.name())),
            false => Task::named(metadata.name()),
        };
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(task);
        }
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        // A span that was made before the layer was has no task.
        let Some(task) = context.span(id).and_then(|span| span.extensions().get::<Task>().copied()) else { return };
        // The thread's own storage is gone while the thread ends.
        let _ = INSIDE.try_with(|inside| {
            let Ok(mut inside) = inside.try_borrow_mut() else { return };
            inside.push((id.clone(), task.switch()));
        });
    }

    fn on_exit(&self, id: &Id, _: Context<'_, S>) {
        let _ = INSIDE.try_with(|inside| {
            let Ok(mut inside) = inside.try_borrow_mut() else { return };
            let Some(at) = inside.iter().rposition(|(inner, _)| inner == id) else { return };
            let (_, before) = inside.remove(at);
            // Guards of spans may be dropped in any order: the thread may still be in a span inside this one.
            match inside.get_mut(at) {
                Some(inner) => inner.1 = before,
                None => drop(before.switch()),
            }
        });
    }
}
