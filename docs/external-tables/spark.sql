-- A lake's compacted files as external tables of Spark, Databricks, EMR and Dataproc. Replace LAKE, such as s3://bucket/lake.
-- Types of partition columns are given: Spark would make service=007 the number 7.
CREATE TABLE IF NOT EXISTS sites (
    slot BIGINT, version STRING, region STRING, host STRING, pid INT, start TIMESTAMP, process_id BIGINT,
    stack_id BIGINT, site_id BIGINT, sample_period BIGINT, live_bytes BIGINT, live_blocks BIGINT,
    alloc_bytes BIGINT, alloc_blocks BIGINT,
    day STRING, service STRING
) USING PARQUET PARTITIONED BY (day, service) LOCATION 'LAKE/sites';
CREATE TABLE IF NOT EXISTS sites_hour (
    hour BIGINT, version STRING, region STRING, host STRING, pid INT, start TIMESTAMP, process_id BIGINT,
    stack_id BIGINT, site_id BIGINT, sample_period BIGINT, n BIGINT, min_bytes BIGINT, max_bytes BIGINT,
    sum_bytes BIGINT, sum_blocks BIGINT, sx BIGINT, sxx BIGINT, sxy BIGINT, syy BIGINT,
    day STRING, service STRING
) USING PARQUET PARTITIONED BY (day, service) LOCATION 'LAKE/sites_hour';
CREATE TABLE IF NOT EXISTS processes (
    slot BIGINT, version STRING, region STRING, host STRING, container STRING, pid INT, start TIMESTAMP,
    process_id BIGINT, sample_period BIGINT, live_bytes BIGINT, live_blocks BIGINT, rss_bytes BIGINT,
    limit_bytes BIGINT,
    day STRING, service STRING
) USING PARQUET PARTITIONED BY (day, service) LOCATION 'LAKE/processes';
CREATE TABLE IF NOT EXISTS stack_files (
    stack_id BIGINT, site_id BIGINT, function STRING, type_name STRING, stack STRING,
    day STRING, service STRING
) USING PARQUET PARTITIONED BY (day, service) LOCATION 'LAKE/stacks';
CREATE TABLE IF NOT EXISTS frame_files (
    stack_id BIGINT, site_id BIGINT, depth INT, function STRING, file STRING, line INT, module STRING,
    build_id STRING,
    day STRING, service STRING
) USING PARQUET PARTITIONED BY (day, service) LOCATION 'LAKE/frames';
-- After each compaction, or once a day: finds new partitions.
ALTER TABLE sites RECOVER PARTITIONS;
ALTER TABLE sites_hour RECOVER PARTITIONS;
ALTER TABLE processes RECOVER PARTITIONS;
ALTER TABLE stack_files RECOVER PARTITIONS;
ALTER TABLE frame_files RECOVER PARTITIONS;
-- The same stack is in many files, one for each day and service. Questions join one row per site.
CREATE OR REPLACE VIEW stacks AS
SELECT site_id, min(function) AS function, max(type_name) AS type_name, min(stack) AS stack FROM stack_files GROUP BY site_id;
CREATE OR REPLACE VIEW frames AS
SELECT f.site_id AS site_id, f.depth AS depth, min(f.function) AS function, max(f.file) AS file, max(f.line) AS line,
       max(f.module) AS module, max(f.build_id) AS build_id
FROM frame_files f JOIN (SELECT site_id, min(stack_id) AS stack_id FROM frame_files GROUP BY site_id) c
     ON c.site_id = f.site_id AND c.stack_id = f.stack_id
GROUP BY f.site_id, f.depth;
