-- Bands: what did the processes with each value of a label hold, at some slots? All but the largest values are one row, without a value.
WITH part AS (SELECT slot, {by} AS label, CAST(sum(live_bytes) AS BIGINT) AS bytes, max(sample_period) AS sample_period FROM processes WHERE {processes} AND slot IN ({slots}) GROUP BY slot, {by}),
     ranked AS (SELECT label, max(bytes) AS most FROM part GROUP BY label),
     kept AS (SELECT label FROM ranked ORDER BY most DESC, label {limit})
SELECT p.slot AS slot, k.label AS label, CAST(sum(p.bytes) AS BIGINT) AS bytes, (SELECT count(*) FROM ranked) AS labels, max(p.sample_period) AS sample_period
FROM part p LEFT JOIN kept k ON k.label = p.label GROUP BY p.slot, k.label ORDER BY slot, label
