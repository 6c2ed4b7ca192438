//! Builds statements that the session makes itself, as trees.

use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType, Delete, Expr, FromTable, Function, FunctionArg, FunctionArgumentList,
    FunctionArguments, GroupByExpr, Ident, ObjectName, Query, Select, SelectFlavor, SelectItem, SetExpr, TableAlias,
    TableFactor, TableWithJoins, Value as Literal, WildcardAdditionalOptions,
};

/// A name in quotes, whose case counts.
pub(crate) fn quoted(name: &str) -> Ident {
    Ident::with_quote('"', name)
}

/// A column of a table or alias.
pub(crate) fn column(table: &str, name: &str) -> Expr {
    Expr::CompoundIdentifier(vec![quoted(table), quoted(name)])
}

/// The literal `true`.
pub(crate) fn true_literal() -> Expr {
    Expr::value(Literal::Boolean(true))
}

/// `left op right`.
pub(crate) fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}

/// `CAST(expr AS data_type)`.
pub(crate) fn cast(expr: Expr, data_type: DataType) -> Expr {
    Expr::Cast { kind: CastKind::Cast, expr: Box::new(expr), data_type, array: false, format: None }
}

/// A call of a function.
pub(crate) fn call(name: &str, args: Vec<Expr>) -> Expr {
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
pub(crate) fn all_columns() -> Vec<SelectItem> {
    vec![SelectItem::Wildcard(WildcardAdditionalOptions::default())]
}

/// A SELECT list for queries that only tell whether there are rows.
pub(crate) fn any_row() -> Vec<SelectItem> {
    vec![SelectItem::UnnamedExpr(true_literal())]
}

/// `name AS alias` in FROM.
pub(crate) fn table(name: ObjectName, alias: Option<&str>) -> TableFactor {
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
pub(crate) fn derived(query: Query, alias: &str) -> TableFactor {
    TableFactor::Derived { lateral: false, subquery: Box::new(query), alias: Some(table_alias(alias)), sample: None }
}

fn table_alias(name: &str) -> TableAlias {
    TableAlias { explicit: true, name: quoted(name), columns: Vec::new(), at: None }
}

/// A table in FROM that is not joined.
pub(crate) fn unjoined(relation: TableFactor) -> TableWithJoins {
    TableWithJoins { relation, joins: Vec::new() }
}

/// `SELECT items FROM tables WHERE condition`.
pub(crate) fn select(projection: Vec<SelectItem>, from: Vec<TableWithJoins>, selection: Option<Expr>) -> Query {
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
    Query {
        with: None,
        body: Box::new(SetExpr::Select(Box::new(select))),
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

/// `DELETE FROM name`.
pub(crate) fn delete_all(name: ObjectName) -> Delete {
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
