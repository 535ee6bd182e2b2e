//! Names, lines and inlined frames, compared with binutils and the sources.

mod workshop;

use highwater_symbols::Symbolizer;
use std::path::Path;
use workshop::{BASE, PlainFrame, Workshop, at_base, frames, line_of, names};

/// Every address of the functions whose names contain one of the texts.
fn assert_as_addr2line(workshop: &Workshop, file: &Path, texts: &[&str]) {
    assert_as_addr2line_but(workshop, file, texts, str::to_owned);
}

/// The same, with names that are made comparable first.
fn assert_as_addr2line_but(workshop: &Workshop, file: &Path, texts: &[&str], comparable: impl Fn(&str) -> String) {
    let functions = workshop.functions(file);
    let wanted = functions.iter().filter(|function| texts.iter().any(|text| function.name.contains(text)));
    let addresses: Vec<u64> = wanted.flat_map(|function| function.start..function.start + function.size).collect();
    assert!(addresses.len() > 20, "{texts:?}");
    let mut symbolizer = Symbolizer::new();
    let mut differences = Vec::new();
    for (address, expected) in addresses.iter().zip(workshop.addr2line(file, &addresses)) {
        let ours = frames(&mut symbolizer, &at_base(file, ""), *address);
        let mut plain: Vec<_> = ours.iter().map(PlainFrame::of).collect();
        let mut expected = expected;
        plain.iter_mut().chain(&mut expected).for_each(|frame| frame.function = comparable(&frame.function));
        if plain != expected {
            differences.push(format!("{address:#x}: ours {plain:#?}, addr2line {expected:#?}"));
        }
    }
    assert!(differences.is_empty(), "{} of {}; {}", differences.len(), addresses.len(), differences[0]);
}

#[test]
fn inlined_frames_of_c_have_their_lines() {
    let workshop = Workshop::new("inlined_c");
    let program = workshop.compile("cc -g -O2 -fpie -pie", "plain.c", "plain");
    assert_as_addr2line(&workshop, &program, &["outer", "main", "only_local"]);

    let outer = workshop.function(&program, "outer");
    let mut symbolizer = Symbolizer::new();
    let module = symbolizer.module(&at_base(&program, "")).unwrap();
    assert!(module.has_debug_info());
    let deepest = (outer.start..outer.start + outer.size)
        .map(|address| module.lookup(BASE + address).to_vec())
        .find(|frames| frames[0].line == line_of("plain.c", "innermost allocates"))
        .unwrap();
    assert_eq!(names(&deepest), ["innermost", "middle", "outer"]);
    assert_eq!(deepest[1].line, line_of("plain.c", "middle calls"));
    assert_eq!(deepest[2].line, line_of("plain.c", "outer calls"));
    assert_eq!(deepest.iter().map(|frame| frame.inlined).collect::<Vec<_>>(), [true, true, false]);
    assert!(deepest.iter().all(|frame| frame.file.ends_with("tests/programs/plain.c")));
}

#[test]
fn templates_lambdas_and_hidden_functions_of_cpp_are_readable() {
    let workshop = Workshop::new("templates");
    let program = workshop.compile("c++ -g -O1", "templates.cpp", "templates");
    assert_as_addr2line(&workshop, &program, &["shop", "main"]);

    let mut symbolizer = Symbolizer::new();
    let mut outermost = |text| {
        let start = workshop.function(&program, text).start;
        frames(&mut symbolizer, &at_base(&program, ""), start).last().unwrap().clone()
    };
    assert_eq!(outermost("Basket").function.as_ref(), "shop::Basket<double>::put(double const&)");
    assert_eq!(outermost("hidden").function.as_ref(), "shop::(anonymous namespace)::hidden(int)");
    let lambda = outermost("filledEiENK");
    assert_eq!(lambda.function.as_ref(), "shop::filled(int)::{lambda(int)#1}::operator()(int) const");
}

/// A name without its type parameters and arguments.
fn without_types(name: &str) -> String {
    let mut depth = 0;
    let mut text = String::new();
    for character in name.chars() {
        depth -= i32::from(character == '>');
        if depth == 0 && character != '>' && character != '<' {
            text.push(character);
        }
        depth += i32::from(character == '<');
    }
    text.trim_end_matches("::").to_owned()
}

#[test]
fn both_manglings_of_rust_are_readable() {
    let workshop = Workshop::new("rust_manglings");
    let v0 = "-C symbol-mangling-version=v0";
    // The older mangling cannot be selected without this option, though many compilers have it as their default.
    let legacy = "-Z unstable-options -C symbol-mangling-version=legacy";
    for (name, flags, expected) in [
        ("v0", v0, "<generic::cellar::Shelf<u64>>::stock_up"),
        // The symbol has the parameter, and the debug information has the argument.
        ("legacy", legacy, "generic::cellar::Shelf<u64>::stock_up"),
    ] {
        let compiler = format!("env RUSTC_BOOTSTRAP=1 rustc --edition 2024 -O -g {flags}");
        let program = workshop.compile(&compiler, "generic.rs", name);
        // The other tool shows the symbol alone, which has no type arguments in the older mangling.
        match name {
            "legacy" => assert_as_addr2line_but(&workshop, &program, &["stock_up"], without_types),
            _ => assert_as_addr2line(&workshop, &program, &["stock_up"]),
        }

        let start = workshop.function(&program, "stock_up").start;
        let mut symbolizer = Symbolizer::new();
        let frames = frames(&mut symbolizer, &at_base(&program, ""), start);
        assert_eq!(names(&frames).last(), Some(&expected));
        assert!(frames.last().unwrap().file.ends_with("generic.rs"));
    }
}

#[test]
fn older_and_compressed_debug_information_is_read() {
    let workshop = Workshop::new("encodings");
    for version in ["-gdwarf-4", "-gdwarf-5"] {
        let program = workshop.compile(&format!("cc {version} -O2"), "plain.c", version.trim_start_matches('-'));
        assert_as_addr2line(&workshop, &program, &["outer", "main", "only_local"]);
    }
    for format in ["zlib", "zlib-gnu", "zstd"] {
        workshop.run(&format!("objcopy --compress-debug-sections={format} gdwarf-5 {format}"));
        assert_as_addr2line(&workshop, &workshop.path(format), &["outer", "main", "only_local"]);
    }
}

#[test]
fn small_debug_information_gets_its_full_names_from_the_symbols() {
    let workshop = Workshop::new("line_tables_only");
    let compiler = "rustc --edition 2024 -O -C debuginfo=line-tables-only -C symbol-mangling-version=v0";
    let program = workshop.compile(compiler, "generic.rs", "small");
    let function = workshop.function(&program, "stock_up");
    let mut symbolizer = Symbolizer::new();
    let line = line_of("generic.rs", "extend_twice begins");
    let frames = (function.start..function.start + function.size)
        .map(|address| frames(&mut symbolizer, &at_base(&program, ""), address))
        .find(|frames| frames.iter().any(|frame| frame.file.ends_with("generic.rs") && frame.line == line))
        .unwrap();
    let [.., inlined, outermost] = frames.as_slice() else { panic!("{frames:?}") };
    assert_eq!(outermost.function.as_ref(), "<generic::cellar::Shelf<u64>>::stock_up");
    // Of an inlined function only the bare name is known.
    assert!(inlined.function.starts_with("extend_twice"), "{}", inlined.function);
}

#[test]
fn without_debug_information_there_are_names_of_functions() {
    let workshop = Workshop::new("symbols_only");
    let program = workshop.compile("cc -O2", "plain.c", "plain");
    let mut symbolizer = Symbolizer::new();
    for name in ["outer", "main", "only_local"] {
        let function = workshop.function(&program, name);
        for address in [function.start, function.start + function.size - 1] {
            let frames = frames(&mut symbolizer, &at_base(&program, ""), address);
            assert_eq!(names(&frames), [name]);
            assert_eq!((frames[0].file.as_ref(), frames[0].line, frames[0].inlined), ("", 0, false));
        }
        let after = frames(&mut symbolizer, &at_base(&program, ""), function.start + function.size);
        assert!(!names(&after).contains(&name));
    }
    assert!(!symbolizer.module(&at_base(&program, "")).unwrap().has_debug_info());
}

#[test]
fn a_stripped_library_has_the_names_that_it_exports() {
    let workshop = Workshop::new("exports_only");
    let unstripped = workshop.compile("cc -O2 -shared -fPIC", "plain.c", "unstripped.so");
    workshop.run("strip -o plain.so unstripped.so");
    let mut symbolizer = Symbolizer::new();
    let mut names_at = |name| {
        let address = workshop.function(&unstripped, name).start;
        names(&frames(&mut symbolizer, &at_base(&workshop.path("plain.so"), ""), address)).join(" ")
    };
    assert_eq!(names_at("outer"), "outer");
    assert_eq!(names_at("only_local"), "");
}

#[test]
fn of_several_names_the_public_one_is_shown() {
    let workshop = Workshop::new("aliases");
    for flags in ["-O2", "-O2 -g"] {
        let program = workshop.compile(&format!("cc {flags}"), "aliases.c", "aliases");
        let mut symbolizer = Symbolizer::new();
        for (symbol, shown) in [("__real_allocate", "allocate"), ("assembled", "assembled")] {
            let functions = workshop.functions(&program);
            let function = functions.iter().find(|function| function.name == symbol).unwrap();
            for address in function.start..function.start + function.size {
                let frames = frames(&mut symbolizer, &at_base(&program, ""), address);
                assert_eq!(names(&frames).last(), Some(&shown), "{address:#x}");
            }
        }
    }
}

#[test]
fn a_file_that_is_shortened_while_it_is_used_is_read_already_and_one_that_was_before_is_an_error() {
    let workshop = Workshop::new("shortened");
    let program = workshop.compile("cc -g -O2 -fpie -pie", "plain.c", "plain");
    let outer = workshop.function(&program, "outer").start;
    let mut symbolizer = Symbolizer::new();
    let module = symbolizer.module(&at_base(&program, "")).unwrap();
    let file = std::fs::File::options().write(true).open(&program).unwrap();
    file.set_len(4096).unwrap();
    // With a mapped file, the names and lines would be gone, and this process would be killed.
    let frames = module.lookup(BASE + outer).to_vec();
    assert_eq!(names(&frames).last(), Some(&"outer"));
    assert!(frames.last().unwrap().line > 0);
    let mut again = Symbolizer::new();
    let known = again.module(&at_base(&program, "")).map(|module| module.lookup(BASE + outer).to_vec());
    assert!(known.is_err() || known.unwrap().is_empty());
}
