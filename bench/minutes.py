"""Makes a lake whose slots are minutes of a past day out of one that was just shipped, so that it can be compacted: minutes.py LAKE OUT [--step N] [--changing].

Runs in the Python of crates/fleet/tools (DuckDB, pyarrow), so incoming files are written by another implementation of Parquet. Compacted files are Highwater's own.
--step takes each Nth slot. --changing takes only the sites whose figures change in at least half of the slots of their process, all as one service.
Prints as JSON, by service: processes, rows, and rows unlike the one of the slot before.
"""

import argparse
import datetime
import glob
import json
import os
import shutil

import duckdb
import pyarrow
import pyarrow.parquet

# 2025-11-17T12:00:00Z.
START = 1_763_380_800
COLUMNS = [
    ("slot", "BIGINT"), ("version", "VARCHAR"), ("region", "VARCHAR"), ("host", "VARCHAR"), ("pid", "INTEGER"), ("start", "TIMESTAMPTZ"),
    ("process_id", "BIGINT"), ("stack_id", "BIGINT"), ("site_id", "BIGINT"), ("sample_period", "BIGINT"), ("live_bytes", "BIGINT"),
    ("live_blocks", "BIGINT"), ("alloc_bytes", "BIGINT"), ("alloc_blocks", "BIGINT"), ("service", "VARCHAR"),
]
TYPES = {
    "BIGINT": pyarrow.int64(), "INTEGER": pyarrow.int32(), "VARCHAR": pyarrow.string(), "TIMESTAMPTZ": pyarrow.timestamp("us", tz="UTC"),
}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("lake")
    parser.add_argument("out")
    parser.add_argument("--step", type=int, default=1)
    parser.add_argument("--changing", action="store_true")
    options = parser.parse_args()
    database = duckdb.connect()
    database.execute("SET TimeZone = 'UTC'")
    incoming = glob.glob(f"{options.lake}/incoming/sites/*/*.parquet")
    names = ", ".join(name for name, _ in COLUMNS)
    database.execute(f"CREATE TABLE shipped AS SELECT {names} FROM read_parquet({incoming!r}, hive_partitioning = false)")
    database.execute("CREATE TABLE slots AS SELECT slot, row_number() OVER (ORDER BY slot) - 1 AS number FROM (SELECT DISTINCT slot FROM shipped)")
    database.execute(
        f"CREATE TABLE sites AS SELECT shipped.* REPLACE (CAST({START} + number // {options.step} * 60 AS BIGINT) AS slot) "
        f"FROM shipped JOIN slots USING (slot) WHERE number % {options.step} = 0"
    )
    # A row is like the one before if its process had the same figures at this stack one slot earlier.
    before = "WINDOW w AS (PARTITION BY process_id, stack_id, site_id ORDER BY slot)"
    is_like = "coalesce(lag(slot) OVER w = slot - 60 AND lag(live_bytes) OVER w = live_bytes AND lag(live_blocks) OVER w = live_blocks, false)"
    database.execute(f"CREATE TABLE compared AS SELECT *, {is_like} AS is_like FROM sites {before}")
    if options.changing:
        database.execute(
            "CREATE TABLE chosen AS SELECT process_id, stack_id, site_id FROM compared GROUP BY ALL "
            "HAVING count(*) * 2 >= (SELECT count(DISTINCT slot) FROM compared) AND count(*) FILTER (NOT is_like) * 2 >= count(*)"
        )
        database.execute("DELETE FROM compared WHERE (process_id, stack_id, site_id) NOT IN (SELECT (process_id, stack_id, site_id) FROM chosen)")
        database.execute("UPDATE compared SET service = 'changing'")
    counts = "count(DISTINCT process_id), count(*), count(*) FILTER (NOT is_like)"
    report = {row[0]: row[1:] for row in database.execute(f"SELECT service, {counts} FROM compared GROUP BY service ORDER BY service").fetchall()}
    shutil.rmtree(options.out, ignore_errors=True)
    os.makedirs(options.out)
    with open(f"{options.out}/lake.json", "w") as file:
        file.write('{"schema":1}')
    fields = [pyarrow.field(name, TYPES[kind], nullable=name.startswith("alloc_")) for name, kind in COLUMNS]
    schema = pyarrow.schema(fields)
    for (hour,) in database.execute("SELECT DISTINCT slot // 3600 FROM compared ORDER BY 1").fetchall():
        rows = database.execute(f"SELECT {names} FROM compared WHERE slot // 3600 = {hour} ORDER BY slot, process_id").fetch_arrow_table()
        columns = [rows.column(field.name).cast(field.type).combine_chunks() for field in fields]
        begin = datetime.datetime.fromtimestamp(hour * 3600, datetime.timezone.utc)
        folder = f"{options.out}/incoming/sites/day={begin:%Y-%m-%d}"
        os.makedirs(folder, exist_ok=True)
        table = pyarrow.Table.from_arrays(columns, schema=schema)
        pyarrow.parquet.write_table(table, f"{folder}/host-{begin:%H%M}-00.parquet", compression="zstd", store_schema=False)
    print(json.dumps(report))


main()
