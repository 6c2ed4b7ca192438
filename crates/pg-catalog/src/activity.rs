//! Connected clients and their statements: the view `pg_stat_activity`, and the functions that
//! cancel statements or end connections. As in PostgreSQL, users who are not admins see and end
//! only their own statements.

use crate::clients::{Client, Clients, SessionUser};
use arrow::array::{ArrayRef, BooleanArray, Int32Array, RecordBatch, StringArray, TimestampNanosecondArray};
use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::common::cast::as_int64_array;
use datafusion::error::Result;
use datafusion::logical_expr::expr_fn::SimpleScalarUDF;
use datafusion::logical_expr::{ColumnarValue, ScalarUDF, Signature, TypeSignature, Volatility, create_udf};
use datafusion::prelude::SessionContext;
use fleetdb_engine::{Code, ColumnType, Error};
use fleetdb_functions::errors::query_error;
use fleetdb_functions::expressions::are_constant;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// The table behind the view.
pub(super) const ROWS: &str = "fleetdb_clients";

/// The view's columns: those of [`rows`], and NULLs for what FleetDB does not have.
pub(super) const QUERY: &str = "SELECT d.oid AS datid, d.datname, c.pid, CAST(NULL AS INT) AS leader_pid, \
     CAST(NULL AS INT) AS usesysid, c.usename, c.application_name, c.client_addr, \
     CAST(NULL AS TEXT) AS client_hostname, c.client_port, c.backend_start, c.xact_start, c.query_start, \
     c.state_change, CAST(NULL AS TEXT) AS wait_event_type, CAST(NULL AS TEXT) AS wait_event, c.state, \
     CAST(NULL AS BIGINT) AS backend_xid, CAST(NULL AS BIGINT) AS backend_xmin, CAST(NULL AS BIGINT) AS query_id, \
     c.query, 'client backend' AS backend_type \
     FROM pg_catalog.fleetdb_clients c CROSS JOIN pg_catalog.pg_database d WHERE d.datname = current_database()";

/// The name of the function that tells whether the session's user is an admin.
pub(super) const IS_ADMIN: &str = "fleetdb_is_admin";

/// Shown instead of other users' statements.
const HIDDEN: &str = "<insufficient privilege>";

/// The user a session currently works for, shared with its functions.
pub(super) type Shared = Arc<Mutex<SessionUser>>;

fn session_user(shared: &Shared) -> SessionUser {
    shared.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// All clients, as far as the session's user may see them.
pub(super) fn rows(clients: &dyn Clients, shared: &Shared) -> Result<RecordBatch> {
    let (session_user, clients) = (session_user(shared), clients.all());
    // For other users' clients, only their identity is shown.
    let is_shown = |client: &&Client| session_user.is_admin || client.user == session_user.user;
    let shown: Vec<_> = clients.iter().map(|client| Some(client).filter(is_shown)).collect();
    let times = |time: fn(&Client) -> Option<SystemTime>| -> ArrayRef {
        let times = shown.iter().map(|client| nanoseconds(time((*client)?)?));
        Arc::new(times.collect::<TimestampNanosecondArray>().with_timezone(ColumnType::UTC))
    };
    let address = |client: &Option<&Client>| (*client)?.address;
    let columns: [(&str, ArrayRef); 11] = [
        ("pid", Arc::new(Int32Array::from_iter_values(clients.iter().map(|client| client.number)))),
        ("usename", texts(clients.iter().map(|client| Some(client.user.as_str())))),
        ("application_name", texts(clients.iter().map(|client| Some(client.application_name.as_str())))),
        ("client_addr", texts(shown.iter().map(|client| Some(address(client)?.ip().to_string())))),
        (
            "client_port",
            Arc::new(Int32Array::from_iter(shown.iter().map(|client| Some(address(client)?.port().into())))),
        ),
        ("backend_start", times(|client| Some(client.came))),
        ("xact_start", times(|client| client.transaction_began)),
        ("query_start", times(|client| client.statement_began)),
        ("state_change", times(|client| Some(client.changed))),
        ("state", texts(shown.iter().map(|client| Some((*client)?.state.text())))),
        ("query", texts(shown.iter().map(|client| Some(client.map_or(HIDDEN, |client| &client.statement))))),
    ];
    Ok(RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true)))?)
}

fn texts<T: AsRef<str>>(texts: impl Iterator<Item = Option<T>>) -> ArrayRef {
    Arc::new(texts.collect::<StringArray>())
}

/// Nanoseconds since 1970.
fn nanoseconds(time: SystemTime) -> Option<i64> {
    i64::try_from(time.duration_since(UNIX_EPOCH).ok()?.as_nanos()).ok()
}

/// Registers the functions about the session's user, and those that cancel statements or end
/// connections.
pub(super) fn register(context: &SessionContext, clients: &Arc<dyn Clients>, shared: &Shared) {
    let of_session_user = |name: &str, takes: Vec<DataType>, gives: DataType, value: fn(SessionUser) -> ScalarValue| {
        let shared = Arc::clone(shared);
        let function = move |_: &[ColumnarValue]| Ok(ColumnarValue::Scalar(value(session_user(&shared))));
        context.register_udf(create_udf(name, takes, gives, Volatility::Stable, Arc::new(function)));
    };
    let user = |session_user: SessionUser| ScalarValue::from(session_user.user);
    of_session_user("pg_backend_pid", vec![], DataType::Int32, |session_user| ScalarValue::from(session_user.number));
    of_session_user("session_user", vec![], DataType::Utf8, user);
    of_session_user(IS_ADMIN, vec![], DataType::Boolean, |session_user| ScalarValue::from(session_user.is_admin));
    // To the catalog, every user has the same number.
    of_session_user("pg_get_userbyid", vec![DataType::Int32], DataType::Utf8, user);
    let (one, two) = (vec![DataType::Int64], vec![DataType::Int64; 2]);
    let functions: [(&str, End); 2] = [
        ("pg_cancel_backend", |clients, number| clients.cancel(number)),
        ("pg_terminate_backend", |clients, number| clients.end(number)),
    ];
    for (name, end) in functions {
        // The second argument of pg_terminate_backend is a timeout, which is ignored here.
        let takes = [TypeSignature::Exact(one.clone()), TypeSignature::Exact(two.clone())];
        let signature = Signature::one_of(takes.into(), Volatility::Volatile);
        let (clients, shared) = (Arc::clone(clients), Arc::clone(shared));
        let function = move |arguments: &[ColumnarValue]| {
            let numbers = ColumnarValue::values_to_arrays(arguments)?;
            let session_user = session_user(&shared);
            let ended = as_int64_array(&numbers[0])?.iter().map(|number| match number {
                None => Ok(None),
                Some(number) => reached(clients.as_ref(), &session_user, name, number, end).map(Some),
            });
            let ended: ArrayRef = Arc::new(ended.collect::<Result<BooleanArray>>()?);
            Ok(match are_constant(arguments) {
                true => ColumnarValue::Scalar(ScalarValue::try_from_array(&ended, 0)?),
                false => ColumnarValue::Array(ended),
            })
        };
        let function = SimpleScalarUDF::new_with_signature(name, signature, DataType::Boolean, Arc::new(function));
        context.register_udf(ScalarUDF::new_from_impl(function));
    }
}

/// Cancels a client's statement or ends its connection.
type End = fn(&dyn Clients, i32);

/// Applies `end` to a client, if the user may do so. Returns whether a client of this number
/// exists.
fn reached(clients: &dyn Clients, session_user: &SessionUser, name: &str, number: i64, end: End) -> Result<bool> {
    if !session_user.may_end {
        let message = format!("permission denied: {name} ends what is done, and a GET request only reads: use POST");
        return Err(query_error(Error::new(Code::Denied, message)));
    }
    let Ok(number) = i32::try_from(number) else { return Ok(false) };
    let Some(user) = clients.user(number) else { return Ok(false) };
    if !session_user.is_admin && user != session_user.user {
        let of = format!("{name} of '{user}' takes the role admin, or its user");
        let message = format!("permission denied: {of}, and '{}' is neither", session_user.user);
        return Err(query_error(Error::new(Code::Denied, message)));
    }
    end(clients, number);
    Ok(true)
}

#[cfg(test)]
#[path = "activity_tests.rs"]
mod tests;
