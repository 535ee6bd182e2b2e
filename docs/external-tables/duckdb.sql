-- A lake's compacted files in DuckDB's shell. Replace LAKE; for s3:// first: INSTALL httpfs; LOAD httpfs; CREATE SECRET (TYPE s3, PROVIDER credential_chain);
CREATE OR REPLACE VIEW sites AS
SELECT * FROM read_parquet('LAKE/sites/*/*/*.parquet', hive_partitioning = true, hive_types = {'day': VARCHAR, 'service': VARCHAR});
CREATE OR REPLACE VIEW sites_hour AS
SELECT * FROM read_parquet('LAKE/sites_hour/*/*/*.parquet', hive_partitioning = true, hive_types = {'day': VARCHAR, 'service': VARCHAR});
CREATE OR REPLACE VIEW processes AS
SELECT * FROM read_parquet('LAKE/processes/*/*/*.parquet', hive_partitioning = true, hive_types = {'day': VARCHAR, 'service': VARCHAR});
CREATE OR REPLACE VIEW stack_files AS
SELECT * FROM read_parquet('LAKE/stacks/*/*/*.parquet', hive_partitioning = true, hive_types = {'day': VARCHAR, 'service': VARCHAR});
CREATE OR REPLACE VIEW frame_files AS
SELECT * FROM read_parquet('LAKE/frames/*/*/*.parquet', hive_partitioning = true, hive_types = {'day': VARCHAR, 'service': VARCHAR});
-- The same stack is in many files, one for each day and service. Questions join one row per site.
CREATE OR REPLACE VIEW stacks AS
SELECT site_id, min(function) AS function, max(type_name) AS type_name, min(stack) AS stack FROM stack_files GROUP BY site_id;
CREATE OR REPLACE VIEW frames AS
SELECT f.site_id AS site_id, f.depth AS depth, min(f.function) AS function, max(f.file) AS file, max(f.line) AS line,
       max(f.module) AS module, max(f.build_id) AS build_id
FROM frame_files f JOIN (SELECT site_id, min(stack_id) AS stack_id FROM frame_files GROUP BY site_id) c
     ON c.site_id = f.site_id AND c.stack_id = f.stack_id
GROUP BY f.site_id, f.depth;
