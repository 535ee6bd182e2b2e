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
-- The same stack is in many files: once for each day, service and version of names. Questions join one row of each.
CREATE OR REPLACE VIEW stacks AS
SELECT site_id, min(function) AS function, min(type_name) AS type_name, min(stack) AS stack FROM stack_files GROUP BY site_id;
CREATE OR REPLACE VIEW frames AS
SELECT site_id, depth, min(function) AS function, min(file) AS file, min(line) AS line, min(module) AS module FROM frame_files GROUP BY site_id, depth;
