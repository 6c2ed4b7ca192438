use super::columns_by_table;
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;

fn written(sql: &str) -> Result<String, String> {
    let mut statement = Parser::parse_sql(&PostgreSqlDialect {}, sql).unwrap().remove(0);
    columns_by_table(&mut statement).map(|()| statement.to_string()).map_err(|error| error.to_string())
}

#[test]
fn columns_are_named_by_their_table() {
    for (of, by_table) in [
        ("SELECT id FROM a JOIN b USING (id) WHERE id = 1", "SELECT a.id FROM a JOIN b USING(id) WHERE a.id = 1"),
        (
            "SELECT max(id), a.id FROM s.a RIGHT JOIN b AS x USING (id) GROUP BY id HAVING id > 1 ORDER BY id",
            "SELECT max(x.id), a.id FROM s.a RIGHT JOIN b AS x USING(id) GROUP BY x.id HAVING x.id > 1 ORDER BY x.id",
        ),
        (
            "SELECT id, v FROM a FULL JOIN b USING (id) ORDER BY id, id + 1",
            "SELECT coalesce(a.id, b.id) AS id, v FROM a FULL JOIN b USING(id) ORDER BY id, coalesce(a.id, b.id) + 1",
        ),
        (
            "SELECT * FROM a JOIN b USING (id, \"At\") JOIN c USING (id, \"At\") ORDER BY id",
            "SELECT a.id AS id, a.\"At\" AS \"At\", a.* EXCEPT (id, \"At\"), b.* EXCEPT (id, \"At\"), c.* EXCEPT (id, \"At\") \
             FROM a JOIN b USING(id, \"At\") JOIN c USING(id, \"At\") ORDER BY id",
        ),
        // The owner of the column, and the order of `*`, depend on the schemas of the tables.
        (
            "SELECT *, id, at FROM a JOIN b USING (id) LEFT JOIN c USING (at)",
            "SELECT *, a.id, at FROM a JOIN b USING(id) LEFT JOIN c USING(at)",
        ),
        (
            "SELECT at FROM a JOIN b ON a.x = b.y JOIN c USING (at)",
            "SELECT c.at FROM a JOIN b ON a.x = b.y JOIN c USING(at)",
        ),
        (
            "SELECT * FROM a JOIN b USING (id) JOIN c ON c.a = id, d",
            "SELECT a.id AS id, a.* EXCEPT (id), b.* EXCEPT (id), c.*, d.* FROM a JOIN b USING(id) JOIN c ON c.a = a.id, d",
        ),
        (
            "SELECT (SELECT id FROM c) FROM (SELECT id FROM a JOIN b USING (id)) x",
            "SELECT (SELECT id FROM c) FROM (SELECT a.id FROM a JOIN b USING(id)) x",
        ),
        ("SELECT id FROM a JOIN b ON a.id = b.id", "SELECT id FROM a JOIN b ON a.id = b.id"),
    ] {
        assert_eq!(written(of).unwrap(), by_table);
    }
}

#[test]
fn joins_whose_columns_nobody_knows_are_refused() {
    let natural = written("SELECT * FROM a NATURAL FULL JOIN b").unwrap_err();
    assert!(natural.contains("USING (...)"), "{natural}");
    let unknown = written("SELECT 1 FROM a JOIN b ON true FULL JOIN c USING (id)").unwrap_err();
    assert!(unknown.contains("coalesce(a.id, b.id)"), "{unknown}");
}
