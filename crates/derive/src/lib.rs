//! `#[derive(Tracked)]` and `#[highwater::test]` of the crate `highwater`.
//!
//! A derive cannot add a field to a type. So it implements `DeepSize` (the size with heap, field by field), and gives the type a method
//! `tracked()`, which makes a `Tracked<Self>`: that value reports its creation and its drop. The type itself is not changed, its own `Drop`
//! included.
#![forbid(unsafe_code)]

mod test_attribute;

use proc_macro::TokenStream;
use proc_macro2::TokenStream as Tokens;
use quote::{format_ident, quote};
use syn::{Data, DeriveInput, Error, Fields, GenericParam, Generics, Index, parse_macro_input, parse_quote};

/// Implements the size of values, heap included, and adds `tracked()`. See the crate `highwater`.
///
/// Every type parameter must be `DeepSize`, unless a field is marked `#[tracked(skip)]`. For a skipped field only the bytes inside the value itself
/// count.
#[proc_macro_derive(Tracked, attributes(tracked))]
pub fn derive_tracked(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    expand(input).unwrap_or_else(Error::into_compile_error).into()
}

/// A test with limits on its memory: it fails, with the call stacks, if it takes more. The test program needs `highwater::Alloc` as its global allocator.
///
/// | limit | the test fails if |
/// |---|---|
/// | `max_peak = "4 MiB"` | more bytes are live at once |
/// | `max_bytes = "1 GiB"` | it allocates more bytes in all |
/// | `max_block = "64 KiB"` | a block is larger |
/// | `max_allocations = 3` | it asks for memory more often: allocations and reallocations |
/// | `no_allocations` | it asks for memory at all |
/// | `no_leaks` | blocks are left over |
///
/// What counts is what `highwater::testing` says. A test that panics or returns an error fails for that reason alone. `#[should_panic]` and `#[ignore]` work as usual.
///
/// ```ignore
/// #[highwater::test(max_peak = "4 MiB", no_leaks)]
/// fn parses_large_files() -> Result<(), ParseError> {
///     parse(include_str!("large.txt"))?;
///     Ok(())
/// }
/// ```
#[proc_macro_attribute]
pub fn test(arguments: TokenStream, item: TokenStream) -> TokenStream {
    test_attribute::expand(arguments.into(), item.into()).unwrap_or_else(Error::into_compile_error).into()
}

fn expand(input: DeriveInput) -> Result<Tokens, Error> {
    let name = &input.ident;
    let size = match &input.data {
        Data::Struct(data) => size_of_struct(&data.fields)?,
        Data::Enum(data) if data.variants.is_empty() => quote!(0),
        Data::Enum(data) => {
            let arms = data.variants.iter().map(|variant| {
                let ident = &variant.ident;
                let (pattern, size) = size_of_variant(&variant.fields)?;
                Ok(quote!(Self::#ident #pattern => #size))
            });
            let arms = arms.collect::<Result<Vec<_>, Error>>()?;
            quote!(match self { #(#arms,)* })
        }
        Data::Union(_) => {
            return Err(Error::new_spanned(name, "a union cannot be tracked: it is not known which field it holds"));
        }
    };
    let generics = with_bounds(input.generics);
    let (in_impl, in_type, clause) = generics.split_for_impl();
    let visibility = &input.vis;
    Ok(quote! {
        #[automatically_derived]
        impl #in_impl ::highwater::DeepSize for #name #in_type #clause {
            fn heap_size(&self) -> usize {
                #size
            }
        }

        #[automatically_derived]
        impl #in_impl #name #in_type #clause {
            /// Reports the creation of this value here, and its drop when it happens.
            #[track_caller]
            #[allow(dead_code)]
            #visibility fn tracked(self) -> ::highwater::Tracked<Self> {
                ::highwater::Tracked::new(self)
            }
        }
    })
}

/// Requires `DeepSize` of every type parameter.
fn with_bounds(mut generics: Generics) -> Generics {
    for parameter in &mut generics.params {
        if let GenericParam::Type(parameter) = parameter {
            parameter.bounds.push(parse_quote!(::highwater::DeepSize));
        }
    }
    generics
}

/// True for fields marked `#[tracked(skip)]`.
fn is_skipped(field: &syn::Field) -> Result<bool, Error> {
    let mut skipped = false;
    for attribute in field.attrs.iter().filter(|attribute| attribute.path().is_ident("tracked")) {
        attribute.parse_nested_meta(|meta| {
            if meta.path.is_ident("skip") {
                skipped = true;
                Ok(())
            } else {
                Err(meta.error("only #[tracked(skip)] is known"))
            }
        })?;
    }
    Ok(skipped)
}

fn size_of_struct(fields: &Fields) -> Result<Tokens, Error> {
    let mut sizes = Vec::new();
    for (number, field) in fields.iter().enumerate() {
        if !is_skipped(field)? {
            let member = match &field.ident {
                Some(ident) => quote!(#ident),
                None => {
                    let index = Index::from(number);
                    quote!(#index)
                }
            };
            sizes.push(quote!(::highwater::DeepSize::heap_size(&self.#member)));
        }
    }
    Ok(quote!(0 #(+ #sizes)*))
}

/// A pattern that binds the fields of a variant, and their size.
fn size_of_variant(fields: &Fields) -> Result<(Tokens, Tokens), Error> {
    let (mut bound, mut sizes) = (Vec::new(), Vec::new());
    for (number, field) in fields.iter().enumerate() {
        let binding = format_ident!("field_{number}");
        let skipped = is_skipped(field)?;
        bound.push(match (&field.ident, skipped) {
            (Some(ident), false) => quote!(#ident: #binding),
            (Some(ident), true) => quote!(#ident: _),
            (None, false) => quote!(#binding),
            (None, true) => quote!(_),
        });
        if !skipped {
            sizes.push(quote!(::highwater::DeepSize::heap_size(#binding)));
        }
    }
    let pattern = match fields {
        Fields::Named(_) => quote!({ #(#bound),* }),
        Fields::Unnamed(_) => quote!(( #(#bound),* )),
        Fields::Unit => quote!(),
    };
    Ok((pattern, quote!(0 #(+ #sizes)*)))
}
