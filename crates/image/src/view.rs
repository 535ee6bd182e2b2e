//! The view of one object.

use crate::examine::Examination;
use crate::graph::GraphNode;
use crate::guess::Guess;
use crate::heap::ImageHeap;
use crate::lens::{Lens, Located};
use crate::path::ObjectPath;
use crate::paths::{Referrers, path_to, referrers};

/// The most referrers that are listed.
const NAMED_REFERRERS: usize = 10;

/// One object, or the value that it holds.
#[derive(Clone, Debug)]
pub struct ObjectView {
    /// The object; for a value that is not an object, the one that holds it.
    pub object: u64,
    /// Its kind.
    pub kind: &'static str,
    /// Its shape.
    pub shape: String,
    /// Its own bytes.
    pub bytes: u64,
    /// Its retained bytes, itself included; none if it is not live.
    pub retained_bytes: Option<u64>,
    /// The object without which it would be freed; none if no single object keeps it.
    pub dominator: Option<u64>,
    /// The shortest path to it; none if it is not live.
    pub path: Option<ObjectPath>,
    /// The references to it.
    pub referrers: Referrers,
    /// The value as the language writes it; none for an object without a type.
    pub value: Option<String>,
    /// The probable content of an object without a type.
    pub guess: Option<Guess>,
    /// The bytes of an object without a type.
    pub contents: Vec<u8>,
}

pub(crate) fn view_object<L: Lens + ImageHeap>(lens: &L, examination: &Examination, located: Located) -> ObjectView {
    let Located { object, value } = located;
    let node: Option<GraphNode> = examination.graph.find(object);
    let (guess, contents) = lens.guess_contents(object).unzip();
    ObjectView {
        object,
        kind: L::KINDS[usize::from(lens.kind(object))],
        shape: lens.shape_name(object),
        bytes: lens.bytes(object),
        retained_bytes: node.map(|node| node.retained_bytes),
        dominator: node.filter(|node| node.dominator != 0).map(|node| examination.graph.node(node.dominator).object),
        path: node.and_then(|_| path_to(lens, &examination.survey, object)),
        referrers: referrers(lens, &examination.survey, object, NAMED_REFERRERS),
        value,
        guess,
        contents: contents.map(<[u8]>::to_vec).unwrap_or_default(),
    }
}
