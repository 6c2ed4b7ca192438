"""Sends rows as agents do, as lines over TCP and UDP and with the clients of InfluxDB 1 and 2, and compares what has arrived.

Arguments: the ports of the PostgreSQL wire, of HTTP, and of lines over TCP and UDP.
"""
import socket
import sys

from common import connect, equal, until_equal
from influxdb import InfluxDBClient
from influxdb.exceptions import InfluxDBClientError
from influxdb_client import InfluxDBClient as InfluxDBClient2
from influxdb_client import Point
from influxdb_client.client.write_api import SYNCHRONOUS
from influxdb_client.rest import ApiException

http, line_tcp, line_udp = (int(port) for port in sys.argv[2:])

with connect() as db:
    with socket.create_connection(("127.0.0.1", line_tcp)) as lines:
        lines.sendall(b"tcp,host=a v=1 1\ntcp,host=a v=2 2\nwrong\ntcp,host=b v=3 3")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as lines:
        lines.sendto(b"udp,host=a v=1 1\nudp,host=a v=2 2", ("127.0.0.1", line_udp))
    until_equal(db, "SELECT count(*) FROM tcp", (3,))
    until_equal(db, "SELECT count(*) FROM udp", (2,))
    one = InfluxDBClient("127.0.0.1", http, "user", "password", "fleet")
    one.create_database("fleet")
    equal(one.ping(), "1.8-compatible")
    point = {"measurement": "v1", "tags": {"host": "a"}, "time": "2026-01-01T00:00:00Z", "fields": {"x": 1.5, "n": 3}}
    equal(one.write_points([point]), True)
    try:
        one.write(["v1,host=a x=bad 1"], params={"db": "fleet"}, protocol="line")
        raise AssertionError("a wrong line was taken")
    except InfluxDBClientError as error:
        assert "line 1, column 13" in str(error), error
    for packed in (False, True):
        two = InfluxDBClient2(url=f"http://127.0.0.1:{http}", token="any", org="any", enable_gzip=packed)
        equal((two.ping(), two.health().status), (True, "pass"))
        writer = two.write_api(write_options=SYNCHRONOUS)
        writer.write("bucket", "org", [Point("v2").tag("host", str(packed)).field("x", 1.0).time(1)])
        try:
            writer.write("bucket", "org", "v2,host=a x=bad")
            raise AssertionError("a wrong line was taken")
        except ApiException as error:
            equal(error.status, 400)
    equal(db.execute("SELECT x, n FROM v1").fetchall(), [(1.5, 3)])
    equal(db.execute("SELECT count(*) FROM v2").fetchone(), (2,))
print("all is well")
