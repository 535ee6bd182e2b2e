//! The description of a snapshot's fields and types. It stands in the file, before the arrays that it describes.

use crate::dumps::DumpError;
use serde_json::Value;

/// The most fields of a node or an edge.
const MOST_FIELDS: usize = 32;

/// The kinds of nodes: the types that V8 knows, and one for types that it may get later.
pub const KIND_NAMES: [&str; 17] = [
    "hidden",
    "array",
    "string",
    "object",
    "code",
    "closure",
    "regexp",
    "number",
    "native",
    "synthetic",
    "concatenated string",
    "sliced string",
    "symbol",
    "bigint",
    "object shape",
    "wasm object",
    "other",
];

/// Kinds by their index in [`KIND_NAMES`].
pub mod kind {
    pub const HIDDEN: u8 = 0;
    pub const STRING: u8 = 2;
    pub const OBJECT: u8 = 3;
    pub const CODE: u8 = 4;
    pub const CLOSURE: u8 = 5;
    pub const REGEXP: u8 = 6;
    pub const NATIVE: u8 = 8;
    pub const SYNTHETIC: u8 = 9;
    pub const CONCATENATED: u8 = 10;
    pub const SLICED: u8 = 11;
    pub const OTHER: u8 = 16;
}

/// The kind of a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum EdgeKind {
    /// A variable in a context.
    Context,
    /// An element of an array, by its index.
    Element,
    /// A property of an object.
    Property,
    /// A link of the runtime with a name.
    Internal,
    /// A link of the runtime with a number.
    Hidden,
    /// A way past links of the runtime; at the root, a global object.
    Shortcut,
    /// A reference that keeps nothing alive.
    Weak,
    /// A type that is not known.
    Other,
}

impl EdgeKind {
    const ALL: [(&'static str, Self); 7] = [
        ("context", Self::Context),
        ("element", Self::Element),
        ("property", Self::Property),
        ("internal", Self::Internal),
        ("hidden", Self::Hidden),
        ("shortcut", Self::Shortcut),
        ("weak", Self::Weak),
    ];

    fn named(name: &str) -> Self {
        Self::ALL.iter().find(|(known, _)| *known == name).map_or(Self::Other, |(_, kind)| *kind)
    }

    /// The kind with a number.
    pub fn of(number: u8) -> Self {
        Self::ALL.get(usize::from(number)).map_or(Self::Other, |(_, kind)| *kind)
    }

    /// True if the name is a number; otherwise it is a string.
    pub fn is_numbered(self) -> bool {
        matches!(self, Self::Element | Self::Hidden)
    }
}

/// Where the fields of nodes, edges and locations are in their rows, and what the types are.
#[derive(Debug)]
pub struct Meta {
    pub node: NodeFields,
    pub edge: EdgeFields,
    pub location: Option<LocationFields>,
    /// By number in the file: the kind of a node.
    pub kinds: Vec<u8>,
    /// By number in the file: the kind of an edge.
    pub edge_kinds: Vec<EdgeKind>,
    pub nodes: u64,
    pub edges: u64,
}

#[derive(Debug)]
pub struct NodeFields {
    pub width: usize,
    pub kind: usize,
    pub name: usize,
    pub id: usize,
    pub size: usize,
    pub edges: usize,
    /// Not in snapshots of old versions.
    pub detachedness: Option<usize>,
}

#[derive(Debug)]
pub struct EdgeFields {
    pub width: usize,
    pub kind: usize,
    pub name: usize,
    pub to: usize,
}

#[derive(Debug)]
pub struct LocationFields {
    pub width: usize,
    pub object: usize,
    pub line: usize,
    pub column: usize,
}

impl Meta {
    /// Reads the value of `snapshot`, which ends at an offset.
    pub fn read(json: &[u8], offset: u64) -> Result<Self, DumpError> {
        let damaged = |what: String| DumpError::damaged(offset, what);
        let value: Value = serde_json::from_slice(json).map_err(|error| damaged(error.to_string()))?;
        let meta = &value["meta"];
        let fields = |name: &str| -> Vec<&str> {
            meta[name].as_array().into_iter().flatten().map(|field| field.as_str().unwrap_or_default()).collect()
        };
        let (nodes, edges, locations) = (fields("node_fields"), fields("edge_fields"), fields("location_fields"));
        if nodes.len().max(edges.len()).max(locations.len()) > MOST_FIELDS {
            return Err(damaged(format!("there are more than {MOST_FIELDS} fields")));
        }
        let find = |fields: &[&str], name: &str| fields.iter().position(|field| *field == name);
        let must = |fields: &[&str], name: &str| {
            find(fields, name).ok_or_else(|| damaged(format!("the description has no field '{name}'")))
        };
        let node = NodeFields {
            width: nodes.len(),
            kind: must(&nodes, "type")?,
            name: must(&nodes, "name")?,
            id: must(&nodes, "id")?,
            size: must(&nodes, "self_size")?,
            edges: must(&nodes, "edge_count")?,
            detachedness: find(&nodes, "detachedness"),
        };
        let edge = EdgeFields {
            width: edges.len(),
            kind: must(&edges, "type")?,
            name: must(&edges, "name_or_index")?,
            to: must(&edges, "to_node")?,
        };
        let location = find(&locations, "object_index").and_then(|object| {
            let (line, column) = (find(&locations, "line")?, find(&locations, "column")?);
            Some(LocationFields { width: locations.len(), object, line, column })
        });
        let types = |name: &str, at: usize| -> Vec<&str> {
            let all = meta[name][at].as_array().into_iter().flatten();
            all.map(|kind| kind.as_str().unwrap_or_default()).collect()
        };
        let kind = |name: &str| KIND_NAMES.iter().position(|known| *known == name).map_or(kind::OTHER, |at| at as u8);
        Ok(Self {
            kinds: types("node_types", node.kind).into_iter().map(kind).collect(),
            edge_kinds: types("edge_types", edge.kind).into_iter().map(EdgeKind::named).collect(),
            nodes: value["node_count"].as_u64().unwrap_or(0),
            edges: value["edge_count"].as_u64().unwrap_or(0),
            node,
            edge,
            location,
        })
    }
}
