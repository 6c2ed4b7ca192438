"""Runs what Django's ORM does over psycopg: existing tables as unmanaged models, with times of type TIMESTAMP or TIMESTAMPTZ."""
import contextlib
import datetime
import io
import sys

import django
from django.conf import settings

times, port = sys.argv[1:]
zone = "Europe/Berlin" if times == "TIMESTAMPTZ" else None
database = {"ENGINE": "django.db.backends.postgresql", "HOST": "127.0.0.1", "PORT": port, "NAME": "fleetdb", "USER": "me"}
auto = "django.db.models.BigAutoField"
settings.configure(DATABASES={"default": database}, USE_TZ=zone is not None, TIME_ZONE=zone or "UTC", DEFAULT_AUTO_FIELD=auto)
django.setup()

from django.core.management import call_command
from django.db import connection, models, transaction
from django.db.models import Avg, Case, Count, Exists, F, Max, OuterRef, Q, Subquery, Sum, Value, When, Window
from django.db.models.functions import Cast, Coalesce, Concat, ExtractHour, Lag, Round, RowNumber, TruncHour


def equal(found, expected):
    assert found == expected, f"{found!r} is not {expected!r}"


class Meter(models.Model):
    id = models.BigIntegerField(primary_key=True)
    place = models.TextField(null=True)
    kw = models.FloatField(null=True)
    live = models.BooleanField(null=True)

    class Meta:
        app_label, db_table, managed = "fleet", "meters", False


class Read(models.Model):
    pk = models.CompositePrimaryKey("meter_id", "ts")
    meter = models.ForeignKey(Meter, models.DO_NOTHING, related_name="reads")
    ts = models.DateTimeField()
    v = models.FloatField(null=True)

    class Meta:
        app_label, db_table, managed = "fleet", "reads", False


def minute(number):
    begin = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc if zone else None)
    return begin + datetime.timedelta(minutes=number)


def writes():
    Meter.objects.create(id=1, place="cellar", kw=1.5, live=True)
    # Django 5.2 sends one array per column, which unnest() turns into rows.
    Meter.objects.bulk_create(Meter(id=number, place=f"p{number}", kw=number / 2, live=number % 2 == 0) for number in range(2, 50))
    Read.objects.bulk_create(Read(meter_id=meter, ts=minute(10 * number), v=meter * number) for meter in range(1, 10) for number in range(50))
    changed = [Meter(id=2, place="q2"), Meter(id=77, place="new")]
    Meter.objects.bulk_create(changed, update_conflicts=True, update_fields=["place"], unique_fields=["id"])
    Meter.objects.bulk_create([Meter(id=3, place="no")], ignore_conflicts=True)
    equal(list(Meter.objects.filter(id__in=[2, 3, 77]).order_by("id").values_list("place", "kw")), [("q2", 1.0), ("p3", 1.5), ("new", None)])
    meter = Meter.objects.get(pk=3)
    meter.kw = 9.5
    meter.save()
    Meter.objects.filter(id__lte=3).update(kw=F("kw") + 1)
    Meter.objects.bulk_update([Meter(id=4, kw=100.0), Meter(id=5, kw=200.0)], ["kw"])
    equal(list(Meter.objects.filter(id__lte=5).order_by("id").values_list("kw", flat=True)), [2.5, 2.0, 10.5, 100.0, 200.0])
    equal(Meter.objects.update_or_create(id=77, defaults={"kw": 1.0})[1], False)
    equal(Meter.objects.get_or_create(id=78, defaults={"kw": 2.0})[1], True)
    with transaction.atomic():
        Meter.objects.create(id=200)
        with contextlib.suppress(ValueError), transaction.atomic():
            Meter.objects.create(id=201)
            raise ValueError
    equal(list(Meter.objects.filter(id__gte=200).values_list("id", flat=True)), [200])
    equal(Meter.objects.filter(id__gte=77).delete()[0], 3)


def reads():
    equal(Meter.objects.filter(place__icontains="Q").count(), 1)
    equal(Read.objects.filter(ts__range=(minute(0), minute(60))).count(), 9 * 7)
    equal(Read.objects.filter(ts__date=datetime.date(2026, 1, 1), ts__hour=3).count(), 9 * 6)
    sums = Read.objects.aggregate(a=Avg("v"), m=Max("ts"), s=Sum("v", filter=Q(v__gt=440)))
    equal(sums, {"a": 122.5, "m": minute(490), "s": 441.0})
    hours = Read.objects.annotate(hour=TruncHour("ts")).values("hour").annotate(a=Avg("v"), n=Count("v")).order_by("hour")
    equal(hours[1], {"hour": minute(60), "a": 42.5, "n": 54})
    equal(Read.objects.annotate(hour=ExtractHour("ts")).values("hour").annotate(a=Avg("v")).order_by("hour")[0], {"hour": 1 if zone else 0, "a": 12.5})
    equal([read.meter.place for read in Read.objects.select_related("meter").order_by("meter_id", "ts")[:2]], ["cellar", "cellar"])
    equal([len(meter.reads.all()) for meter in Meter.objects.prefetch_related("reads").filter(id__in=[9, 10]).order_by("id")], [50, 0])
    rises = Read.objects.filter(meter_id=2).annotate(rise=F("v") - Window(Lag("v"), order_by=F("ts").asc()))
    equal([read.rise for read in rises.order_by("ts")[:3]], [None, 2.0, 2.0])
    newest = Read.objects.annotate(place=Window(RowNumber(), partition_by=[F("meter_id")], order_by=F("ts").desc())).filter(place=1)
    equal(newest.count(), 9)
    equal([read.v for read in Read.objects.order_by("meter_id", "-ts").distinct("meter_id")[:2]], [49.0, 98.0])
    last = Subquery(Read.objects.filter(meter_id=OuterRef("id")).order_by("-ts").values("v")[:1])
    equal(list(Meter.objects.filter(id__in=[1, 2, 10]).annotate(last=last).order_by("id").values_list("last", flat=True)), [49.0, 98.0, None])
    equal(Meter.objects.filter(Exists(Read.objects.filter(meter_id=OuterRef("id")))).count(), 9)
    size = Case(When(kw__gt=50, then=Value("big")), default=Value("small"))
    equal(list(Meter.objects.annotate(size=size).values("size").annotate(n=Count("id")).order_by("size").values_list("size", "n")), [("big", 2), ("small", 47)])
    named = Concat("place", Value("-"), Cast("id", models.TextField()), output_field=models.TextField())
    equal(Meter.objects.annotate(named=named, rounded=Round("kw", 0), some=Coalesce("kw", 0.0)).values_list("named", "rounded").get(id=7), ("p7-7", 4.0))
    equal(sum(1 for _ in Read.objects.iterator(chunk_size=100)), 450)
    equal(sorted(Meter.objects.in_bulk([1, 2])), [1, 2])


with connection.cursor() as cursor:
    cursor.execute("CREATE TABLE meters (id BIGINT PRIMARY KEY, place TEXT, kw DOUBLE PRECISION, live BOOLEAN)")
    cursor.execute(f"CREATE TABLE reads (meter_id BIGINT, ts {times}, v DOUBLE PRECISION, PRIMARY KEY (meter_id, ts))")
writes()
reads()
with contextlib.redirect_stdout(io.StringIO()) as inspected:
    call_command("inspectdb")
assert "pk = models.CompositePrimaryKey('meter_id', 'ts')" in inspected.getvalue(), inspected.getvalue()
print("all is well")
