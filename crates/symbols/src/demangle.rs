//! Names as their authors wrote them.

use std::fmt::{self, Write};

use cpp_demangle::DemangleOptions;

/// A hostile name of a few bytes can stand for gigabytes of text; what would be longer than this stays as it is.
pub(crate) const LONGEST_NAME: usize = 64 * 1024;

/// What compilers append to the name of a copy or a part of a function, after a dot and often followed by a number.
const CLONE_SUFFIXES: [&str; 8] = ["cold", "part", "constprop", "isra", "lto_priv", "llvm", "localalias", "clone"];

/// The readable form of a mangled name: Rust (both manglings, without the hash) and C++. Other names are returned unchanged.
///
/// A mangled name loses the suffixes of compiler-made copies and parts (`.cold`, `.part.0`, `.constprop.1`): to its author it is
/// the same function, and DWARF names it without them as well.
///
/// Where this differs from `c++filt`: the first parameter of a constructor that is a template is missing (a known
/// fault of `cpp_demangle`), an empty pack of template arguments leaves a comma, some spaces.
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

/// Whether the name says more than its bare text, such as the namespace and the types.
pub(crate) fn is_mangled(name: &str) -> bool {
    is_rust(name) || is_cpp(name)
}

fn is_rust(name: &str) -> bool {
    name.starts_with("_R") || has_legacy_rust_hash(without_clone_suffixes(name))
}

/// The older Rust mangling is C++'s with a hash as the last part of the path, which tells the two apart.
fn has_legacy_rust_hash(name: &str) -> bool {
    let Some(hash) = name.strip_suffix('E').and_then(|path| path.as_bytes().last_chunk::<19>()) else {
        return false;
    };
    name.starts_with("_ZN") && hash.starts_with(b"17h") && hash[3..].iter().all(u8::is_ascii_hexdigit)
}

fn is_cpp(name: &str) -> bool {
    name.starts_with("_Z") || name.starts_with("_GLOBAL__")
}

fn without_clone_suffixes(mut name: &str) -> &str {
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

fn demangled_cpp(name: &str) -> Option<String> {
    let mut text = BoundedText::default();
    cpp_demangle::BorrowedSymbol::new(name.as_bytes())
        .ok()?
        .structured_demangle(&mut text, &DemangleOptions::default())
        .ok()?;
    Some(text.0)
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
