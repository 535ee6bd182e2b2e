"""Runs one question of `highwater fleet` on Spark.

Reads a request (JSON) from a file or standard input, and writes the answer (JSON, one line):

    {"tables": {"sites": {"compacted": ["/lake/sites/day=…/service=…/….parquet"], "incoming": […]}, …},
     "base": "/lake", "views": {"name": "SELECT …"}, "sql": "SELECT …", "max_rows": 1000}

    {"columns": [{"name": "site_id", "type": "BIGINT"}], "rows": [[1]]}   or   {"error": "one line"}

This is one file without dependencies but pyspark, so that all of these run it:

    python -m highwater_spark --master spark://HOST:7077 request.json
    spark-submit --master yarn highwater_spark/__main__.py request.json
    highwater fleet … --engine spark --master spark://HOST:7077
"""

import argparse
import decimal
import json
import math
import os
import re
import socket
import sys

# Columns in the order of the files. Explicit schemas: Spark reads no footer to guess them, and a file with other types is an error.
LABELS = "version STRING, region STRING, host STRING"
PROCESS = "pid INT, start TIMESTAMP, process_id BIGINT"
SCHEMAS = {
    "sites": f"slot BIGINT, {LABELS}, {PROCESS}, stack_id BIGINT, site_id BIGINT, sample_period BIGINT, "
    "live_bytes BIGINT, live_blocks BIGINT, alloc_bytes BIGINT, alloc_blocks BIGINT",
    "sites_hour": f"hour BIGINT, {LABELS}, {PROCESS}, stack_id BIGINT, site_id BIGINT, sample_period BIGINT, n BIGINT, "
    "min_bytes BIGINT, max_bytes BIGINT, sum_bytes BIGINT, sum_blocks BIGINT, sx BIGINT, sxx BIGINT, sxy BIGINT, syy BIGINT",
    "processes": f"slot BIGINT, {LABELS}, container STRING, {PROCESS}, sample_period BIGINT, live_bytes BIGINT, "
    "live_blocks BIGINT, rss_bytes BIGINT, limit_bytes BIGINT",
    "stacks": "stack_id BIGINT, site_id BIGINT, function STRING, type_name STRING, stack STRING",
    "frames": "stack_id BIGINT, site_id BIGINT, depth INT, function STRING, file STRING, line INT, module STRING, build_id STRING",
}

# What the answers rest on. A user's own settings cannot change these.
FIXED = {
    # service=007 is a name, not the number 7.
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    # A sum that overflows is an error, never a wrong figure.
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "false",
    "spark.sql.parquet.enableVectorizedReader": "true",
}

# What suits most lakes. Each can be replaced by --conf.
DEFAULTS = {
    "spark.app.name": "highwater fleet",
    "spark.sql.shuffle.partitions": "4",
    # Compacted files are small and dense: with the usual 128 MB, two tasks would read a whole lake.
    "spark.sql.files.maxPartitionBytes": "16m",
    # The files are listed already.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "10000",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


class RequestError(Exception):
    """A request that cannot be run, in one line."""


def read_request(text):
    """The request, checked as far as the rest depends on it."""
    try:
        request = json.loads(text)
    except ValueError as error:
        raise RequestError(f"the request is not JSON: {error}") from None
    if not isinstance(request, dict) or not isinstance(request.get("sql"), str):
        raise RequestError("the request has no 'sql'")
    if not isinstance(request.get("base"), str) or not isinstance(request.get("tables"), dict):
        raise RequestError("the request has no 'base' or no 'tables'")
    for name, files in request["tables"].items():
        if name not in SCHEMAS:
            raise RequestError(f"unknown table '{name}'")
        for kind in ("compacted", "incoming"):
            paths = files.get(kind, []) if isinstance(files, dict) else None
            if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths):
                raise RequestError(f"'{kind}' of table '{name}' is not a list of paths")
    views = request.get("views") or {}
    if not isinstance(views, dict) or not all(isinstance(text, str) for text in views.values()):
        raise RequestError("'views' is not a list of texts by name")
    for name in views:
        if not re.fullmatch(r"[a-z_][a-z0-9_]*", name):
            raise RequestError(f"a view cannot be named '{name}'")
    limit = request.get("max_rows")
    if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 0):
        raise RequestError("'max_rows' is not a number")
    return request


def literal_path(path):
    """A path as Spark reads it: its patterns would otherwise be expanded."""
    return re.sub(r"([\\{}\[\]*?])", r"\\\1", path)


def file_view(spark, table, kind, base, paths):
    """The rows of the compacted or the incoming files of a table, with `day` and `service` last."""
    # Compacted files have the service in their path only, incoming ones as their last column.
    columns = SCHEMAS[table]
    if kind == "compacted":
        columns, folder = f"{columns}, day STRING, service STRING", f"{base}/{table}"
    else:
        columns, folder = f"{columns}, service STRING, day STRING", f"{base}/incoming/{table}"
    if not paths:
        frame = spark.createDataFrame([], columns)
    else:
        reader = spark.read.schema(columns).option("basePath", folder)
        frame = reader.parquet(*[literal_path(path) for path in paths])
    names = [column for column in frame.columns if column not in ("day", "service")]
    return frame.select(*names, "day", "service")


def create_views(spark, request):
    """`TABLE_compacted` and `TABLE_incoming` of each table, and the request's own views over them, in its order."""
    base = request["base"].rstrip("/")
    for table in SCHEMAS:
        files = request["tables"].get(table, {})
        for kind in ("compacted", "incoming"):
            frame = file_view(spark, table, kind, base, files.get(kind, []))
            frame.createOrReplaceTempView(f"{table}_{kind}")
    for name, text in (request.get("views") or {}).items():
        spark.sql(text).createOrReplaceTempView(name)


TYPES = {"tinyint": "TINYINT", "smallint": "SMALLINT", "int": "INTEGER", "bigint": "BIGINT", "float": "FLOAT", "double": "DOUBLE",
         "string": "VARCHAR", "boolean": "BOOLEAN", "date": "DATE", "timestamp": "TIMESTAMP WITH TIME ZONE", "timestamp_ntz": "TIMESTAMP"}


def type_name(kind):
    """The type's name, as the embedded engine calls it."""
    text = kind.simpleString()
    return TYPES.get(text, text.upper())


def plain(value):
    """A value as JSON has it. Integers stay exact; a double that JSON does not have is null."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, decimal.Decimal) and value == value.to_integral_value():
        return int(value)
    return str(value)


def answer(spark, request):
    """The answer to a checked request, as a dictionary."""
    for name, value in FIXED.items():
        spark.conf.set(name, value)
    create_views(spark, request)
    frame = spark.sql(request["sql"])
    limit = request.get("max_rows")
    # Spark writes times as text in its session's zone; in Python they would be in the machine's.
    texts = [column.cast("string") if kind in ("date", "timestamp", "timestamp_ntz") else column
             for column, kind in ((frame[f"`{name}`"], kind) for name, kind in frame.dtypes)]
    rows = frame.select(*texts)
    rows = (rows if limit is None else rows.limit(limit + 1)).collect()
    if limit is not None and len(rows) > limit:
        raise RequestError(f"more than {limit} rows: add a LIMIT")
    columns = [{"name": field.name, "type": type_name(field.dataType)} for field in frame.schema.fields]
    return {"columns": columns, "rows": [[plain(value) for value in row] for row in rows]}


def reach(master):
    """Fails if no master listens at a `spark://` address: Spark itself would try for a minute, and then print a stack trace."""
    if not master.startswith("spark://"):
        return
    reasons = []
    for place in master[len("spark://"):].split(","):
        host, found, port = place.rpartition(":")
        if not found or not port.isdigit():
            raise RequestError(f"'{master}' is not an address such as spark://HOST:7077")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
            return
        except (OSError, OverflowError) as error:
            reasons.append(str(error))
    raise RequestError(f"no Spark master at {master}: {reasons[-1]}")


def session(master, settings):
    """A session on the given master, or on the one of `spark-submit`."""
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise RequestError("pyspark is not installed for this Python: pip install pyspark==4.3.0") from None
    wanted = dict(DEFAULTS)
    if master:
        reach(master)
        wanted["spark.master"] = master
        if master.startswith("local") or re.match(r"spark://(127\.|localhost)", master):
            # Nothing listens beyond this machine.
            wanted["spark.driver.bindAddress"] = wanted["spark.driver.host"] = "127.0.0.1"
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    wanted.update(settings)
    wanted.update(FIXED)
    builder = SparkSession.builder
    for name, value in wanted.items():
        # What spark-submit was told stays, unless it is said again here.
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def one_line(error):
    """The first line of what Spark says, without its stack trace."""
    text = str(error).strip() or type(error).__name__
    # A failed task: the reason stands after the last 'Caused by'.
    causes = re.findall(r"^Caused by: (?:[\w.$]+: )?(.+)$", text, re.MULTILINE)
    line = causes[-1] if causes else text.splitlines()[0]
    return " ".join(line.split())[:500]


def main():
    parser = argparse.ArgumentParser(prog="highwater_spark", description="Runs one question of 'highwater fleet' on Spark.")
    parser.add_argument("request", nargs="?", default="-", help="the request, a JSON file; standard input without it")
    parser.add_argument("--master", help="spark://HOST:PORT, local[*], yarn …; spark-submit has its own")
    parser.add_argument("--conf", action="append", default=[], metavar="KEY=VALUE", help="a setting of Spark; may be repeated")
    parser.add_argument("--output", metavar="FILE", help="write the answer to a file instead of standard output")
    options = parser.parse_args()
    # The Java machine inherits standard output: the answer gets a descriptor of its own, and whatever else is printed goes to standard error.
    out = os.dup(1)
    os.dup2(2, 1)
    spark = None
    try:
        settings = {}
        for setting in options.conf:
            name, found, value = setting.partition("=")
            if not found or not name.startswith("spark."):
                raise RequestError(f"'{setting}' is not a setting such as spark.executor.memory=2g")
            settings[name] = value
        try:
            if options.request == "-":
                text = sys.stdin.buffer.read().decode("utf-8")
            else:
                with open(options.request, encoding="utf-8") as file:
                    text = file.read()
        except (OSError, UnicodeDecodeError) as error:
            raise RequestError(f"the request cannot be read: {error}") from None
        request = read_request(text)
        spark = session(options.master, settings)
        result = answer(spark, request)
    except KeyboardInterrupt:
        result = {"error": "interrupted"}
    except Exception as error:  # Spark has a hundred kinds of them; each is one line for the user.
        result = {"error": one_line(error)}
    line = json.dumps(result, ensure_ascii=False, allow_nan=False, separators=(",", ":")) + "\n"
    if options.output:
        with open(options.output, "w", encoding="utf-8") as file:
            file.write(line)
    else:
        with os.fdopen(out, "w", encoding="utf-8") as file:
            file.write(line)
    if spark is not None:
        spark.stop()
    sys.exit(1 if "error" in result else 0)


if __name__ == "__main__":
    main()
