-- A lake's compacted files as external tables of Trino (Hive connector) and Presto. Replace LAKE, such as s3://bucket/lake.
CREATE SCHEMA IF NOT EXISTS hive.highwater;
USE hive.highwater;
CREATE TABLE IF NOT EXISTS sites (
    slot bigint, version varchar, region varchar, host varchar, pid integer, start timestamp(6),
    process_id bigint, stack_id bigint, site_id bigint, sample_period bigint, live_bytes bigint,
    live_blocks bigint, alloc_bytes bigint, alloc_blocks bigint,
    day varchar, service varchar
) WITH (format = 'PARQUET', external_location = 'LAKE/sites', partitioned_by = ARRAY['day', 'service']);
CREATE TABLE IF NOT EXISTS sites_hour (
    hour bigint, version varchar, region varchar, host varchar, pid integer, start timestamp(6),
    process_id bigint, stack_id bigint, site_id bigint, sample_period bigint, n bigint, min_bytes bigint,
    max_bytes bigint, sum_bytes bigint, sum_blocks bigint, sx bigint, sxx bigint, sxy bigint, syy bigint,
    day varchar, service varchar
) WITH (format = 'PARQUET', external_location = 'LAKE/sites_hour', partitioned_by = ARRAY['day', 'service']);
CREATE TABLE IF NOT EXISTS processes (
    slot bigint, version varchar, region varchar, host varchar, container varchar, pid integer,
    start timestamp(6), process_id bigint, sample_period bigint, live_bytes bigint, live_blocks bigint,
    rss_bytes bigint, limit_bytes bigint,
    day varchar, service varchar
) WITH (format = 'PARQUET', external_location = 'LAKE/processes', partitioned_by = ARRAY['day', 'service']);
CREATE TABLE IF NOT EXISTS stack_files (
    stack_id bigint, site_id bigint, function varchar, type_name varchar, stack varchar,
    day varchar, service varchar
) WITH (format = 'PARQUET', external_location = 'LAKE/stacks', partitioned_by = ARRAY['day', 'service']);
CREATE TABLE IF NOT EXISTS frame_files (
    stack_id bigint, site_id bigint, depth integer, function varchar, file varchar, line integer,
    module varchar, build_id varchar,
    day varchar, service varchar
) WITH (format = 'PARQUET', external_location = 'LAKE/frames', partitioned_by = ARRAY['day', 'service']);
-- After each compaction, or once a day: finds new partitions.
CALL hive.system.sync_partition_metadata('highwater', 'sites', 'ADD');
CALL hive.system.sync_partition_metadata('highwater', 'sites_hour', 'ADD');
CALL hive.system.sync_partition_metadata('highwater', 'processes', 'ADD');
CALL hive.system.sync_partition_metadata('highwater', 'stack_files', 'ADD');
CALL hive.system.sync_partition_metadata('highwater', 'frame_files', 'ADD');
-- The same stack is in many files, one for each day and service. Questions join one row per site.
CREATE OR REPLACE VIEW stacks AS
SELECT site_id, min(function) AS function, max(type_name) AS type_name, min(stack) AS stack FROM stack_files GROUP BY site_id;
CREATE OR REPLACE VIEW frames AS
SELECT f.site_id AS site_id, f.depth AS depth, min(f.function) AS function, max(f.file) AS file, max(f.line) AS line,
       max(f.module) AS module, max(f.build_id) AS build_id
FROM frame_files f JOIN (SELECT site_id, min(stack_id) AS stack_id FROM frame_files GROUP BY site_id) c
     ON c.site_id = f.site_id AND c.stack_id = f.stack_id
GROUP BY f.site_id, f.depth;
