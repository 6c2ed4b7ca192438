use arrow::array::{Array, AsArray};
use arrow::datatypes::Int32Type;
use fleetdb_engine::io::{Io, MemoryStorage};
use fleetdb_engine::{Database, Settings};
use fleetdb_postgres::{Client, ClientState, Clients, Postgres, SessionUser};
use fleetdb_query::Session;
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

/// Two clients; records which of them were ended, and how.
#[derive(Default)]
struct Two(Mutex<Vec<(&'static str, i32)>>);

impl Clients for Two {
    fn all(&self) -> Vec<Client> {
        let client = |number, user: &str, state| Client {
            number,
            user: user.to_owned(),
            application_name: "meter".to_owned(),
            address: Some("10.0.0.7:4711".parse().unwrap()),
            came: UNIX_EPOCH + Duration::from_secs(1),
            transaction_began: None,
            statement_began: Some(UNIX_EPOCH + Duration::from_secs(2)),
            changed: UNIX_EPOCH + Duration::from_secs(3),
            state,
            statement: format!("SELECT {number}"),
        };
        vec![client(1, "ann", ClientState::Active), client(2, "bob", ClientState::IdleInTransaction)]
    }

    fn user(&self, number: i32) -> Option<String> {
        self.all().into_iter().find(|client| client.number == number).map(|client| client.user)
    }

    fn cancel(&self, number: i32) {
        self.0.lock().unwrap().push(("cancel", number));
    }

    fn end(&self, number: i32) {
        self.0.lock().unwrap().push(("end", number));
    }
}

fn session(clients: &Arc<Two>, user: &str, is_admin: bool) -> Session {
    let db = Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
    let clients = Arc::clone(clients) as Arc<dyn Clients>;
    let postgres = Postgres::sharing(&Arc::default(), clients);
    postgres.set_user(SessionUser { number: 1, user: user.to_owned(), is_admin, may_end: true });
    Session::new(db.into(), postgres).unwrap()
}

#[test]
fn clients_are_shown_and_others_statements_only_to_admins() {
    let clients = Arc::new(Two::default());
    for (user, is_admin, of_bob) in [
        ("ann", true, Some(("idle in transaction", "SELECT 2"))),
        ("bob", false, Some(("idle in transaction", "SELECT 2"))),
        ("ann", false, None),
    ] {
        let rows = session(&clients, user, is_admin)
            .sql(
                "SELECT pid, usename, application_name, state, query, client_port, state_change - query_start, \
                 datname = current_database() FROM pg_stat_activity WHERE pid = 2",
            )
            .unwrap()
            .collect()
            .unwrap();
        let row = &rows[0];
        assert_eq!(row.column(0).as_primitive::<Int32Type>().value(0), 2);
        assert_eq!(row.column(1).as_string::<i32>().value(0), "bob");
        assert_eq!(row.column(2).as_string::<i32>().value(0), "meter");
        let (state, query) = of_bob.unwrap_or(("", "<insufficient privilege>"));
        assert_eq!(row.column(3).as_string::<i32>().value(0), state);
        assert_eq!(row.column(3).is_null(0), of_bob.is_none());
        assert_eq!(row.column(4).as_string::<i32>().value(0), query);
        assert_eq!(row.column(5).is_null(0), of_bob.is_none());
        assert_eq!(row.column(6).is_null(0), of_bob.is_none());
        assert!(row.column(7).as_boolean().value(0));
    }
}

#[test]
fn who_asks_is_known() {
    let clients = Arc::new(Two::default());
    let session = session(&clients, "ann", false);
    for query in [
        "SELECT current_user, pg_backend_pid()",
        "SELECT session_user, pg_backend_pid()",
        "SELECT rolname, pg_backend_pid() FROM pg_roles WHERE rolname = current_user",
        "SELECT usename, pid FROM pg_stat_activity WHERE pid = pg_backend_pid()",
    ] {
        let rows = session.sql(query).unwrap().collect().unwrap();
        assert_eq!(rows[0].column(0).as_string::<i32>().value(0), "ann", "{query}");
        assert_eq!(rows[0].column(1).as_primitive::<Int32Type>().value(0), 1, "{query}");
    }
}

#[test]
fn admins_end_what_all_do_others_what_they_do_themselves() {
    let clients = Arc::new(Two::default());
    let ask = |user, is_admin, query: &str| {
        let rows = session(&clients, user, is_admin).sql(query)?.collect()?;
        Ok::<_, fleetdb_engine::Error>(rows.iter().flat_map(|rows| rows.column(0).as_boolean()).collect::<Vec<_>>())
    };
    assert_eq!(ask("ann", false, "SELECT pg_cancel_backend(1)").unwrap(), [Some(true)]);
    assert_eq!(ask("ann", false, "SELECT pg_cancel_backend(3)").unwrap(), [Some(false)], "there is no such client");
    let refused = ask("ann", false, "SELECT pg_terminate_backend(2)").unwrap_err().to_string();
    assert!(refused.starts_with("permission denied: pg_terminate_backend of 'bob'"), "{refused}");
    let all = "SELECT pg_terminate_backend(pid, 1000) FROM pg_stat_activity WHERE usename <> 'root' ORDER BY pid";
    assert_eq!(ask("root", true, all).unwrap(), [Some(true); 2]);
    assert_eq!(ask("root", true, "SELECT pg_cancel_backend(NULL)").unwrap(), [None]);
    assert_eq!(*clients.0.lock().unwrap(), [("cancel", 1), ("end", 1), ("end", 2)]);
}
