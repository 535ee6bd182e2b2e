//! The settings of a canister. The host shows them as they were set; only the controllers have an effect.

use super::arguments::{Argument, ArgumentError};
use crate::candid::{CandidValue, principal_text};
use crate::ic::reject::{Reject, code};

/// The most controllers.
const MOST_CONTROLLERS: usize = 10;
/// The most environment variables.
const MOST_VARIABLES: usize = 20;

/// The numbers among the settings: their names, what they are at first, and the most they can be.
const NUMBERS: [(&str, i128, i128); 8] = [
    ("compute_allocation", 0, 100),
    ("memory_allocation", 0, 1 << 48),
    ("freezing_threshold", 2_592_000, i128::MAX),
    ("reserved_cycles_limit", 5_000_000_000_000, i128::MAX),
    ("wasm_memory_limit", 3_221_225_472, 1 << 48),
    ("wasm_memory_threshold", 0, 1 << 48),
    ("log_memory_limit", 4096, 1 << 48),
    ("minimum_incoming_canister_call_cycles", 0, i128::MAX),
];

/// The settings that say who may see something.
const VISIBILITIES: [&str; 3] = ["log_visibility", "snapshot_visibility", "status_visibility"];

/// The settings of a canister.
#[derive(Clone, Debug, PartialEq)]
pub struct CanisterSettings {
    /// Those who may manage it; none as long as every caller may.
    controllers: Option<Vec<Vec<u8>>>,
    numbers: [i128; 8],
    visibilities: [CandidValue; 3],
    variables: Vec<CandidValue>,
}

impl Default for CanisterSettings {
    fn default() -> Self {
        Self {
            controllers: None,
            numbers: NUMBERS.map(|(_, first, _)| first),
            visibilities: VISIBILITIES.map(|_| CandidValue::variant("controllers", CandidValue::Null)),
            variables: Vec::new(),
        }
    }
}

impl CanisterSettings {
    /// Settings of a canister that a caller made.
    pub fn of(caller: &[u8]) -> Self {
        Self { controllers: Some(vec![caller.to_vec()]), ..Self::default() }
    }

    /// Whether a caller may manage the canister.
    pub fn is_controller(&self, caller: &[u8]) -> bool {
        self.controllers.as_ref().is_none_or(|known| known.iter().any(|known| known == caller))
    }

    /// The controllers, as a caller sees them: one of them, where every caller is one.
    pub fn controllers(&self, caller: &[u8]) -> Vec<Vec<u8>> {
        self.controllers.clone().unwrap_or_else(|| vec![caller.to_vec()])
    }

    /// Refuses a caller that is not a controller.
    pub fn check(&self, canister: &[u8], caller: &[u8], method: &str) -> Result<(), Reject> {
        if self.is_controller(caller) {
            return Ok(());
        }
        let (canister, caller) = (principal_text(canister), principal_text(caller));
        let line =
            format!("Only controllers of canister {canister} can call {method}, and {caller} is not one of them");
        Err(Reject::new(code::NOT_A_CONTROLLER, line))
    }

    /// Takes those settings that an argument has; all of them, or none if one cannot be taken.
    pub fn update(&mut self, given: &CandidValue) -> Result<(), Reject> {
        let mut new = self.clone();
        if let Some(controllers) = given.field("controllers") {
            let all = controllers.items("controllers")?;
            if all.len() > MOST_CONTROLLERS {
                return Err(Reject::new(code::INVALID_ARGUMENT, format!("more than {MOST_CONTROLLERS} controllers")));
            }
            let controllers = all.iter().map(|one| one.principal("controllers")).collect::<Result<_, _>>()?;
            new.controllers = Some(controllers);
        }
        for (number, (name, _, most)) in new.numbers.iter_mut().zip(NUMBERS) {
            if let Some(value) = given.field(name) {
                let value = value.as_number().filter(|value| (0..=most).contains(value));
                *number = value.ok_or(ArgumentError(name))?;
            }
        }
        for (visibility, name) in new.visibilities.iter_mut().zip(VISIBILITIES) {
            if let Some(value) = given.field(name) {
                let is_known = ["controllers", "public"].iter().any(|case| value.case(case).is_some());
                let viewers = value.case("allowed_viewers").and_then(CandidValue::as_items);
                if !is_known && !viewers.is_some_and(|all| all.iter().all(|one| one.as_principal().is_some())) {
                    return Err(ArgumentError(name).into());
                }
                *visibility = value.clone();
            }
        }
        if let Some(variables) = given.field("environment_variables") {
            new.variables = variables.items("environment_variables")?.to_vec();
            if new.variables.len() > MOST_VARIABLES {
                return Err(Reject::new(code::INVALID_ARGUMENT, format!("more than {MOST_VARIABLES} variables")));
            }
        }
        *self = new;
        Ok(())
    }

    /// The settings as `canister_status` shows them.
    pub fn value(&self, caller: &[u8]) -> CandidValue {
        let controllers = self.controllers(caller).into_iter().map(CandidValue::Principal).collect();
        let mut value = CandidValue::record([
            ("controllers", CandidValue::Vec(controllers)),
            ("environment_variables", CandidValue::Vec(self.variables.clone())),
        ]);
        if let CandidValue::Record(fields) = &mut value {
            let numbers = self.numbers.iter().zip(NUMBERS);
            let visibilities = self.visibilities.iter().zip(VISIBILITIES);
            fields.extend(visibilities.map(|(value, name)| CandidValue::named(name, value.clone())));
            fields.extend(numbers.map(|(number, (name, ..))| CandidValue::named(name, CandidValue::number(*number))));
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_taken_together_or_not_at_all() {
        let mut settings = CanisterSettings::default();
        assert!(settings.is_controller(&[4]) && settings.is_controller(&[5]));
        let given = CandidValue::record([
            ("controllers", CandidValue::opt(Some(CandidValue::Vec(vec![CandidValue::Principal(vec![4])])))),
            ("compute_allocation", CandidValue::opt(Some(CandidValue::number(101)))),
        ]);
        let refused = settings.update(&given).unwrap_err();
        assert_eq!(refused.error, code::INVALID_ARGUMENT);
        assert_eq!(settings, CanisterSettings::default());
        let given = CandidValue::record([(
            "controllers",
            CandidValue::opt(Some(CandidValue::Vec(vec![CandidValue::Principal(vec![4])]))),
        )]);
        settings.update(&given).unwrap();
        assert!(settings.is_controller(&[4]) && !settings.is_controller(&[5]));
        assert_eq!(settings.check(&[], &[5], "stop_canister").unwrap_err().error_text(), "IC0512");
    }
}
