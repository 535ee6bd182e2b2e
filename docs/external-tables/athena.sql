-- A lake's compacted files as external tables of Athena and Hive. Replace LAKE, such as s3://bucket/lake.
-- Services are percent-encoded in paths: MSCK REPAIR decodes them, partition projection would not.
CREATE EXTERNAL TABLE sites (
    `slot` bigint, `version` string, `region` string, `host` string, `pid` int, `start` timestamp,
    `process_id` bigint, `stack_id` bigint, `site_id` bigint, `sample_period` bigint, `live_bytes` bigint,
    `live_blocks` bigint, `alloc_bytes` bigint, `alloc_blocks` bigint
) PARTITIONED BY (`day` string, `service` string)
STORED AS PARQUET LOCATION 'LAKE/sites/';
CREATE EXTERNAL TABLE sites_hour (
    `hour` bigint, `version` string, `region` string, `host` string, `pid` int, `start` timestamp,
    `process_id` bigint, `stack_id` bigint, `site_id` bigint, `sample_period` bigint, `n` bigint,
    `min_bytes` bigint, `max_bytes` bigint, `sum_bytes` bigint, `sum_blocks` bigint, `sx` bigint,
    `sxx` bigint, `sxy` bigint, `syy` bigint
) PARTITIONED BY (`day` string, `service` string)
STORED AS PARQUET LOCATION 'LAKE/sites_hour/';
CREATE EXTERNAL TABLE processes (
    `slot` bigint, `version` string, `region` string, `host` string, `container` string, `pid` int,
    `start` timestamp, `process_id` bigint, `sample_period` bigint, `live_bytes` bigint,
    `live_blocks` bigint, `rss_bytes` bigint, `limit_bytes` bigint
) PARTITIONED BY (`day` string, `service` string)
STORED AS PARQUET LOCATION 'LAKE/processes/';
CREATE EXTERNAL TABLE stack_files (
    `stack_id` bigint, `site_id` bigint, `function` string, `type_name` string, `stack` string
) PARTITIONED BY (`day` string, `service` string)
STORED AS PARQUET LOCATION 'LAKE/stacks/';
CREATE EXTERNAL TABLE frame_files (
    `stack_id` bigint, `site_id` bigint, `depth` int, `function` string, `file` string, `line` int,
    `module` string, `build_id` string
) PARTITIONED BY (`day` string, `service` string)
STORED AS PARQUET LOCATION 'LAKE/frames/';
-- After each compaction, or once a day: finds new partitions.
MSCK REPAIR TABLE sites;
MSCK REPAIR TABLE sites_hour;
MSCK REPAIR TABLE processes;
MSCK REPAIR TABLE stack_files;
MSCK REPAIR TABLE frame_files;
-- The same stack is in many files, one for each day and service. Questions join one row per site.
CREATE OR REPLACE VIEW stacks AS
SELECT site_id, min(function) AS function, max(type_name) AS type_name, min(stack) AS stack FROM stack_files GROUP BY site_id;
CREATE OR REPLACE VIEW frames AS
SELECT f.site_id AS site_id, f.depth AS depth, min(f.function) AS function, max(f.file) AS file, max(f.line) AS line,
       max(f.module) AS module, max(f.build_id) AS build_id
FROM frame_files f JOIN (SELECT site_id, min(stack_id) AS stack_id FROM frame_files GROUP BY site_id) c
     ON c.site_id = f.site_id AND c.stack_id = f.stack_id
GROUP BY f.site_id, f.depth;
