//! One object as text: what it is, and what it refers to, some levels deep.

use super::graph::V8Heap;
use super::meta::{EdgeKind, kind};
use std::fmt::Write;

/// The most characters of a string that are shown.
const TEXT: usize = 200;
/// The most references of an object that are listed.
const LISTED: usize = 50;
/// The most lines.
const LINES: usize = 400;

/// An object, and the objects it refers to, `depth` levels deep.
pub fn show(heap: &V8Heap, node: u32, depth: u32) -> String {
    let mut text = summary(heap, node);
    let mut lines = 1;
    // Depth is bounded by the lines, so the list of open objects is short.
    let mut open = vec![(node, references(heap, node).into_iter())];
    while let Some((_, edges)) = open.last_mut() {
        let Some(edge) = edges.next() else {
            open.pop();
            continue;
        };
        if lines == LINES {
            text.push_str("\n…");
            break;
        }
        lines += 1;
        let to = heap.target(edge);
        let indent = "  ".repeat(open.len());
        let _ = write!(text, "\n{indent}{} {}", heap.edge_step(edge), summary(heap, to));
        let is_open = open.iter().any(|(above, _)| *above == to);
        if (open.len() as u32) < depth && !is_open && is_opened(heap, edge) {
            open.push((to, references(heap, to).into_iter()));
        }
    }
    text
}

/// The references of an object: those of the program first, then links of the runtime; weak ones last.
fn references(heap: &V8Heap, node: u32) -> Vec<usize> {
    let mut edges: Vec<usize> = heap.edges_of(node).collect();
    edges.sort_by_key(|edge| match heap.edge_kind(*edge) {
        EdgeKind::Property | EdgeKind::Element | EdgeKind::Context | EdgeKind::Shortcut => 0,
        EdgeKind::Internal | EdgeKind::Other => 1,
        EdgeKind::Hidden => 2,
        EdgeKind::Weak => 3,
    });
    edges.truncate(LISTED);
    edges
}

/// Links of the runtime are not followed, except to the variables that a function captured.
fn is_opened(heap: &V8Heap, edge: usize) -> bool {
    match heap.edge_kind(edge) {
        EdgeKind::Property => heap.strings.raw(heap.edge_name(edge)) != b"__proto__",
        EdgeKind::Element | EdgeKind::Context => true,
        EdgeKind::Internal => heap.strings.raw(heap.edge_name(edge)) == b"context",
        _ => false,
    }
}

/// An object in a few words: `Account @17, 48 bytes`, `"a text" @19`.
fn summary(heap: &V8Heap, node: u32) -> String {
    format!("{} @{}, {} bytes", describe(heap, node), heap.id_of(node), heap.size_of(node))
}

/// What an object is: the text of a string, a function and its place, a constructor.
pub fn describe(heap: &V8Heap, node: u32) -> String {
    match heap.kind_of(node) {
        kind::STRING | kind::SLICED | kind::CONCATENATED => text_of(heap, node, TEXT),
        kind::CLOSURE => function(heap, node),
        kind::OBJECT | kind::NATIVE => heap.class_name(node),
        _ => {
            let (class, name) = (heap.class_name(node), heap.strings.preview(heap.name_of(node), TEXT));
            if name.is_empty() || name == class { class } else { format!("{class} {name}") }
        }
    }
}

/// The text of a string in quotation marks. A concatenated one consists of others.
pub fn text_of(heap: &V8Heap, node: u32, most: usize) -> String {
    let mut text = String::new();
    let mut parts = vec![node];
    let mut visited = 0;
    while let Some(part) = parts.pop() {
        visited += 1;
        if heap.kind_of(part) == kind::CONCATENATED && visited < LINES {
            let half = |name: &str| heap.find_edge(part, EdgeKind::Internal, name);
            parts.extend(half("second"));
            parts.extend(half("first"));
        } else {
            text.push_str(&heap.strings.preview(heap.name_of(part), most));
        }
        if text.chars().count() > most {
            text = text.chars().take(most).chain(['…']).collect();
            break;
        }
    }
    format!("{text:?}")
}

/// A function, its script, and where it is defined: `next at app.js:12:3`.
pub fn function(heap: &V8Heap, node: u32) -> String {
    let name = heap.strings.preview(heap.name_of(node), TEXT);
    let mut text = if name.is_empty() { "(anonymous)()".to_owned() } else { format!("{name}()") };
    if let Ok(at) = heap.locations.binary_search_by_key(&node, |location| location.0) {
        let (_, line, column) = heap.locations[at];
        let place = format!("{}:{}", u64::from(line) + 1, u64::from(column) + 1);
        let script = script_of(heap, node);
        let _ = match script {
            Some(script) => write!(text, " at {script}:{place}"),
            None => write!(text, " at {place}"),
        };
    }
    text
}

/// The name of the script that a function is defined in.
fn script_of(heap: &V8Heap, node: u32) -> Option<String> {
    let shared = heap.find_edge(node, EdgeKind::Internal, "shared")?;
    let script =
        ["script", "script_or_debug_info"].iter().find_map(|name| heap.find_edge(shared, EdgeKind::Internal, name))?;
    let name = heap.find_edge(script, EdgeKind::Internal, "name")?;
    Some(heap.strings.preview(heap.name_of(name), TEXT)).filter(|name| !name.is_empty())
}

/// The variables that a function captured, by name: `secret, count`.
pub fn captured(heap: &V8Heap, node: u32) -> Vec<String> {
    let Some(context) = heap.find_edge(node, EdgeKind::Internal, "context") else { return Vec::new() };
    let variables = heap.edges_of(context).filter(|edge| heap.edge_kind(*edge) == EdgeKind::Context);
    variables.map(|edge| heap.strings.preview(heap.edge_name(edge), TEXT)).collect()
}
