//! Questions about the memory of a fleet, as SQL over a [lake](highwater_lake).
#![forbid(unsafe_code)]
