use super::*;
use proptest::prelude::*;

fn bytes_of(text: &str) -> Vec<u8> {
    encode_arguments(text, None).unwrap()
}

#[track_caller]
fn is_refused(text: &str, method: Option<(&Interface, &str)>, words: &str) {
    let problem = encode_arguments(text, method).unwrap_err().0;
    assert!(problem.contains(words), "{text}: {problem}");
}

#[test]
fn the_bytes_are_those_of_the_specification() {
    assert_eq!(bytes_of("()"), b"DIDL\0\0");
    assert_eq!(bytes_of(""), b"DIDL\0\0");
    assert_eq!(bytes_of("(400)"), b"DIDL\0\x01\x7d\x90\x03");
    assert_eq!(bytes_of("(-1)"), b"DIDL\0\x01\x7c\x7f");
    assert_eq!(bytes_of("(-128 : int)"), b"DIDL\0\x01\x7c\x80\x7f");
    assert_eq!(bytes_of("(64 : int)"), b"DIDL\0\x01\x7c\xc0\x00");
    assert_eq!(bytes_of("(true, \"hi\")"), b"DIDL\0\x02\x7e\x71\x01\x02hi");
    assert_eq!(bytes_of("(opt 7)"), b"DIDL\x01\x6e\x7d\x01\x00\x01\x07");
    assert_eq!(bytes_of("(blob \"\\ca\\fe\")"), b"DIDL\x01\x6d\x7b\x01\x00\x02\xca\xfe");
    assert_eq!(bytes_of("(513 : nat16)"), b"DIDL\0\x01\x7a\x01\x02");
    // Fields are in the order of their numbers.
    assert_eq!(bytes_of("(record { 5 = true; 1 = null })"), b"DIDL\x01\x6c\x02\x01\x7f\x05\x7e\x01\x00\x01");
    assert_eq!(bytes_of("(principal \"aaaaa-aa\")"), b"DIDL\0\x01\x68\x01\x00");
}

#[test]
fn what_was_encoded_is_shown_as_it_was_written() {
    for text in [
        "(100 : nat)",
        "(-5 : int, 3 : nat8, -3 : int64, 18446744073709551615 : nat64)",
        "(340282366920938463463374607431768211456000000000000 : nat)",
        "(-340282366920938463463374607431768211456000000000001 : int)",
        "(1.5 : float64, -0.25 : float32)",
        "(null, true, \"a \\\"b\\\" \\\\ \\n é\")",
        "(vec { \"a\"; \"b\" }, vec { }, opt opt (3 : nat))",
        "(record { name = \"n\"; age = 3 : nat }, variant { gold = 7 : nat }, variant { basic })",
        "(blob \"a\\ff\\\"\", principal \"rdmx6-jaaaa-aaaaa-aaadq-cai\")",
    ] {
        let names = ["name", "age", "gold", "basic"].map(str::to_owned);
        let shown = decode(&bytes_of(text), &names).unwrap();
        assert_eq!(bytes_of(&shown), bytes_of(text), "{text}: {shown}");
        if !text.contains("record") {
            assert_eq!(shown, text);
        }
    }
    assert_eq!(decode(&bytes_of("(record { name = 1 })"), &[]).unwrap(), "(record { 1224700491 = 1 : nat })");
}

#[test]
fn an_interface_gives_arguments_their_types() {
    let interface = Interface::parse(
        "type List = opt record { head : nat8; tail : List };
         type Shape = variant { point; circle : float64 };
         service : {
           put : (key : text, value : int) -> (opt nat) query;
           list : (List) -> (); // a comment
           draw : (Shape, opt bool) -> ();
         }",
    )
    .unwrap();
    let put = Some((&interface, "put"));
    assert_eq!(encode_arguments("(\"a\", 1)", put).unwrap(), b"DIDL\0\x02\x71\x7c\x01a\x01");
    is_refused("(1, 1)", put, "argument 1: a whole number where text is taken");
    is_refused("(\"a\")", put, "1 arguments where 2 are taken: (text, int)");
    is_refused("(\"a\", 1, 2)", put, "3 arguments where 2 are taken");
    is_refused("(\"a\", 1 : nat8)", put, "nat8 where int is taken");
    let list = Some((&interface, "list"));
    let bytes = encode_arguments("(opt record { head = 1; tail = opt record { head = 2 } })", list).unwrap();
    let names = ["head".to_owned(), "tail".to_owned()];
    let shown = decode(&bytes, &names).unwrap();
    assert_eq!(shown, "(opt record { head = 1 : nat8; tail = opt record { head = 2 : nat8; tail = null } })");
    is_refused("(opt record { head = 300 })", list, "300 does not fit into nat8");
    let draw = Some((&interface, "draw"));
    let bytes = encode_arguments("(variant { circle = 2 })", draw).unwrap();
    assert_eq!(decode(&bytes, &["circle".to_owned()]).unwrap(), "(variant { circle = 2.0 : float64 }, null)");
    is_refused("(variant { square })", draw, "no such case");
}

#[test]
fn mistakes_are_said_in_a_line() {
    for (text, words) in [
        ("(1", "it ends where"),
        ("1)", "'1' at character 0 stands where '(' should come"),
        ("(1) 2", "nothing more"),
        ("(open)", "'open' at character 1 stands where a value should come"),
        ("(\"a)", "does not end"),
        ("(12x)", "'12x' is no number"),
        ("(#)", "'#' at character 1"),
        ("(variant { a; b })", "exactly one case"),
        ("(principal \"aaaaa-ab\")", "is no principal"),
        ("(record { 1 = 1; 1 = 2 })", "twice"),
        ("(\"\\zz\")", "has no meaning"),
        ("(-1 : nat)", "-1 is not a nat"),
        ("(1 : Foo)", "no type is called 'Foo'"),
    ] {
        is_refused(text, None, words);
    }
    let deep = format!("({}1)", "opt ".repeat(100_000));
    is_refused(&deep, None, "nested too deeply");
    assert!(Interface::parse("type A = B; type B = A; service : { f : (A) -> () }").is_ok());
    let circle = Interface::parse("type A = B; type B = A; service : { f : (A) -> () }").unwrap();
    is_refused("(1)", Some((&circle, "f")), "stands for itself");
}

#[test]
fn hostile_replies_are_errors() {
    for bytes in [
        &b"DIDL"[..],
        b"DIDX\0\0",
        b"DIDL\0\x01",
        b"DIDL\0\x01\x00",
        b"DIDL\0\x01\x6f",
        b"DIDL\x01\x6d\x7f\x01\x00\xff\xff\xff\xff\xff\x7f",
        b"DIDL\x01\x6e\x00\x01\x00\x01\x01\x01",
        b"DIDL\x01\x6c\x01\x00\x00\x01\x00",
        b"DIDL\0\x00extra",
        b"DIDL\0\x01\x71\x7fabc",
    ] {
        assert!(decode(bytes, &[]).is_err(), "{bytes:?}");
    }
}

#[test]
fn principals_are_read_as_they_are_written() {
    assert_eq!(principal_text(&[]), "aaaaa-aa");
    assert_eq!(principal_text(&[4]), "2vxsx-fae");
    assert_eq!(principal_bytes("2vxsx-fae"), Some(vec![4]));
    assert_eq!(principal_bytes("2vxsx-fah"), None);
    assert_eq!(principal_bytes(""), None);
}

proptest! {
    #[test]
    fn numbers_keep_their_value(value: i128) {
        let number = number::WholeNumber::from_i128(value);
        prop_assert_eq!(number.to_i128(), Some(value));
        prop_assert_eq!(number.in_words(), value.to_string());
        prop_assert_eq!(number::WholeNumber::parse(&value.to_string()), Some(number.clone()));
        let mut bytes = Vec::new();
        number.push_signed(&mut bytes);
        prop_assert_eq!(number::WholeNumber::read(&bytes, true), Some((number.clone(), bytes.len())));
        if value >= 0 {
            bytes.clear();
            number.push_unsigned(&mut bytes);
            prop_assert_eq!(number::WholeNumber::read(&bytes, false), Some((number, bytes.len())));
        }
    }

    #[test]
    fn any_text_and_any_bytes_are_answered(text: String, bytes: Vec<u8>) {
        let _ = encode_arguments(&text, None);
        let _ = Interface::parse(&text);
        let _ = decode(&[b"DIDL".as_slice(), &bytes].concat(), &[]);
    }
}
