//! Builds statements that the session makes itself, as trees.

use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, BinaryOperator, CaseWhen, CastKind, DataType, Delete, Expr, FromTable, Function, FunctionArg,
    FunctionArgumentList, FunctionArguments, GroupByExpr, Ident, Insert, ObjectName, Parens, Query, Select,
    SelectFlavor, SelectItem, SetExpr, SetOperator, SetQuantifier, TableAlias, TableAliasColumnDef, TableFactor,
    TableObject, TableWithJoins, Value as Literal, Values, WildcardAdditionalOptions,
};
use fleetdb_engine::ArrayElement;

/// A name in quotes, whose case counts.
pub fn quoted(name: &str) -> Ident {
    Ident::with_quote('"', name)
}

/// A column of a table or alias.
pub fn column(table: &str, name: &str) -> Expr {
    Expr::CompoundIdentifier(vec![quoted(table), quoted(name)])
}

/// The literal `true`.
pub fn true_literal() -> Expr {
    Expr::value(Literal::Boolean(true))
}

/// A whole number.
pub fn number(value: i64) -> Expr {
    Expr::value(Literal::Number(value.to_string(), false))
}

/// `CASE WHEN condition THEN result ... END`.
pub fn case(conditions: Vec<CaseWhen>) -> Expr {
    let (case_token, end_token) = (AttachedToken::empty(), AttachedToken::empty());
    Expr::Case { case_token, end_token, operand: None, conditions, else_result: None }
}

/// `left op right`.
pub fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}

/// `CAST(expr AS data_type)`.
pub fn cast(expr: Expr, data_type: DataType) -> Expr {
    Expr::Cast { kind: CastKind::Cast, expr: Box::new(expr), data_type, array: false, format: None }
}

/// The type of arrays with these elements.
pub fn array_type(element: ArrayElement) -> DataType {
    let element = match element {
        ArrayElement::Boolean => DataType::Boolean,
        ArrayElement::Int16 => DataType::SmallInt(None),
        ArrayElement::Int32 => DataType::Integer(None),
        ArrayElement::Int64 => DataType::BigInt(None),
        ArrayElement::Float32 => DataType::Real,
        ArrayElement::Float64 => DataType::DoublePrecision,
        ArrayElement::Utf8 => DataType::Text,
    };
    DataType::Array(ArrayElemTypeDef::SquareBracket(Box::new(element), None))
}

/// A call of a function.
pub fn call(name: &str, args: Vec<Expr>) -> Expr {
    let list = FunctionArgumentList {
        duplicate_treatment: None,
        args: args.into_iter().map(|arg| FunctionArg::Unnamed(arg.into())).collect(),
        clauses: Vec::new(),
    };
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new(name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(list),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

/// The SELECT list `*`.
pub fn all_columns() -> Vec<SelectItem> {
    vec![SelectItem::Wildcard(WildcardAdditionalOptions::default())]
}

/// A SELECT list for queries that only tell whether there are rows.
pub fn any_row() -> Vec<SelectItem> {
    vec![SelectItem::UnnamedExpr(true_literal())]
}

/// `name AS alias` in FROM.
pub fn table(name: ObjectName, alias: Option<&str>) -> TableFactor {
    TableFactor::Table {
        name,
        alias: alias.map(table_alias),
        args: None,
        with_hints: Vec::new(),
        version: None,
        with_ordinality: false,
        partitions: Vec::new(),
        json_path: None,
        sample: None,
        index_hints: Vec::new(),
    }
}

/// `(query) AS alias` in FROM.
pub fn derived(query: Query, alias: &str) -> TableFactor {
    derived_as(query, table_alias(alias))
}

/// `(query) AS alias (columns)` in FROM.
pub fn derived_with_columns(query: Query, alias: &str, columns: &[String]) -> TableFactor {
    let column = |name: &String| TableAliasColumnDef { name: quoted(name), data_type: None };
    derived_as(query, TableAlias { columns: columns.iter().map(column).collect(), ..table_alias(alias) })
}

/// `(query) AS alias` in FROM, with this alias.
pub fn derived_as(query: Query, alias: TableAlias) -> TableFactor {
    TableFactor::Derived { lateral: false, subquery: Box::new(query), alias: Some(alias), sample: None }
}

/// `AS name`.
pub fn table_alias(name: &str) -> TableAlias {
    TableAlias { explicit: true, name: quoted(name), columns: Vec::new(), at: None }
}

/// A table in FROM that is not joined.
pub fn unjoined(relation: TableFactor) -> TableWithJoins {
    TableWithJoins { relation, joins: Vec::new() }
}

/// `SELECT items FROM tables WHERE condition`.
pub fn select(projection: Vec<SelectItem>, from: Vec<TableWithJoins>, selection: Option<Expr>) -> Query {
    let select = Select {
        select_token: AttachedToken::empty(),
        optimizer_hints: Vec::new(),
        distinct: None,
        select_modifiers: None,
        top: None,
        top_before_distinct: false,
        projection,
        exclude: None,
        into: None,
        from,
        lateral_views: Vec::new(),
        prewhere: None,
        selection,
        connect_by: Vec::new(),
        group_by: GroupByExpr::Expressions(Vec::new(), Vec::new()),
        cluster_by: Vec::new(),
        distribute_by: Vec::new(),
        sort_by: Vec::new(),
        having: None,
        named_window: Vec::new(),
        qualify: None,
        window_before_qualify: false,
        value_table_mode: None,
        flavor: SelectFlavor::Standard,
    };
    query(SetExpr::Select(Box::new(select)))
}

/// `left UNION ALL right`.
pub fn union_all(left: Query, right: Query) -> Query {
    query(SetExpr::SetOperation {
        left: left.body,
        op: SetOperator::Union,
        set_quantifier: SetQuantifier::All,
        right: right.body,
    })
}

/// `VALUES (...), ...`.
pub fn values(rows: Vec<Vec<Expr>>) -> Query {
    let rows = rows.into_iter().map(Parens::with_empty_span).collect();
    query(SetExpr::Values(Values { explicit_row: false, value_keyword: false, rows }))
}

fn query(body: SetExpr) -> Query {
    Query {
        with: None,
        body: Box::new(body),
        order_by: None,
        limit_clause: None,
        fetch: None,
        locks: Vec::new(),
        for_clause: None,
        settings: None,
        format_clause: None,
        pipe_operators: Vec::new(),
    }
}

/// `INSERT INTO name (columns) query`, or `DEFAULT VALUES` without a query.
pub fn insert(name: ObjectName, columns: Vec<ObjectName>, source: Option<Query>) -> Insert {
    Insert {
        insert_token: AttachedToken::empty(),
        optimizer_hints: Vec::new(),
        or: None,
        ignore: false,
        into: true,
        table: TableObject::TableName(name),
        table_alias: None,
        columns,
        overwrite: false,
        source: source.map(Box::new),
        assignments: Vec::new(),
        partitioned: None,
        after_columns: Vec::new(),
        has_table_keyword: false,
        on: None,
        returning: None,
        output: None,
        replace_into: false,
        priority: None,
        insert_alias: None,
        settings: None,
        format_clause: None,
        multi_table_insert_type: None,
        multi_table_into_clauses: Vec::new(),
        multi_table_when_clauses: Vec::new(),
        multi_table_else_clause: None,
    }
}

/// `DELETE FROM name`.
pub fn delete_all(name: ObjectName) -> Delete {
    Delete {
        delete_token: AttachedToken::empty(),
        optimizer_hints: Vec::new(),
        tables: Vec::new(),
        from: FromTable::WithFromKeyword(vec![unjoined(table(name, None))]),
        using: None,
        selection: None,
        returning: None,
        output: None,
        order_by: Vec::new(),
        limit: None,
    }
}
