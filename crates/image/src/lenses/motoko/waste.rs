//! Memory of a Motoko heap that holds no data of the program.

use super::kind::MotokoKind;
use crate::examine::Waste;
use crate::survey::KindFigures;

/// The waste in a Motoko heap. Boxes of 64-bit numbers may be longer than they need to be.
pub fn waste(kinds: &[KindFigures], box_bytes: u64) -> Vec<Waste> {
    let live = |chosen: &[MotokoKind]| {
        let of = |kind: &MotokoKind| kinds[*kind as usize];
        chosen.iter().map(of).fold((0, 0), |sum, kind| (sum.0 + kind.live_count, sum.1 + kind.live_bytes))
    };
    let all = |chosen: &[MotokoKind]| {
        let of = |kind: &MotokoKind| kinds[*kind as usize];
        chosen.iter().map(of).fold((0, 0), |sum, kind| (sum.0 + kind.count, sum.1 + kind.bytes))
    };
    let numbers = [
        MotokoKind::Nat64,
        MotokoKind::Int64,
        MotokoKind::Float,
        MotokoKind::Nat32,
        MotokoKind::Int32,
        MotokoKind::Float32,
    ];
    let boxes = live(&numbers);
    let wide = live(&numbers[..3]);
    let padding = if box_bytes == 0 { 0 } else { wide.1.saturating_sub(wide.0 * box_bytes) };
    let free = all(&[MotokoKind::OneWordFiller, MotokoKind::FreeSpace, MotokoKind::Unused]);
    let lost = all(&[MotokoKind::Gap, MotokoKind::MarkStack, MotokoKind::Forwarded]);
    let objects = kinds.iter().map(|kind| (kind.count - kind.live_count, kind.bytes.saturating_sub(kind.live_bytes)));
    let dead = objects.fold((0, 0), |sum, kind| (sum.0 + kind.0, sum.1 + kind.1));
    let garbage = (dead.0.saturating_sub(free.0 + lost.0), dead.1.saturating_sub(free.1 + lost.1));
    let row = |what, explanation, (count, bytes): (u64, u64)| Waste { what, explanation, count, bytes };
    let rows = vec![
        row("garbage", "objects that nothing refers to any more", garbage),
        row(
            "boxes of variables",
            "mutable fields and variables lie in objects of their own",
            live(&[MotokoKind::MutBox]),
        ),
        row("boxes of numbers", "numbers of 64 bits and floats lie in objects of their own", boxes),
        row("ropes", "texts that were put together and not made one", live(&[MotokoKind::Concat])),
        row("slack", "words of boxes that are never used", (padding / 8, padding)),
        row("fragmentation", "free space between objects", free),
        row("unreadable", "what is no object, or was moved elsewhere", lost),
    ];
    rows.into_iter().filter(|row| row.bytes > 0).collect()
}
