//! pgAdmin asks for the user's roles, for what depends on a table, for default privileges, columns
//! and indexes, and for the search path.

use super::Fragment;

pub(super) const FRAGMENTS: &[Fragment] = &[
    // A user has no other roles.
    Fragment {
        text: "'pg_signal_backend'=ANY(ARRAY(WITH RECURSIVE cte AS (
            SELECT pg_roles.oid,pg_roles.rolname FROM pg_catalog.pg_roles WHERE pg_roles.oid = roles.oid
            UNION ALL
            SELECT m.roleid,pgr.rolname FROM cte cte_1
                JOIN pg_catalog.pg_auth_members m ON m.member = cte_1.oid
                JOIN pg_catalog.pg_roles pgr ON pgr.oid = m.roleid)
            SELECT rolname  FROM cte))",
        replacement: "false",
        blocked_by: "DataFusion refuses a recursive query if the metadata of its columns differ, as the crate's do",
        remove_when: "it ignores metadata there, and plans correlated recursive queries",
    },
    Fragment {
        text: "dep.refobjid NOT IN (SELECT d3.refobjid FROM pg_catalog.pg_depend d3 WHERE d3.objid=d2.refobjid)",
        replacement: "NOT EXISTS (SELECT 1 FROM pg_catalog.pg_depend d3
            WHERE d3.objid=d2.refobjid AND d3.refobjid = dep.refobjid)",
        blocked_by: "a correlated NOT IN is refused, because DataFusion does not tell NULL from false there",
        remove_when: "it does",
    },
    Fragment {
        text: "GROUP BY g.rolname, gt.rolname, a.deftype ORDER BY a.deftype",
        replacement: "GROUP BY g.rolname, gt.rolname, a.deftype",
        blocked_by: "DataFusion finds a.deftype in ORDER BY ambiguous if a column of the answer is called deftype",
        remove_when: "it takes a qualified column in ORDER BY for the table's",
    },
    // Names of types are unique.
    Fragment {
        text: "(SELECT count(1) FROM pg_catalog.pg_type t2 WHERE t2.typname=ty.typname) > 1",
        replacement: "false",
        blocked_by: "DataFusion plans no correlated subqueries in the SELECT list of DISTINCT ON",
        remove_when: "it does",
    },
    // There are no foreign keys.
    Fragment {
        text: "EXISTS(SELECT 1 FROM pg_catalog.pg_constraint
            WHERE conrelid=att.attrelid AND contype='f' AND att.attnum=ANY(conkey))",
        replacement: "false",
        blocked_by: "DataFusion has conkey twice when it makes a join of a subquery with `outer = ANY(conkey)`",
        remove_when: "it plans correlated subqueries with other conditions than `=`",
    },
    Fragment {
        text: "pg_catalog.unnest(ARRAY(SELECT pg_catalog.generate_series(1, i.indnatts) AS n)) attnum",
        replacement: "pg_catalog.unnest(range(1, CAST(i.indnatts AS BIGINT) + 1)) attnum",
        blocked_by: "DataFusion's table functions take no columns of the rows around them",
        remove_when: "they do",
    },
    Fragment {
        text: "FROM pg_catalog.unnest(current_schemas(true)) AS schema",
        replacement: "FROM (SELECT 'public' AS schema) AS s",
        blocked_by: "DataFusion knows unnest in FROM only without a schema, and the crate's current_schemas has others",
        remove_when: "it knows pg_catalog.unnest, and current_schemas are those of the search path",
    },
];
