"""Runs one question of `highwater fleet` on Spark.

Reads a request (JSON) from a file or standard input, and writes the answer (JSON, one line). `crates/fleet/src/protocol.rs` has the fields:

    {"tables": {"sites": {"columns": [{"name": "slot", "type": "BIGINT"}, …], "compacted": ["/lake/sites/day=…/service=…/….parquet"], "incoming": […]}, …},
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
import threading

# What the answers rest on. A user's own settings cannot change these.
FIXED = {
    # service=007 is a name, not the number 7.
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    # A sum that overflows is an error, never a wrong figure.
    "spark.sql.ansi.enabled": "true",
    # A text means the same as in the embedded engine: backslashes and ${…} are ordinary characters.
    "spark.sql.parser.escapedStringLiterals": "true",
    "spark.sql.variable.substitute": "false",
    # Questions are about the lake, not about other files.
    "spark.sql.runSQLOnFiles": "false",
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


# Types of the lake's columns.
COLUMN_TYPES = ("BIGINT", "INT", "STRING", "TIMESTAMP")

# Spark counts the rows of an answer in 32 bits.
MOST_ROWS = 2**31 - 2


class RequestError(Exception):
    """A request that cannot be run, in one line."""


def is_list(value, kind):
    return isinstance(value, list) and all(isinstance(part, kind) for part in value)


def is_name(value):
    return isinstance(value, str) and re.fullmatch(r"[a-z_][a-z0-9_]*", value) is not None


def read_request(text):
    """The request, checked: nothing in it but `sql` and the texts of views reaches Spark's parser."""
    try:
        request = json.loads(text)
    except ValueError as error:
        raise RequestError(f"the request is not JSON: {error}") from None
    if not isinstance(request, dict) or not isinstance(request.get("sql"), str):
        raise RequestError("the request has no 'sql'")
    if not isinstance(request.get("base"), str) or not isinstance(request.get("tables"), dict):
        raise RequestError("the request has no 'base' or no 'tables'")
    for name, table in request["tables"].items():
        if not is_name(name) or not isinstance(table, dict):
            raise RequestError(f"'{name}' is no table")
        columns = table.get("columns")
        if not is_list(columns, dict) or not all(is_name(column.get("name")) and column.get("type") in COLUMN_TYPES for column in columns):
            raise RequestError(f"the table '{name}' has columns that cannot be")
        for kind in ("compacted", "incoming"):
            if not is_list(table.get(kind), str):
                raise RequestError(f"'{kind}' of the table '{name}' is not a list of paths")
    views = request.setdefault("views", {})
    if not isinstance(views, dict) or not all(is_name(name) and isinstance(text, str) for name, text in views.items()):
        raise RequestError("'views' is not a list of texts by name")
    for name in ("max_rows", "seconds"):
        value = request.setdefault(name, 0 if name == "seconds" else MOST_ROWS)
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise RequestError(f"'{name}' is not a number")
    return request


def literal_path(path):
    """A path as Spark reads it: its patterns would otherwise be expanded."""
    return re.sub(r"([\\{}\[\]*?])", r"\\\1", path)


def relation(spark, base, name, table, kind):
    """The rows of the compacted or the incoming files of a table."""
    # Explicit schemas: Spark reads no footer to guess them, and a file with other types is an error. The day is in all paths, the service in those of
    # compacted files.
    columns = [(column["name"], column["type"]) for column in table["columns"]]
    folder = f"{base}/{name}" if kind == "compacted" else f"{base}/incoming/{name}"
    partitions = ("day", "service") if kind == "compacted" else ("day",)
    in_files = [(name, kind) for name, kind in columns if name not in partitions]
    schema = ", ".join(f"`{name}` {kind}" for name, kind in in_files + [(name, "STRING") for name in partitions])
    paths = [literal_path(path) for path in table[kind]]
    frame = spark.read.schema(schema).option("basePath", folder).parquet(*paths) if paths else spark.createDataFrame([], schema)
    if kind == "compacted":
        # Spark takes each %XX of a path for a character, though several of them are one in UTF-8. All characters but ASCII are escaped in paths.
        frame = frame.selectExpr("* EXCEPT (service)", "decode(encode(service, 'ISO-8859-1'), 'UTF-8') AS service")
    return frame.select(*[name for name, _ in columns])


def create_views(spark, request):
    """`TABLE_compacted` and `TABLE_incoming` of each table, and the request's own views over them."""
    base = request["base"].rstrip("/")
    for name, table in request["tables"].items():
        for kind in ("compacted", "incoming"):
            relation(spark, base, name, table, kind).createOrReplaceTempView(f"{name}_{kind}")
    for name, text in request["views"].items():
        query(spark, text).createOrReplaceTempView(name)


def query(spark, text):
    """The rows of a SELECT. Inside parentheses nothing else is one: no command, no second statement."""
    return spark.sql(f"SELECT * FROM (\n{text.strip().rstrip(';')}\n) AS question")


def plain_column(column, kind):
    """A column in the form that answers have. Spark writes times in its session's zone; Python would use the machine's."""
    from pyspark.sql import functions

    if kind == "timestamp":
        return functions.date_format(column, "yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'")
    if kind == "timestamp_ntz":
        return functions.date_format(column, "yyyy-MM-dd'T'HH:mm:ss.SSSSSS")
    return column


def type_name(kind):
    """The type's name in answers."""
    if kind.startswith("decimal"):
        return "DECIMAL"
    return {"timestamp_ntz": "TIMESTAMP", "float": "DOUBLE", "smallint": "INT", "tinyint": "INT"}.get(kind, kind.upper())


def plain(value):
    """A value as JSON has it. Integers stay exact; a double that JSON does not have is null."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, decimal.Decimal) and value == value.to_integral_value() and -(2**63) <= value < 2**63:
        return int(value)
    return str(value)


def answer(spark, request):
    """The answer to a checked request, as a dictionary."""
    for name, value in FIXED.items():
        spark.conf.set(name, value)
    create_views(spark, request)
    frame = query(spark, request["sql"])
    # Not by name: two columns may have the same.
    kinds = [field.dataType.simpleString() for field in frame.schema.fields]
    names = [field.name for field in frame.schema.fields]
    frame = frame.toDF(*[f"c{number}" for number in range(len(names))])
    frame = frame.select(*[plain_column(frame[f"c{number}"], kind) for number, kind in enumerate(kinds)])
    most = min(request["max_rows"], MOST_ROWS)
    rows = [[plain(value) for value in row] for row in frame.limit(most + 1).collect()]
    result = {"columns": [{"name": name, "type": type_name(kind)} for name, kind in zip(names, kinds)], "rows": rows[:most]}
    if len(rows) > most:
        result["truncated"] = True
    return result


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
        # Settings of spark-submit stay, unless they are set again here.
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


def read_settings(texts):
    """Settings of Spark from the command line."""
    settings = {}
    for text in texts:
        name, found, value = text.partition("=")
        if not found or not name.startswith("spark."):
            raise RequestError(f"'{text}' is not a setting such as spark.executor.memory=2g")
        settings[name] = value
    return settings


def requests(options):
    """The texts of the requests."""
    try:
        if options.lines:
            for line in sys.stdin.buffer:
                yield line.decode("utf-8")
        elif options.request == "-":
            yield sys.stdin.buffer.read().decode("utf-8")
        else:
            with open(options.request, encoding="utf-8") as file:
                yield file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise RequestError(f"the request cannot be read: {error}") from None


def main():
    parser = argparse.ArgumentParser(prog="highwater_spark", description="Runs one question of 'highwater fleet' on Spark.")
    parser.add_argument("request", nargs="?", default="-", help="the request, a JSON file; standard input without it")
    parser.add_argument("--lines", action="store_true", help="each line of standard input is a request, all in one session")
    parser.add_argument("--master", help="spark://HOST:PORT, local[*], yarn …; spark-submit has its own")
    parser.add_argument("--conf", action="append", default=[], metavar="KEY=VALUE", help="a setting of Spark; may be repeated")
    parser.add_argument("--output", metavar="FILE", help="write the answer to a file instead of standard output")
    options = parser.parse_args()
    # The Java machine inherits standard output: the answer gets a descriptor of its own, and whatever else is printed goes to standard error.
    out = open(options.output or os.dup(1), "w", encoding="utf-8", errors="replace")
    os.dup2(2, 1)

    def write(result):
        out.write(json.dumps(result, ensure_ascii=False, allow_nan=False, separators=(",", ":")) + "\n")
        out.flush()

    def give_up(seconds):
        write({"error": f"no answer within {seconds} seconds"})
        # The Java machine ends too: it waits for the end of its input.
        os._exit(1)

    spark = timer = None
    failed = False
    texts = requests(options)
    while True:
        try:
            text = next(texts, None)
            if text is None:
                break
            request = read_request(text)
            if request["seconds"]:
                timer = threading.Timer(request["seconds"], give_up, [request["seconds"]])
                timer.daemon = True
                timer.start()
            spark = spark or session(options.master, read_settings(options.conf))
            result = answer(spark, request)
        except KeyboardInterrupt:
            result = {"error": "interrupted"}
        except Exception as error:  # Spark has a hundred kinds of them; each is one line for the user.
            result = {"error": one_line(error)}
        if timer is not None:
            timer.cancel()
        failed = "error" in result
        write(result)
        if result.get("error") == "interrupted":
            break
    if spark is not None:
        spark.stop()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
