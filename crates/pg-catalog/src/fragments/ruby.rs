//! Ruby's pg and ActiveRecord load the types that they know. PostgreSQL's `pg_type.typinput` is the
//! number of a function.

use super::Fragment;

pub(super) const FRAGMENTS: &[Fragment] = &[
    Fragment {
        text: "ON ti.oid = t.typinput",
        replacement: "ON ti.proname = t.typinput",
        blocked_by: "the crate's `typinput` is the name of a function",
        remove_when: "it is a number",
    },
    Fragment {
        text: "'array_in(cstring,oid,integer)'::regprocedure",
        replacement: "'array_in'",
        blocked_by: "the crate's `typinput` is the name of a function, and it does not resolve `regprocedure`",
        remove_when: "it resolves `regprocedure`, and `typinput` is a number",
    },
];
