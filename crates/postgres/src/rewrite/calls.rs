//! Rewrites functions and operators that DataFusion lacks into ones it has: `mod(n, 60)`,
//! `num_nulls(a, b)`, `make_interval(days => 7)`, `percentile_disc(0.9) WITHIN GROUP (ORDER BY v)`, `date_trunc('day',
//! ts, 'Europe/Berlin')`, `|/ 16`, `s COLLATE "C"`, and the templates of `to_timestamp` and
//! `to_date`.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, ObjectName, Statement,
    UnaryOperator, Value,
};
use fleetdb_functions::date_trunc::NAME as DATE_TRUNC_IN_ZONE;
use fleetdb_statement::generated::expr_of;
use fleetdb_statement::names::identifier;
use fleetdb_statement::walk::visit_expressions_mut;
use std::ops::ControlFlow;

/// The arguments of `make_interval`, in order, with their units.
const PARTS_OF_INTERVAL: [(&str, &str); 7] = [
    ("years", "1 year"),
    ("months", "1 month"),
    ("weeks", "7 days"),
    ("days", "1 day"),
    ("hours", "1 hour"),
    ("mins", "1 minute"),
    ("secs", "1 second"),
];

/// PostgreSQL's template patterns and chrono's equivalents. A longer pattern precedes its own
/// prefixes.
const READ_PATTERNS: [(&str, &str); 16] = [
    ("YYYY", "%Y"),
    ("YY", "%y"),
    ("MONTH", "%B"),
    ("MON", "%b"),
    ("MM", "%m"),
    ("MI", "%M"),
    ("MS", "%3f"),
    ("DDD", "%j"),
    ("DD", "%d"),
    ("HH24", "%H"),
    ("HH12", "%I"),
    ("HH", "%I"),
    ("SS", "%S"),
    ("US", "%6f"),
    ("AM", "%p"),
    ("PM", "%p"),
];

/// The patterns of hours and minutes in chrono.
const HOURS: [&str; 2] = ["%H", "%I"];
const MINUTE: &str = "%M";

/// Collations that compare texts byte by byte, as FleetDB always does.
const BY_BYTES: [&str; 4] = ["C", "POSIX", "default", "ucs_basic"];

/// Rewrites the calls of a statement.
pub(super) fn in_known_calls(statement: &mut Statement) {
    let _ = visit_expressions_mut(statement, |expr| {
        let words = match expr {
            Expr::Function(call) => of_call(call),
            Expr::UnaryOp { op, expr } => of_operator(*op, expr),
            Expr::Collate { expr: of, collation } if is_by_bytes(collation) => {
                let of = std::mem::replace(of.as_mut(), Expr::value(Value::Null));
                *expr = Expr::Nested(Box::new(of));
                None
            }
            _ => None,
        };
        if let Some(known) = words.and_then(|words| expr_of(&words)) {
            *expr = known;
        }
        ControlFlow::<()>::Continue(())
    });
}

fn of_operator(op: UnaryOperator, of: &Expr) -> Option<String> {
    Some(match op {
        UnaryOperator::PGAbs => format!("abs({of})"),
        UnaryOperator::PGSquareRoot => format!("sqrt({of})"),
        UnaryOperator::PGCubeRoot => format!("cbrt({of})"),
        // In two's complement, `~n` is `-1 - n`.
        UnaryOperator::BitwiseNot => format!("(-1 - ({of}))"),
        _ => return None,
    })
}

fn is_by_bytes(collation: &ObjectName) -> bool {
    let name = collation.0.last().and_then(|part| part.as_ident());
    name.is_some_and(|name| BY_BYTES.iter().any(|known| known.eq_ignore_ascii_case(&name.value)))
}

fn of_call(call: &Function) -> Option<String> {
    let [name] = call.name.0.as_slice() else { return None };
    let name = identifier(name.as_ident()?);
    let args: &[FunctionArg] = match &call.args {
        FunctionArguments::None => &[],
        FunctionArguments::List(list) => &list.args,
        FunctionArguments::Subquery(_) => return None,
    };
    match (name.as_str(), args) {
        ("mod", [number, by]) => Some(format!("(({number}) % ({by}))")),
        ("div", [number, by]) => Some(format!("trunc(({number}) / ({by}))")),
        ("age", [time]) => Some(format!("age(CAST(current_date AS TIMESTAMP), {time})")),
        ("date_trunc", [unit, time]) => {
            let unit = unit.to_string().to_lowercase();
            let one = matches!(unit.as_str(), "'microseconds'" | "'milliseconds'").then(|| unit.replace("s'", "'"))?;
            Some(format!("date_trunc({one}, {time})"))
        }
        ("date_trunc", [unit, time, zone]) => Some(format!("{DATE_TRUNC_IN_ZONE}({unit}, {time}, {zone})")),
        ("to_date" | "to_timestamp", [text, FunctionArg::Unnamed(FunctionArgExpr::Expr(template))]) => {
            let template = constant_of(template)?;
            // A template that is none of PostgreSQL's is one of chrono's.
            let format = format_of(&template).unwrap_or(template);
            // Without minutes, the time of day would not be read.
            Some(match HOURS.iter().any(|hour| format.contains(hour)) && !format.contains(MINUTE) {
                true => format!("{name}(({text}) || ' 0', '{format} {MINUTE}')"),
                false => format!("{name}({text}, '{format}')"),
            })
        }
        ("localtimestamp", []) => Some("CAST(now() AS TIMESTAMP)".to_owned()),
        ("localtime", []) => Some("CAST(CAST(now() AS TIMESTAMP) AS TIME)".to_owned()),
        ("make_interval", args) => interval(args),
        ("num_nulls", [_, ..]) => Some(counted(args, "IS NULL")),
        ("num_nonnulls", [_, ..]) => Some(counted(args, "IS NOT NULL")),
        ("percentile_disc", [fraction]) => percentile(call, fraction),
        _ => None,
    }
}

/// How many of the arguments are NULL, or are not.
fn counted(args: &[FunctionArg], test: &str) -> String {
    let ones = args.iter().map(|arg| format!("CASE WHEN ({arg}) {test} THEN 1 ELSE 0 END"));
    format!("({})", ones.collect::<Vec<_>>().join(" + "))
}

/// `make_interval(hours => h, mins => 30)`.
fn interval(args: &[FunctionArg]) -> Option<String> {
    let mut sum = "INTERVAL '0 seconds'".to_owned();
    for (place, arg) in args.iter().enumerate() {
        let (unit, count) = match arg {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(count)) => (PARTS_OF_INTERVAL.get(place)?.1, count),
            FunctionArg::Named { name, arg: FunctionArgExpr::Expr(count), .. }
            | FunctionArg::ExprNamed { name: Expr::Identifier(name), arg: FunctionArgExpr::Expr(count), .. } => {
                let name = identifier(name);
                (PARTS_OF_INTERVAL.iter().find(|(part, _)| *part == name)?.1, count)
            }
            _ => return None,
        };
        sum.push_str(&format!(" + ({count}) * INTERVAL '{unit}'"));
    }
    Some(format!("({sum})"))
}

/// The first value that has at least this fraction of all values at or before it.
fn percentile(call: &Function, fraction: &FunctionArg) -> Option<String> {
    let [order] = call.within_group.as_slice() else { return None };
    let value = &order.expr;
    let also = call.filter.as_ref().map(|filter| format!(" AND ({filter})")).unwrap_or_default();
    let filter = format!("FILTER (WHERE ({value}) IS NOT NULL{also})");
    let place = format!("ceil(({fraction}) * count({value}) {filter})");
    Some(format!("array_element(array_agg({value} ORDER BY {order}) {filter}, CAST(greatest({place}, 1) AS BIGINT))"))
}

/// The text of a constant: a literal, or several joined by `||`. Quotes in it are doubled.
fn constant_of(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Value(value) => Some(value.to_string().strip_prefix('\'')?.strip_suffix('\'')?.to_owned()),
        Expr::BinaryOp { left, op: BinaryOperator::StringConcat, right } => {
            Some(constant_of(left)? + &constant_of(right)?)
        }
        Expr::Nested(inner) => constant_of(inner),
        _ => None,
    }
}

/// Translates a PostgreSQL template for parsing times into a chrono format. `None` if it is already
/// a chrono format or contains something chrono does not support.
fn format_of(template: &str) -> Option<String> {
    let mut rest = template;
    let mut format = String::new();
    while let Some(first) = rest.chars().next() {
        let known = READ_PATTERNS
            .iter()
            .find(|(pattern, _)| rest.get(..pattern.len()).is_some_and(|here| here.eq_ignore_ascii_case(pattern)));
        if let Some((pattern, of_chrono)) = known {
            format.push_str(of_chrono);
            rest = &rest[pattern.len()..];
        } else if let Some(quoted) = rest.strip_prefix('"') {
            let (text, behind) = quoted.split_once('"')?;
            format.push_str(&text.replace('%', "%%"));
            rest = behind;
        } else if first == '%' || first.is_alphanumeric() {
            return None;
        } else {
            format.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    Some(format)
}

#[cfg(test)]
#[path = "calls_tests.rs"]
mod tests;
