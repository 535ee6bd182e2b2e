//! Messages, replies, traps, self-calls and timers of a real Motoko program, in both of its layouts.

mod support;

use highwater_host::canister::World;
use highwater_host::engine::MachineLimits;
use highwater_host::program::{HostedProgram, ProgramOptions};
use support::{call, hash, module, refusal, reply, start};

const BOTH: [&str; 2] = ["busy", "busy32"];

#[test]
fn a_program_that_awaits_itself_is_answered_when_all_is_done() {
    for name in BOTH {
        let mut program = start(name);
        assert_eq!(reply(&mut program, "addTwice(3)"), "(9 : nat)", "{name}");
        assert_eq!(reply(&mut program, "look()"), "(6 : nat, \"before;between;after;\", 0 : nat)", "{name}");
    }
}

#[test]
fn a_trap_leaves_no_trace_in_memory() {
    for name in BOTH {
        let mut program = start(name);
        reply(&mut program, "add(1)");
        let before = hash(&program);
        let line = refusal(&mut program, "trapNow(5)");
        assert!(line.starts_with("trapNow was refused (code 5): trapped: ") && line.contains("on purpose"), "{line}");
        assert_eq!(hash(&program), before, "{name}");
        assert_eq!(reply(&mut program, "look()"), "(1 : nat, \"\", 0 : nat)", "{name}");
    }
}

#[test]
fn a_trap_undoes_the_growth_of_memory() {
    for name in BOTH {
        let mut program = start(name);
        reply(&mut program, "add(1)");
        let (before, bytes) = (hash(&program), program.memory_bytes());
        let line = refusal(&mut program, "grow(2_000_000)");
        assert!(line.contains("grew, and trapped"), "{line}");
        assert_eq!((hash(&program), program.memory_bytes()), (before, bytes), "{name}");
        assert_eq!(reply(&mut program, "grow(300_000)"), "(300000 : nat)");
        assert!(program.memory_bytes() > bytes, "{name}");
    }
}

#[test]
fn a_trap_after_an_await_undoes_only_what_came_after_it() {
    for name in BOTH {
        let mut program = start(name);
        let line = refusal(&mut program, "trapAfter(7)");
        assert!(line.contains("after the await, at 7"), "{line}");
        assert_eq!(reply(&mut program, "look()"), "(7 : nat, \"kept;\", 0 : nat)", "{name}");
    }
}

#[test]
fn refusals_and_traps_can_be_caught() {
    for name in BOTH {
        let mut program = start(name);
        assert_eq!(reply(&mut program, "catches()"), "(\"no, thank you\")");
        assert!(reply(&mut program, "catchesTrap()").contains("on purpose"));
        assert!(refusal(&mut program, "refuse()").contains("(code 4): no, thank you"));
        assert!(reply(&mut program, "elsewhere()").contains("there is no canister rdmx6-jaaaa-aaaaa-aaadq-cai here"));
        assert_eq!(reply(&mut program, "look()"), "(0 : nat, \"\", 0 : nat)");
    }
}

#[test]
fn a_query_changes_nothing() {
    for name in BOTH {
        let mut program = start(name);
        reply(&mut program, "add(1)");
        let before = hash(&program);
        assert_eq!(reply(&mut program, "peek()"), "(6 : nat)");
        assert_eq!(reply(&mut program, "peek()"), "(6 : nat)");
        assert_eq!(hash(&program), before, "{name}");
    }
}

#[test]
fn timers_run_when_their_time_has_come_and_not_before() {
    for name in BOTH {
        let mut program = start(name);
        reply(&mut program, "startTimer(5)");
        let ticks = |program: &mut HostedProgram| reply(program, "look()").rsplit(", ").next().unwrap().to_owned();
        call(&mut program, "+4s").unwrap();
        assert_eq!(ticks(&mut program), "0 : nat)");
        call(&mut program, "+2s").unwrap();
        assert_eq!(ticks(&mut program), "1 : nat)", "{name}");
        call(&mut program, "+1h").unwrap();
        assert_eq!(ticks(&mut program), "1 : nat)");
        reply(&mut program, "startRecurring(10)");
        call(&mut program, "+61s").unwrap();
        assert_eq!(ticks(&mut program), "7 : nat)", "{name}");
    }
}

#[test]
fn time_stands_still_unless_it_is_told_to_pass() {
    let options = ProgramOptions { world: World { time_ns: 1_000, seed: 0 }, ..ProgramOptions::default() };
    let mut program = HostedProgram::start(module("busy"), &options).unwrap();
    let time = |program: &mut HostedProgram, text: &str| {
        reply(program, text).trim_matches(['(', ')']).split(' ').next().unwrap().parse::<u64>().unwrap()
    };
    let (first, second) = (time(&mut program, "time()"), time(&mut program, "time()"));
    assert!(first > 1_000 && second > first && second < 1_100, "{first} {second}");
    assert!(time(&mut program, "+1s time()") > 1_000_000_000);
}

#[test]
fn randomness_has_a_seed() {
    let random = |seed| {
        let options = ProgramOptions { world: World { seed, ..World::default() }, ..ProgramOptions::default() };
        let mut program = HostedProgram::start(module("busy"), &options).unwrap();
        [reply(&mut program, "random()"), reply(&mut program, "random()")]
    };
    assert_eq!(random(1), random(1));
    assert_ne!(random(1), random(2));
    let [first, second] = random(1);
    assert_ne!(first, second);
}

#[test]
fn endless_loops_and_endless_calls_are_left() {
    let limits = MachineLimits { instructions: 50_000_000, ..MachineLimits::default() };
    for name in BOTH {
        let mut program =
            HostedProgram::start(module(name), &ProgramOptions { limits, ..ProgramOptions::default() }).unwrap();
        let before = hash(&program);
        assert!(refusal(&mut program, "forever()").contains("did not end within 50000000 instructions"));
        assert_eq!(hash(&program), before, "{name}");
        assert!(refusal(&mut program, "endless()").contains("did not come to rest within 10000 messages"));
        assert_eq!(reply(&mut program, "add(2)"), "(2 : nat)", "{name}");
    }
}

#[test]
fn arguments_have_the_types_that_the_interface_says() {
    let mut program = start("busy");
    let text = "(record { kind = variant { sized = 7 : nat8 }; name = \"é\"; tags = vec { opt (-3 : int); null } })";
    let given = "(record { name = \"é\"; tags = vec { opt -3; null }; kind = variant { sized = 7 } })";
    let answered = reply(&mut program, &format!("echo{given}"));
    assert_eq!(reply(&mut program, &format!("echo{answered}")), answered);
    for part in ["name = \"é\"", "tags = vec { opt (-3 : int); null }", "kind = variant { sized = 7 : nat8 }"] {
        assert!(answered.contains(part), "{part} of {text} is not in {answered}");
    }
    assert_eq!(reply(&mut program, "whoami()"), "(principal \"2vxsx-fae\")");
    for (wrong, words) in [
        ("echo(record { name = 1; tags = vec {}; kind = variant { plain } })", "a whole number where text is taken"),
        ("echo(record { name = \"a\" })", "lacks a field"),
        ("add(-1)", "-1 is not a nat"),
        ("add()", "0 arguments where 1 are taken: (nat)"),
        ("add(1", "it ends where"),
        ("nothing(1)", "no method is called 'nothing'; there are: add, addTwice,"),
    ] {
        let line = refusal(&mut program, wrong);
        assert!(line.contains(words) && !line.contains('\n'), "{wrong}: {line}");
    }
}

#[test]
fn the_same_calls_give_the_same_memory() {
    let calls = ["addTwice(3)", "startTimer(1)", "random()", "+2s", "catchesTrap()", "grow(10_000)"];
    for name in BOTH {
        let run = || {
            let mut program = start(name);
            calls.iter().for_each(|text| drop(call(&mut program, text).unwrap()));
            hash(&program)
        };
        assert_eq!(run(), run(), "{name}");
    }
}

#[test]
fn a_program_goes_on_from_its_image_as_if_nothing_had_happened() {
    let folder = std::env::temp_dir().join(format!("highwater-host-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    for name in BOTH {
        let mut program = start(name);
        for text in ["addTwice(3)", "startTimer(5)", "grow(10_000)"] {
            call(&mut program, text).unwrap();
        }
        let path = folder.join(format!("{name}.img"));
        let image = program.capture(None).unwrap();
        image.write(&std::fs::File::create(&path).unwrap()).unwrap();
        std::fs::write(folder.join(format!("{name}.img.json")), program.sidecar(1, 0).to_text()).unwrap();
        let mut loaded = HostedProgram::load(module(name), &ProgramOptions::default(), &path).unwrap();
        assert_eq!(hash(&loaded), hash(&program), "{name}");
        for text in ["+6s", "addTwice(4)", "trapAfter(1)", "grow(50_000)", "look()"] {
            assert_eq!(call(&mut program, text), call(&mut loaded, text), "{name} {text}");
        }
        assert_eq!(hash(&loaded), hash(&program), "{name}");
        let other = HostedProgram::load(module("ledger"), &ProgramOptions::default(), &path);
        let line = other.err().unwrap().to_string();
        assert!(line.contains("is an image of another module") && !line.contains('\n'), "{line}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// A module with a memory of 4 GiB of which it uses two pages:
/// `(module (memory (export "memory") 65536) (func (export "f") (i32.store (i32.const 0x7fff0000) (i32.const 7)) (i32.store (i32.const 8) (i32.const 9))))`
const WIDE_MODULE: &[u8] = b"\0asm\x01\0\0\0\x01\x04\x01\x60\0\0\x03\x02\x01\0\x05\x05\x01\0\x80\x80\x04\
    \x07\x0e\x02\x06memory\x02\0\x01f\0\0\
    \x0a\x16\x01\x14\0\x41\x80\x80\xfc\xff\x07\x41\x07\x36\x02\0\x41\x08\x41\x09\x36\x02\0\x0b";

#[test]
fn an_image_of_four_gigabytes_with_two_pages_in_use_costs_two_pages() {
    use std::os::unix::fs::MetadataExt;
    let module = || highwater_host::module::HostModule::new("wide.wasm", WIDE_MODULE).unwrap();
    let mut program = HostedProgram::start(module(), &ProgramOptions::default()).unwrap();
    assert_eq!(reply(&mut program, "f()"), "()");
    let image = program.capture(None).unwrap();
    assert_eq!((image.bytes(), image.occupied_bytes()), (4 << 30, 8192));
    let path = std::env::temp_dir().join(format!("highwater-wide-{}.img", std::process::id()));
    image.write(&std::fs::File::create(&path).unwrap()).unwrap();
    let about = std::fs::metadata(&path).unwrap();
    assert!(about.len() == 4 << 30 && about.blocks() < 1024, "{} blocks", about.blocks());
    let beside = path.with_added_extension("json");
    std::fs::write(&beside, program.sidecar(1, 0).to_text()).unwrap();
    let mut loaded = HostedProgram::load(module(), &ProgramOptions::default(), &path).unwrap();
    assert_eq!(reply(&mut loaded, "f()"), "()");
    assert_eq!(loaded.capture(None).unwrap().occupied_bytes(), 8192);
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(peak < 1 << 20, "{peak} KiB of memory were taken");
    std::fs::remove_file(path).unwrap();
    std::fs::remove_file(beside).unwrap();
}
