"""Asks pgAdmin's own server what its pages ask: the tree of a database, the panels of a table, the query tool, the dashboard."""
import builtins
import glob
import json
import logging
import os
import sys

home, port = sys.argv[1:]
builtins.SERVER_MODE = False
root = next(path for path in map(lambda folder: os.path.join(folder, "pgadmin4"), sys.path) if os.path.isdir(path))
sys.path.insert(0, root)
os.chdir(root)
import config

config.DATA_DIR = home
config.SQLITE_PATH = os.path.join(home, "pgadmin.db")
config.LOG_FILE = os.path.join(home, "log")
config.SESSION_DB_PATH = os.path.join(home, "sessions")
config.STORAGE_DIR = os.path.join(home, "storage")
config.KERBEROS_CCACHE_DIR = os.path.join(home, "kerberos")
config.AZURE_CREDENTIAL_CACHE_DIR = os.path.join(home, "azure")
config.CONSOLE_LOG_LEVEL = logging.CRITICAL
config.MASTER_PASSWORD_REQUIRED = config.USE_OS_SECRET_STORAGE = False

import setup
from pgadmin import create_app
from pgadmin.model import SCHEMA_VERSION

config.SETTINGS_SCHEMA_VERSION = SCHEMA_VERSION
setup.setup_db()
app = create_app()
app.config["WTF_CSRF_ENABLED"] = False
app.PGADMIN_INT_KEY, app.PGADMIN_RUNTIME = "", False
with app.app_context():
    app.run_before_app_start()
browser = app.test_client()
browser.get("/", follow_redirects=True)


def said(answer):
    """pgAdmin's answer; fails if pgAdmin reports an error of the database."""
    text = answer.get_data(as_text=True)
    assert answer.status_code == 200 and '"success":0' not in text, f"{answer.request.path}: {answer.status_code} {text[:2000]}"
    return json.loads(text)


def get(path):
    return said(browser.get(path))


def post(path, **values):
    return said(browser.post(path, data=json.dumps(values), content_type="application/json"))


def equal(found, expected):
    assert found == expected, f"{found!r} is not {expected!r}"


def nodes(path):
    """The children of a node of the tree, by name."""
    return {node["label"]: node["_id"] for node in get(path)["data"]}


server = post("/browser/server/obj/1/", name="fleet", host="127.0.0.1", port=int(port), username="me", db="fleetdb", sslmode="prefer",
              connect_now=False, password="any", save_password=False)["node"]["_id"]
post(f"/browser/server/connect/1/{server}", password="any")
of_server = f"1/{server}"
database = nodes(f"/browser/database/nodes/{of_server}/")["fleetdb"]
of_database = f"{of_server}/{database}"
post(f"/browser/database/connect/{of_database}")
session = 1234567


def polled(session):
    """pgAdmin's answer once the database has answered."""
    while '"status":"Busy"' in (answer := browser.get(f"/sqleditor/poll/{session}")).get_data(as_text=True):
        pass
    return answer


def asked(sql):
    post(f"/sqleditor/query_tool/start/{session}", sql=sql, explain_plan=None)
    return polled(session)


def query(sql):
    """The rows that the query tool shows."""
    return said(asked(sql))["data"]


post(f"/sqleditor/initialize/sqleditor/{session}/{of_database}", user="me", role=None, password="any", dbname="fleetdb")
query("CREATE TABLE reads (meter_id BIGINT, ts TIMESTAMP, v DOUBLE PRECISION, PRIMARY KEY (meter_id, ts))")
query("INSERT INTO reads VALUES (1, '2026-01-01', 0.5), (1, '2026-01-02', 1.5)")
equal(query("SELECT meter_id, sum(v) FROM reads GROUP BY 1")["result"], [["1", "2"]])
wrong = asked("SELECT nothing FROM reads").get_data(as_text=True)
assert "SQL state: 42703\\nCharacter: 8" in wrong, wrong

get(f"/browser/database/obj/{of_database}")
for kind in "role", "tablespace":
    get(f"/browser/{kind}/nodes/{of_server}/")
for kind in "cast", "catalog", "event_trigger", "extension", "foreign_data_wrapper", "language", "publication", "subscription":
    get(f"/browser/{kind}/nodes/{of_database}/")
schema = nodes(f"/browser/schema/nodes/{of_database}/")["public"]
of_schema = f"{of_database}/{schema}"
get(f"/browser/schema/obj/{of_schema}")
KINDS = """aggregate collation domain foreign_table fts_configuration fts_dictionary fts_parser fts_template function mview operator
    procedure sequence trigger_function type view"""
for kind in KINDS.split():
    equal(nodes(f"/browser/{kind}/nodes/{of_schema}/"), {})
of_table = f"{of_schema}/{nodes(f'/browser/table/nodes/{of_schema}/')['reads']}"
table = get(f"/browser/table/obj/{of_table}")
equal([(column["name"], column["cltype"]) for column in table["columns"]],
      [("meter_id", "bigint"), ("ts", "timestamp without time zone"), ("v", "double precision")])
assert "PRIMARY KEY (meter_id, ts)" in get(f"/browser/table/sql/{of_table}")
equal(list(nodes(f"/browser/column/nodes/{of_table}/")), ["meter_id", "ts", "v"])
equal(list(nodes(f"/browser/primary_key/nodes/{of_table}/")), ["reads_pkey"])
for kind in "index", "unique_constraint", "foreign_key", "exclusion_constraint", "trigger", "rule", "row_security_policy":
    equal(nodes(f"/browser/{kind}/nodes/{of_table}/"), {})
for panel in "stats", "dependency", "dependent", "select_sql":
    get(f"/browser/table/{panel}/{of_table}")
equal(get(f"/browser/table/count_rows/{of_table}")["data"]["total_rows"], "2")

# "View data", whose rows can be edited because pgAdmin knows their key.
rows = session + 1
post(f"/sqleditor/initialize/viewdata/{rows}/3/table/{of_table.replace(f'/{schema}/', '/')}", user="me", password="any")
get(f"/sqleditor/view_data/start/{rows}")
shown = said(polled(rows))["data"]
equal(([len(row) for row in shown["result"]], list(shown["primary_keys"])), ([3, 3], ["meter_id", "ts"]))
for panel in "activity", "locks", "prepared":
    get(f"/dashboard/{panel}/{server}/{database}")
get(f"/dashboard/config/{server}")
print("all is well")
