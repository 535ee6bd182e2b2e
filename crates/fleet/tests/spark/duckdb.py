"""DuckDB's Python package as the other engine: reads requests, one a line, and writes answers. It shares no code with Highwater's engines."""

import decimal
import json
import math
import sys

import duckdb

TYPES = {"INTEGER": "INT", "VARCHAR": "STRING", "HUGEINT": "DECIMAL", "FLOAT": "DOUBLE"}


def quoted(text):
    return "'" + text.replace("'", "''") + "'"


def relation(table, kind):
    names = ", ".join(column["name"] for column in table["columns"])
    if not table[kind]:
        return "SELECT " + ", ".join(f"CAST(NULL AS {column['type']}) AS {column['name']}" for column in table["columns"]) + " WHERE false"
    paths = ", ".join(quoted(path) for path in table[kind])
    hive = "true, hive_types = {'day': VARCHAR, 'service': VARCHAR}" if kind == "compacted" else "false"
    return f"SELECT {names} FROM read_parquet([{paths}], hive_partitioning = {hive})"


def plain(value):
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, decimal.Decimal):
        return int(value) if value == value.to_integral_value() else str(value)
    return value


for line in sys.stdin:
    request = json.loads(line)
    database = duckdb.connect()
    database.execute("SET TimeZone = 'UTC'")
    for name, table in request["tables"].items():
        for kind in ("compacted", "incoming"):
            database.execute(f"CREATE VIEW {name}_{kind} AS {relation(table, kind)}")
    for name, text in request["views"].items():
        database.execute(f"CREATE VIEW {name} AS {text}")
    result = database.execute(request["sql"])
    columns = [{"name": column[0], "type": TYPES.get(str(column[1]), str(column[1]))} for column in result.description]
    rows = [[plain(value) for value in row] for row in result.fetchall()]
    print(json.dumps({"columns": columns, "rows": rows}), flush=True)
