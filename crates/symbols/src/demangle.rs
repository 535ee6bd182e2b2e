//! Names as their authors wrote them.

use std::fmt::{self, Write};

use cpp_demangle::{DemangleOptions, ParseOptions};

/// A hostile name of a few bytes can stand for gigabytes of text. A name that would become longer than this stays mangled.
pub(crate) const LONGEST_NAME: usize = 64 * 1024;

/// Suffixes that compilers append to the name of a copy or a part of a function, after a dot and often followed by a number.
const CLONE_SUFFIXES: [&str; 8] = ["cold", "part", "constprop", "isra", "lto_priv", "llvm", "localalias", "clone"];

/// The readable form of a mangled name: Rust (both manglings, without the hash) and C++. Other names are returned unchanged.
///
/// A mangled name loses the suffixes of compiler-made copies and parts (`.cold`, `.part.0`, `.constprop.1`): to its author it is
/// the same function, and DWARF names it without them as well.
///
/// Of 677,219 names that `c++filt` reads (LLVM, Node, OpenJDK, Chromium, libstdc++, Abseil, gdb, rustc and others) all but one variable become
/// readable; for 80 functions among them the parameters are left out, as `f<int>(…)`. All 202,858 names of Rust's newer mangling in rustc and the
/// standard library become readable. Functions that initialize static variables (`_GLOBAL__sub_I_…`), which `c++filt` leaves as they are, do too.
/// Other differences from `c++filt`: the first parameter of a constructor that is a
/// template is missing (a known fault of `cpp_demangle`), an empty pack of template arguments leaves a comma, some spaces.
///
/// ```
/// use highwater_symbols::demangle;
///
/// assert_eq!(demangle("_ZN4core3fmt5write17h0123456789abcdefE.llvm.99"), "core::fmt::write");
/// assert_eq!(demangle("_RNvCs1234_7mycrate3foo"), "mycrate::foo");
/// assert_eq!(demangle("_Z3addIiET_S0_S0_.part.0.cold"), "int add<int>(int, int)");
/// assert_eq!(demangle("malloc"), "malloc");
/// ```
pub fn demangle(name: &str) -> String {
    let original = without_clone_suffixes(name);
    let readable = if is_rust(original) {
        demangled_rust(original)
    } else if is_cpp(original) {
        demangled_cpp(original)
    } else {
        None
    };
    readable.unwrap_or_else(|| name.to_owned())
}

/// Whether the name contains more than its bare text, such as the namespace and the types.
pub(crate) fn is_mangled(name: &str) -> bool {
    is_rust(name) || is_cpp(name)
}

/// Whether the readable form of the name has the parameters of a generic Rust function instead of its arguments.
pub(crate) fn has_type_parameters(name: &str) -> bool {
    has_legacy_rust_hash(without_clone_suffixes(name))
}

fn is_rust(name: &str) -> bool {
    name.starts_with("_R") || has_legacy_rust_hash(without_clone_suffixes(name))
}

/// The older Rust mangling is C++'s with a hash as the last part of the path. The hash distinguishes the two.
fn has_legacy_rust_hash(name: &str) -> bool {
    let Some(hash) = name.strip_suffix('E').and_then(|path| path.as_bytes().last_chunk::<19>()) else {
        return false;
    };
    name.starts_with("_ZN") && hash.starts_with(b"17h") && hash[3..].iter().all(u8::is_ascii_hexdigit)
}

fn is_cpp(name: &str) -> bool {
    name.starts_with("_Z") || name.starts_with("_GLOBAL__")
}

pub(crate) fn without_clone_suffixes(mut name: &str) -> &str {
    while let Some(shorter) = without_last_clone_suffix(name) {
        name = shorter;
    }
    name
}

fn without_last_clone_suffix(name: &str) -> Option<&str> {
    let (before, last) = name.rsplit_once('.')?;
    let is_number = !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit());
    let (before, word) = if is_number { before.rsplit_once('.')? } else { (before, last) };
    CLONE_SUFFIXES.contains(&word).then_some(before)
}

fn demangled_rust(name: &str) -> Option<String> {
    let mut text = BoundedText::default();
    write!(text, "{:#}", rustc_demangle::try_demangle(name).ok()?).ok()?;
    Some(text.0)
}

/// The maximum nesting of the parts of a name. The crate's own limits (96 and 128) are too low for names that compilers make.
const DEEPEST_NAME: u32 = 192;
/// The maximum number of positions to try: a hostile name may have very many.
const MOST_ATTEMPTS: usize = 64;

/// What GCC calls the functions that initialize and destroy the static variables of a file; the name of one of them follows. The words are those
/// that `c++filt` has for the older form.
const STATIC_VARIABLES: [(&str, &str); 2] =
    [("_GLOBAL__sub_I_", "global constructors keyed to "), ("_GLOBAL__sub_D_", "global destructors keyed to ")];

fn demangled_cpp(name: &str) -> Option<String> {
    let parts = STATIC_VARIABLES.iter().find_map(|(prefix, words)| Some((words, name.strip_prefix(prefix)?)));
    match parts {
        // The rest may also be the name of a file.
        Some((words, variable)) if variable.starts_with("_Z") => {
            demangled_symbol(variable).map(|text| format!("{words}{text}"))
        }
        Some(_) => None,
        None => demangled_symbol(name),
    }
}

fn demangled_symbol(name: &str) -> Option<String> {
    match parsed_cpp(name).or_else(|| with_unified_structor(name)) {
        Some(text) => text,
        None => without_parameters(name),
    }
}

/// `None` if the name is not understood; the inner `None` if its text would be too long.
fn parsed_cpp(name: &str) -> Option<Option<String>> {
    let deep = ParseOptions::default().recursion_limit(DEEPEST_NAME);
    let symbol = cpp_demangle::BorrowedSymbol::new_with_options(name.as_bytes(), &deep).ok()?;
    let mut text = BoundedText::default();
    let deep = DemangleOptions::default().recursion_limit(DEEPEST_NAME);
    Some(symbol.structured_demangle(&mut text, &deep).ok().map(|()| text.0))
}

/// GCC uses `C5` or `D5` for the code that all variants of a constructor or destructor share, and `CI5` for an inherited one. The crate does not
/// know these.
fn with_unified_structor(name: &str) -> Option<Option<String>> {
    let digits = ["C5", "D5", "CI5"].into_iter().flat_map(|kind| {
        let digit_of = move |(at, _): (usize, &str)| at + kind.len() - 1;
        name.rmatch_indices(kind).map(digit_of)
    });
    digits.take(MOST_ATTEMPTS).find_map(|digit| parsed_cpp(&format!("{}1{}", &name[..digit], &name[digit + 1..])))
}

/// A function without its parameters, `f<int>(…)`. Conditions on templates (`enable_if`) are expressions among the types, where compilers go beyond
/// the specification. Where the crate does not understand them, it still understands the name before them.
fn without_parameters(name: &str) -> Option<String> {
    let ends = name.match_indices('E').map(|(at, _)| at + 1).filter(|end| *end < name.len());
    // The first part that parses is the whole name: any shorter part leaves something open.
    let readable = ends.take(MOST_ATTEMPTS).find_map(|end| parsed_cpp(&name[..end])?)?;
    // If the name has no such end, the part includes some of the parameters.
    let is_function = readable.ends_with(')') && !readable.ends_with("operator()");
    let (readable, qualifier) = match readable.strip_suffix(" const") {
        Some(readable) => (readable, " const"),
        None => (readable.as_str(), ""),
    };
    (!is_function).then(|| format!("{readable}(…){qualifier}"))
}

/// Refuses to grow beyond [`LONGEST_NAME`].
#[derive(Default)]
struct BoundedText(String);

impl Write for BoundedText {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        if self.0.len() + more.len() > LONGEST_NAME {
            return Err(fmt::Error);
        }
        self.0.push_str(more);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_rust_manglings_lose_their_hash() {
        assert_eq!(
            demangle("_ZN5alloc3vec16Vec$LT$T$C$A$GT$16with_capacity_in17hbb105323706db835E"),
            "alloc::vec::Vec<T,A>::with_capacity_in"
        );
        assert_eq!(demangle("_RNvNtCs1234_7mycrate3foo3bar"), "mycrate::foo::bar");
        assert_eq!(demangle("_RINvNtC3std3mem8align_ofdE"), "std::mem::align_of::<f64>");
    }

    #[test]
    fn only_suffixes_are_dropped() {
        let clone = "_ZN57_$LT$gimli..read..Error$u20$as$u20$core..clone..Clone$GT$5clone17hac92fd2986052f6bE";
        for suffix in ["", ".cold", ".llvm.123", ".constprop.0.isra.1", ".part.0.cold", ".cold.1"] {
            let name = format!("{clone}{suffix}");
            assert_eq!(demangle(&name), "<gimli::read::Error as core::clone::Clone>::clone");
        }
        assert_eq!(demangle("_Z1fv.other"), "f() [clone .other]");
    }

    #[test]
    fn cpp_names_without_parameters_are_not_taken_for_rust() {
        assert_eq!(demangle("_ZN3foo3barE"), "foo::bar");
        assert_eq!(demangle("_ZN3foo3barEv"), "foo::bar()");
    }

    #[test]
    fn lambdas_templates_and_operators_are_readable() {
        assert_eq!(demangle("_ZZ4mainENKUliE_clEi"), "main::{lambda(int)#1}::operator()(int) const");
        assert_eq!(demangle("_Znwm"), "operator new(unsigned long)");
    }

    /// From Node, LLVM, OpenJDK, libstdc++ and ICU: `cpp_demangle` alone fails on each of them.
    #[test]
    fn names_that_the_demangler_gives_up_on_are_readable() {
        let cases = [
            (
                "_ZSteqIcEN9__gnu_cxx11__enable_ifIXsrSt9__is_charIT_E7__valueEbE6__typeERKNSt7__cxx1112basic_stringIS3_St11char_traitsIS3_ESaIS3_EEESE_.isra.0",
                "std::operator==<char>(…)",
            ),
            (
                "_ZN2v84base17PrintCheckOperandIPKcEENSt9enable_ifIXaaaantsrSt11is_functionINSt14remove_pointerIT_E4typeEE5valuentsrSt7is_enumIS7_E5valuesrNS0_19has_output_operatorIS7_NS0_18CheckMessageStreamEvEE5valueENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEEE4typeES7_",
                "v8::base::PrintCheckOperand<char const*>(…)",
            ),
            (
                "_ZSt4swapISt6localeENSt9enable_ifIXsrSt6__and_IJSt6__not_ISt15__is_tuple_likeIT_EESt21is_move_constructibleIS5_ESt18is_move_assignableIS5_EEE5valueEvE4typeERS5_SF_",
                "std::swap<std::locale>(…)",
            ),
            (
                "_GLOBAL__sub_I__ZN2v88internal11V8HeapTrait5kNameE",
                "global constructors keyed to v8::internal::V8HeapTrait::kName",
            ),
            ("_GLOBAL__sub_I_main.cpp", "_GLOBAL__sub_I_main.cpp"),
            ("_ZN6icu_7210NFRuleListD5Ev", "icu_72::NFRuleList::~NFRuleList()"),
            ("_ZNSt8messagesIwEC5Em", "std::messages<wchar_t>::messages(unsigned long)"),
            (
                "_ZNSt15__uniq_ptr_dataINSt6thread6_StateESt14default_deleteIS1_ELb1ELb1EECI5St15__uniq_ptr_implIS1_S3_EEPS1_",
                "std::__uniq_ptr_data<std::thread::_State, std::default_delete<std::thread::_State>, true, true>::__uniq_ptr_impl(std::thread::_State*)",
            ),
        ];
        for (name, readable) in cases {
            assert_eq!(demangle(name), readable);
        }
        let deep = "_ZNK4llvm12PatternMatch16match_combine_orINS0_14CastInst_matchINS0_12OneUse_matchINS0_14BinaryOp_matchINS3_INS1_INS2_INS3_INS0_17match_combine_andINS5_INS0_17IntrinsicID_matchENS0_14Argument_matchINS0_14deferredval_tyINS_5ValueEEEEEEENS7_INS0_14cstval_pred_tyINS0_6is_oneENS_11ConstantIntELb1EEEEEEEEENS_9TruncInstEEESJ_EEEENS0_8ap_matchINS_5APIntEEELj30ELb0EEEEENS_8ZExtInstEEESS_E5matchIS9_EEbPT_";
        assert!(
            demangle(deep).starts_with("bool llvm::PatternMatch::match_combine_or<llvm::PatternMatch::CastInst_match<")
        );
    }

    #[test]
    fn the_deepest_names_fit_a_small_stack() {
        let hostile = || {
            for part in ["P", "1aI", "N1aI", "FvP", "XadsrT_", "Z1f", "DpT_", "JIi", "A1_"] {
                let name = format!("_Z1f{}i", part.repeat(100_000));
                assert!(demangle(&name).len() >= 3);
            }
        };
        std::thread::Builder::new().stack_size(1 << 20).spawn(hostile).unwrap().join().unwrap();
    }

    #[test]
    fn what_is_not_mangled_stays() {
        for name in ["", "malloc", "foo.cold", "main.main", "_Z", "_R", "_ZN", "__libc_start_main", "_Zé", "_Rß"] {
            assert_eq!(demangle(name), name);
        }
    }

    #[test]
    fn a_small_name_for_a_huge_text_stays() {
        // f(A, pair<A, A>, pair<pair<A, A>, pair<A, A>>, …): each parameter is twice as long as the one before it.
        let substitutions =
            ["1_", "2_", "3_", "4_", "5_", "6_", "7_", "8_", "9_", "A_", "B_", "C_", "D_", "E_", "F_", "G_"];
        let name_of = |parameters: usize| {
            let doubled = substitutions.iter().take(parameters).map(|number| format!("S0_IS{number}S{number}E"));
            format!("_Z1f1ASt4pairIS_S_E{}", doubled.collect::<String>())
        };
        assert_eq!(demangle(&name_of(1)), "f(A, std::pair<A, A>, std::pair<std::pair<A, A>, std::pair<A, A> >)");
        assert_eq!(demangle(&name_of(16)), name_of(16));
        let nested = format!("_Z1f{}i", "P".repeat(100_000));
        assert_eq!(demangle(&nested), nested);
    }
}
