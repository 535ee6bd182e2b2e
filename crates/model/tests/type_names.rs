//! Names of functions are untrusted text: whatever they are, the types of a stack are found without a panic, and the same each time.

use highwater_model::{Catalog, FrameText, Naming, SiteTypes, StackId};
use proptest::prelude::*;

/// Parts of names, as compilers and demanglers write them, and what breaks them.
const PARTS: [&str; 44] = [
    "alloc",
    "::",
    "vec",
    "Vec",
    "<",
    ">",
    "raw_vec",
    "RawVec",
    "grow_one",
    "push",
    "T",
    "A",
    ",",
    " ",
    "u8",
    "u64",
    "std",
    "core",
    "hashbrown",
    "raw",
    "RawTable",
    "(",
    ")",
    " as ",
    "clone",
    "Clone",
    "app",
    "Point",
    "{closure#0}",
    "…",
    "[",
    "]",
    ";",
    "&",
    "operator new",
    "allocator",
    "__new_allocator",
    "_Rb_tree_node",
    "pair",
    " const",
    "*",
    "->",
    "basic_string",
    "é",
];
const FILES: [&str; 5] = [
    "",
    "/rustc/0123/library/alloc/src/vec/mod.rs",
    "/rust/deps/hashbrown-0.16.1/src/raw/mod.rs",
    "/usr/include/c++/12/bits/stl_vector.h",
    "/home/me/.cargo/registry/src/index/smallvec-1/src/lib.rs",
];

fn name() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(&PARTS[..]), 0..24).prop_map(|parts| parts.concat())
}

fn stack_of(catalog: &mut Catalog, frames: &[(String, usize, bool)]) -> StackId {
    let texts: Vec<FrameText<'_>> = frames
        .iter()
        .map(|(function, file, inlined)| FrameText {
            function,
            file: FILES[*file],
            line: 1,
            inlined: *inlined,
            ..FrameText::default()
        })
        .collect();
    catalog.intern_stack(&texts)
}

proptest! {
    #[test]
    fn any_names_have_a_type_or_a_description(
        stacks in prop::collection::vec(prop::collection::vec((name(), 0..FILES.len(), any::<bool>()), 0..8), 1..6),
        is_checked in any::<bool>(),
    ) {
        let mut catalog = Catalog::default();
        let stacks: Vec<StackId> = stacks.iter().map(|frames| stack_of(&mut catalog, frames)).collect();
        if is_checked {
            catalog.types.set_checked();
        }
        let (mut types, mut again) = (SiteTypes::new(&catalog, &Naming::default()), SiteTypes::new(&catalog, &Naming::default()));
        for stack in stacks {
            let found = types.of(&catalog, stack);
            prop_assert!(!found.name.is_empty());
            // A type that is known never has a parameter or an unknown part in it; descriptions are in brackets.
            prop_assert!(!found.is_known || !found.name.contains('…'), "{}", found.name);
            prop_assert!(found.is_known || found.name.starts_with('['), "{}", found.name);
            types.claim(&catalog, stack);
            let _ = found.elements(u64::MAX, u64::MAX);
            prop_assert_eq!(&*again.of(&catalog, stack), &*found);
        }
    }

    #[test]
    fn any_text_is_a_name(function in ".{0,200}", file in 0..FILES.len()) {
        let mut catalog = Catalog::default();
        let stack = stack_of(&mut catalog, &[(function, file, false)]);
        let _ = SiteTypes::new(&catalog, &Naming::default()).of(&catalog, stack);
    }
}
