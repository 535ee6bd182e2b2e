//! Names of the steps: for tests that kill the attacher at each of them.

/// Called at each step with its name.
#[derive(Clone, Copy)]
pub struct Steps {
    hook: Option<fn(&'static str)>,
}

impl Steps {
    /// Nothing happens at steps.
    pub const NONE: Self = Self { hook: None };

    /// Calls a function at each step.
    pub fn new(hook: fn(&'static str)) -> Self {
        Self { hook: Some(hook) }
    }

    pub(crate) fn at(&self, name: &'static str) {
        if let Some(hook) = self.hook {
            hook(name);
        }
    }
}

impl std::fmt::Debug for Steps {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Steps").finish_non_exhaustive()
    }
}
