//! Names of real programs, and arbitrary texts.

use super::*;
use proptest::prelude::*;

#[track_caller]
fn all_become(names: &[(&str, &str)]) {
    for (name, short) in names {
        assert_eq!(short_name(name), *short, "{name}");
    }
}

#[test]
fn argument_lists_result_types_and_qualifiers_are_left_out() {
    all_become(&[
        (
            "v8::base::OS::Allocate(void*, unsigned long, unsigned long, v8::base::OS::MemoryPermission)",
            "v8::base::OS::Allocate",
        ),
        (
            "void std::vector<int, std::allocator<int> >::_M_realloc_insert<int const&>(int const&)",
            "std::vector<int>::_M_realloc_insert<int const&>",
        ),
        ("app::Parser::next() const &", "app::Parser::next"),
        ("(anonymous namespace)::load(char const*)", "(anonymous namespace)::load"),
        ("load(int)::Cache::get(int)", "load::Cache::get"),
        ("decltype(auto) app::pick<int>(int)", "app::pick<int>"),
        ("decltype (f(x)) app::pick<int>(int)", "app::pick<int>"),
        ("void (*find(int))(char)", "find"),
        (
            "std::function<void (int)>::function(std::function<void (int)> const&)",
            "std::function<void (int)>::function",
        ),
        ("non-virtual thunk to app::Reader::read(char*, int)", "app::Reader::read"),
        ("f[abi:cxx11](int)", "f"),
        ("make_node.constprop.0", "make_node"),
        ("xmalloc.part.0.cold", "xmalloc"),
        ("foo(int) [clone .isra.0]", "foo"),
    ]);
}

#[test]
fn operators_are_names() {
    all_become(&[
        ("operator new(unsigned long)", "operator new"),
        ("operator new[](unsigned long, std::align_val_t)", "operator new[]"),
        ("app::Key::operator()(int) const", "app::Key::operator()"),
        ("bool operator< <int>(app::Key<int> const&, app::Key<int> const&)", "operator< <int>"),
        ("std::ostream& operator<<(std::ostream&, Node const&)", "operator<<"),
        ("app::Key::operator==(app::Key const&) const", "app::Key::operator=="),
        ("app::Key app::operator+<int>(app::Key const&, int)", "app::operator+<int>"),
        ("app::Pointer<app::Node>::operator->() const", "app::Pointer<app::Node>::operator->"),
        ("app::Key::operator std::string() const", "app::Key::operator std::string"),
        ("app::Key::operator unsigned long() const", "app::Key::operator unsigned long"),
        ("std::map<int, int>::operator[](int const&)", "std::map<int, int>::operator[]"),
        ("operator\"\" _s(char const*, unsigned long)", "operator\"\" _s"),
    ]);
}

#[test]
fn well_known_types_are_written_as_programmers_write_them() {
    all_become(&[
        (
            "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >::_M_create(unsigned long&, unsigned long)",
            "std::string::_M_create",
        ),
        ("std::vector<int, std::allocator<int>>::push_back(int&&)", "std::vector<int>::push_back"),
        (
            "std::unordered_map<int, Node, std::hash<int>, std::equal_to<int>, std::allocator<std::pair<int const, Node> > >::at(int)",
            "std::unordered_map<int, Node>::at",
        ),
        (
            "std::unique_ptr<Node, std::default_delete<Node> > std::make_unique<Node, int>(int&&)",
            "std::make_unique<Node, int>",
        ),
        ("std::shared_ptr<Node> std::make_shared<Node, >()", "std::make_shared<Node>"),
        ("alloc::vec::Vec<app::Point, alloc::alloc::Global>::push", "Vec<app::Point>::push"),
        ("push<app::Point, alloc::alloc::Global>", "push<app::Point>"),
        ("std::collections::hash::map::HashMap<K,V,S>::insert", "HashMap<K, V, S>::insert"),
    ]);
}

#[test]
fn arguments_are_left_out_from_the_inside_until_the_name_fits() {
    all_become(&[
        (
            "std::map<std::pair<int, app::long_name::of::Something>, std::vector<app::Other> >::operator[](std::pair<int, int> const&)",
            "std::map<std::pair<…>, std::vector<…>>::operator[]",
        ),
        (
            "std::map<app::a_long_name::of::Something, app::another::long_name::of::Something, app::Compare>::operator[](int const&)",
            "std::map<…>::operator[]",
        ),
    ]);
}

#[test]
fn rust_names_lose_hashes_and_name_the_type_that_implements() {
    all_become(&[
        ("core::fmt::write::h0123456789abcdef", "core::fmt::write"),
        ("<app::Parser as core::clone::Clone>::clone", "app::Parser::clone"),
        ("<T as alloc::slice::hack::ConvertVec>::to_vec", "alloc::slice::hack::ConvertVec::to_vec"),
        ("<&T as core::fmt::Debug>::fmt", "core::fmt::Debug::fmt"),
        ("<alloc::raw_vec::RawVec<u8>>::grow_one", "alloc::raw_vec::RawVec<u8>::grow_one"),
        ("core::str::<impl str>::parse", "str::parse"),
        ("app::<impl app::Show for app::Item>::show", "app::Item::show"),
        ("app::parse::<u32>", "app::parse<u32>"),
        ("service::main::{closure#0}", "service::main::{closure}"),
        ("service::main::{closure#2}", "service::main::{closure#2}"),
        ("service::main::{{closure}}", "service::main::{closure}"),
        ("app::serve::{async_fn#0}", "app::serve::{async}"),
        ("app::serve::{async_fn_env#0}", "app::serve::{async}"),
        ("core::ops::function::FnOnce::call_once{{vtable.shim}}", "FnOnce::call_once"),
        ("app::{impl#3}::next", "app::next"),
        ("<(A, B) as app::Both>::run", "(A, B)::run"),
    ]);
}

#[test]
fn lambdas_are_named_after_the_function_they_are_in() {
    all_become(&[
        ("main::{lambda(int)#1}::operator()(int) const", "main::{lambda#1}"),
        ("auto load(int)::{lambda(auto:1)#2}::operator()<int>(int) const", "load::{lambda#2}<int>"),
        (
            "app::Handler<void (int), main::{lambda(int)#1}>::invoke(int&&)",
            "app::Handler<void (int), main::{lambda#1}>::invoke",
        ),
        ("main::$_0::operator()() const", "main::$_0::operator()"),
    ]);
}

#[test]
fn names_of_other_languages_stay() {
    for name in [
        "main.(*Server).serve",
        "main.main.func1",
        "JS:*render /srv/app.js:10:5",
        "get size",
        "Object.<anonymous>",
        "(anonymous)",
        "py::load:/srv/app.py",
        "Stdlib.List.map",
        "a < b",
        "",
        "{",
        "operator",
    ] {
        assert_eq!(short_name(name), name);
    }
    assert_eq!(short_name("load(int) [guessed]"), "load [guessed]");
    assert_eq!(short_name("java.util.HashMap.resize(int)"), "java.util.HashMap.resize");
}

fn is_sound(name: &str) {
    let short = short_name(name);
    assert!(short.len() <= name.len(), "{name}: {short}");
    assert_eq!(short.is_empty(), name.is_empty(), "{name}");
    assert_eq!(short_name(&short), short, "{name}");
}

proptest! {
    #[test]
    fn any_text_has_a_short_form_that_is_its_own(name in "\\PC{0,80}") {
        is_sound(&name);
    }

    #[test]
    fn any_text_of_brackets_has_one_too(name in "(<|>|\\(|\\)|\\{|\\}|\\[|\\]|::| |operator|impl | as | for |a|T|, |closure#0|lambda\\(|->|std::allocator<|…){0,24}") {
        is_sound(&name);
    }
}

#[test]
fn long_nested_names_cost_little() {
    let nested = format!("{}int{}::get(int)", "a<".repeat(15_000), ">".repeat(15_000));
    let short = short_name(&nested);
    assert!(short.starts_with("a<a<") && short.ends_with(">>::get") && short.chars().count() <= LONGEST, "{short}");
    is_sound(&"<".repeat(60_000));
    is_sound(&"(*".repeat(30_000));
}
