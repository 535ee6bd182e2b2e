//! Types that functions of C libraries allocate, by the names of the functions: those that say what they make.

/// The type of a block that this function asked the allocator for.
pub fn made_by(function: &str) -> Option<&'static str> {
    let name = function.split(['@', '.']).next().unwrap_or_default();
    let exact = FUNCTIONS.iter().find(|(functions, _)| functions.contains(&name)).map(|(_, made)| *made);
    exact.or_else(|| FAMILIES.iter().find(|(prefix, _)| name.starts_with(prefix)).map(|(_, made)| *made))
}

const FUNCTIONS: [(&[&str], &str); 8] = [
    (&["opendir", "__opendir", "fdopendir", "__alloc_dir", "opendirat", "__opendirat"], "DIR"),
    (
        &[
            "fopen",
            "fopen64",
            "fdopen",
            "_IO_fdopen",
            "__fopen_internal",
            "_IO_new_fopen",
            "popen",
            "fmemopen",
            "open_memstream",
            "tmpfile",
        ],
        "FILE",
    ),
    (&["_IO_file_doallocate", "__GI__IO_file_doallocate", "_IO_wfile_doallocate"], "FILE buffer"),
    (
        &[
            "strdup",
            "__strdup",
            "strndup",
            "__strndup",
            "asprintf",
            "__asprintf",
            "vasprintf",
            "__vasprintf_internal",
            "__vasprintf_chk",
            "__asprintf_chk",
            "getline",
            "getdelim",
            "_IO_getdelim",
            "__getdelim",
            "getcwd",
            "realpath",
            "__realpath_stk",
            "canonicalize_file_name",
        ],
        "char[]",
    ),
    (&["wcsdup", "__wcsdup"], "wchar_t[]"),
    (
        &["allocate_dtv", "_dl_allocate_tls", "allocate_dtv_entry", "tls_get_addr_tail", "__tls_get_addr"],
        "thread-local storage",
    ),
    (&["getaddrinfo", "gaih_inet"], "struct addrinfo"),
    (&["_dl_new_object", "_dl_map_object_from_fd"], "struct link_map"),
];

/// GLib's functions begin with the type they are for; Qt's are methods.
const FAMILIES: [(&str, &str); 16] = [
    ("g_hash_table_", "GHashTable"),
    ("g_ptr_array_", "GPtrArray"),
    ("g_byte_array_", "GByteArray"),
    ("g_array_", "GArray"),
    ("g_string_", "GString"),
    ("g_slist_", "GSList"),
    ("g_list_", "GList"),
    ("g_queue_", "GQueue"),
    ("g_tree_", "GTree"),
    ("g_variant_", "GVariant"),
    ("g_bytes_", "GBytes"),
    ("g_strdup", "char[]"),
    ("g_strndup", "char[]"),
    ("g_strconcat", "char[]"),
    ("g_strjoin", "char[]"),
    ("g_type_create_instance", "GTypeInstance"),
];

/// The container of a Qt function: `QList<int>::append(int const&)`.
pub fn qt_container(function: &str) -> Option<String> {
    let name = super::text::without_signature(function);
    let class = super::text::split(name, "::")?.into_iter().next()?;
    let (base, arguments) = super::text::generic(class)?;
    let is_plain = matches!(base, "QString" | "QByteArray" | "QBitArray" | "QUrl");
    let is_generic = matches!(
        base,
        "QList"
            | "QVector"
            | "QHash"
            | "QMultiHash"
            | "QMap"
            | "QMultiMap"
            | "QSet"
            | "QVarLengthArray"
            | "QSharedPointer"
            | "QMapNode"
            | "QHashNode"
            | "QLinkedList"
            | "QStack"
            | "QQueue"
    );
    if is_plain {
        return Some(base.to_owned());
    }
    let known = is_generic && !arguments.is_empty() && arguments.iter().all(|text| !text.contains('…'));
    known.then(|| super::spelling::cpp(class))
}
