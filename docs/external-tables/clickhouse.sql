-- A lake's compacted files in ClickHouse, clickhouse-local and chdb. Replace LAKE by a folder; for s3://bucket/lake write s3('https://bucket.s3.amazonaws.com/lake/…')
-- instead of file(…). The service is taken from the path, and decoded.
CREATE OR REPLACE VIEW sites AS
SELECT *, extract(_path, '/day=([^/]*)/') AS day, decodeURLComponent(extract(_path, '/service=([^/]*)/')) AS service
FROM file('LAKE/sites/*/*/*.parquet', Parquet,
    'slot Int64, version String, region String, host String, pid Int32, start DateTime64(6, \'UTC\'), process_id Int64, stack_id Int64, site_id Int64, sample_period Int64, live_bytes Int64, live_blocks Int64, alloc_bytes Nullable(Int64), alloc_blocks Nullable(Int64)')
SETTINGS use_hive_partitioning = 0;
CREATE OR REPLACE VIEW sites_hour AS
SELECT *, extract(_path, '/day=([^/]*)/') AS day, decodeURLComponent(extract(_path, '/service=([^/]*)/')) AS service
FROM file('LAKE/sites_hour/*/*/*.parquet', Parquet,
    'hour Int64, version String, region String, host String, pid Int32, start DateTime64(6, \'UTC\'), process_id Int64, stack_id Int64, site_id Int64, sample_period Int64, n Int64, min_bytes Int64, max_bytes Int64, sum_bytes Int64, sum_blocks Int64, sx Int64, sxx Int64, sxy Nullable(Int64), syy Nullable(Int64)')
SETTINGS use_hive_partitioning = 0;
CREATE OR REPLACE VIEW processes AS
SELECT *, extract(_path, '/day=([^/]*)/') AS day, decodeURLComponent(extract(_path, '/service=([^/]*)/')) AS service
FROM file('LAKE/processes/*/*/*.parquet', Parquet,
    'slot Int64, version String, region String, host String, container String, pid Int32, start DateTime64(6, \'UTC\'), process_id Int64, sample_period Int64, live_bytes Int64, live_blocks Int64, rss_bytes Nullable(Int64), limit_bytes Nullable(Int64)')
SETTINGS use_hive_partitioning = 0;
CREATE OR REPLACE VIEW stack_files AS
SELECT *, extract(_path, '/day=([^/]*)/') AS day, decodeURLComponent(extract(_path, '/service=([^/]*)/')) AS service
FROM file('LAKE/stacks/*/*/*.parquet', Parquet,
    'stack_id Int64, site_id Int64, function String, type_name String, stack String')
SETTINGS use_hive_partitioning = 0;
CREATE OR REPLACE VIEW frame_files AS
SELECT *, extract(_path, '/day=([^/]*)/') AS day, decodeURLComponent(extract(_path, '/service=([^/]*)/')) AS service
FROM file('LAKE/frames/*/*/*.parquet', Parquet,
    'stack_id Int64, site_id Int64, depth Int32, function String, file String, line Int32, module String, build_id String')
SETTINGS use_hive_partitioning = 0;
-- The same stack is in many files, one for each day and service. Questions join one row per site.
CREATE OR REPLACE VIEW stacks AS
SELECT site_id, min(function) AS function, max(type_name) AS type_name, min(stack) AS stack FROM stack_files GROUP BY site_id;
CREATE OR REPLACE VIEW frames AS
SELECT f.site_id AS site_id, f.depth AS depth, min(f.function) AS function, max(f.file) AS file, max(f.line) AS line,
       max(f.module) AS module, max(f.build_id) AS build_id
FROM frame_files f JOIN (SELECT site_id, min(stack_id) AS stack_id FROM frame_files GROUP BY site_id) c
     ON c.site_id = f.site_id AND c.stack_id = f.stack_id
GROUP BY f.site_id, f.depth;
