//! The columns of the lake's tables as engines see them, and the views that questions are asked over.

use crate::protocol::EngineColumn;
use crate::scope::{FleetScope, ScopeOf};
use std::collections::BTreeMap;

/// The tables.
pub const TABLES: [&str; 5] = ["sites", "sites_hour", "processes", "stacks", "frames"];

const SITES: &[(&str, &str)] = &[
    ("slot", "BIGINT"),
    ("version", "STRING"),
    ("region", "STRING"),
    ("host", "STRING"),
    ("pid", "INT"),
    ("start", "TIMESTAMP"),
    ("process_id", "BIGINT"),
    ("stack_id", "BIGINT"),
    ("site_id", "BIGINT"),
    ("sample_period", "BIGINT"),
    ("live_bytes", "BIGINT"),
    ("live_blocks", "BIGINT"),
    ("alloc_bytes", "BIGINT"),
    ("alloc_blocks", "BIGINT"),
];
const SITES_HOUR: &[(&str, &str)] = &[
    ("hour", "BIGINT"),
    ("version", "STRING"),
    ("region", "STRING"),
    ("host", "STRING"),
    ("pid", "INT"),
    ("start", "TIMESTAMP"),
    ("process_id", "BIGINT"),
    ("stack_id", "BIGINT"),
    ("site_id", "BIGINT"),
    ("sample_period", "BIGINT"),
    ("n", "BIGINT"),
    ("min_bytes", "BIGINT"),
    ("max_bytes", "BIGINT"),
    ("sum_bytes", "BIGINT"),
    ("sum_blocks", "BIGINT"),
    ("sx", "BIGINT"),
    ("sxx", "BIGINT"),
    ("sxy", "BIGINT"),
    ("syy", "BIGINT"),
];
const PROCESSES: &[(&str, &str)] = &[
    ("slot", "BIGINT"),
    ("version", "STRING"),
    ("region", "STRING"),
    ("host", "STRING"),
    ("container", "STRING"),
    ("pid", "INT"),
    ("start", "TIMESTAMP"),
    ("process_id", "BIGINT"),
    ("sample_period", "BIGINT"),
    ("live_bytes", "BIGINT"),
    ("live_blocks", "BIGINT"),
    ("rss_bytes", "BIGINT"),
    ("limit_bytes", "BIGINT"),
];
const STACKS: &[(&str, &str)] = &[
    ("stack_id", "BIGINT"),
    ("site_id", "BIGINT"),
    ("function", "STRING"),
    ("type_name", "STRING"),
    ("stack", "STRING"),
];
const FRAMES: &[(&str, &str)] = &[
    ("stack_id", "BIGINT"),
    ("site_id", "BIGINT"),
    ("depth", "INT"),
    ("function", "STRING"),
    ("file", "STRING"),
    ("line", "INT"),
    ("module", "STRING"),
    ("build_id", "STRING"),
];

/// The columns of a table's relations; the service is the last one. Empty for a table that does not exist.
pub fn columns(table: &str) -> Vec<EngineColumn> {
    let own = match table {
        "sites" => SITES,
        "sites_hour" => SITES_HOUR,
        "processes" => PROCESSES,
        "stacks" => STACKS,
        "frames" => FRAMES,
        _ => return Vec::new(),
    };
    let column = |(name, kind): &(&str, &str)| EngineColumn { name: (*name).into(), kind: (*kind).into() };
    own.iter().chain(&[("service", "STRING")]).map(column).collect()
}

/// The views, by name, of a whole lake.
pub fn views() -> BTreeMap<String, String> {
    views_of(&FleetScope::default())
}

/// The views, by name, with the rows of a scope.
///
/// `processes` drops rows that a host sent twice. `stacks` and `frames` have one row per site, and per site and depth: the files repeat a stack for each day, service
/// and host. A site has several stacks if its code moved; `frames` shows one of them, so that file and line belong together. Of a scope they have the sites of its
/// services: a stack belongs to no time and to no process.
pub fn views_of(scope: &FleetScope) -> BTreeMap<String, String> {
    let both = |table: &str, operator: &str, condition: &str| {
        let names: Vec<String> = columns(table).into_iter().map(|column| column.name).collect();
        let names = names.join(", ");
        let part = |kind: &str| match condition {
            "1 = 1" => format!("SELECT {names} FROM {table}_{kind}"),
            _ => format!("SELECT {names} FROM {table}_{kind} WHERE {condition}"),
        };
        format!("{} {operator} {}", part("compacted"), part("incoming"))
    };
    // No view refers to another one.
    let containers = "(SELECT process_id, container FROM processes_compacted UNION ALL SELECT process_id, container FROM processes_incoming) c";
    let of = |relation| scope.sql_with_containers(relation, containers);
    let frames = both("frames", "UNION ALL", &scope.service_sql());
    let stacks = both("stacks", "UNION ALL", &scope.service_sql());
    BTreeMap::from([
        ("sites".into(), both("sites", "UNION ALL", &of(ScopeOf::Sites))),
        ("sites_hour".into(), both("sites_hour", "UNION ALL", &of(ScopeOf::Hours))),
        ("processes".into(), both("processes", "UNION", &of(ScopeOf::Processes))),
        (
            "stacks".into(),
            format!(
                "SELECT site_id, min(function) AS function, max(type_name) AS type_name, min(stack) AS stack FROM ({stacks}) s GROUP BY site_id"
            ),
        ),
        (
            "frames".into(),
            format!(
                "SELECT f.site_id AS site_id, f.depth AS depth, min(f.function) AS function, max(f.file) AS file, max(f.line) AS line, \
                 max(f.module) AS module, max(f.build_id) AS build_id FROM ({frames}) f \
                 JOIN (SELECT site_id, min(stack_id) AS stack_id FROM ({frames}) g GROUP BY site_id) c \
                 ON c.site_id = f.site_id AND c.stack_id = f.stack_id GROUP BY f.site_id, f.depth"
            ),
        ),
    ])
}
