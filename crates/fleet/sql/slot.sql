-- Slot: at which slot did all chosen processes together hold the most, or which is the one asked for?
WITH total AS (SELECT slot, CAST(sum(live_bytes) AS BIGINT) AS fleet_bytes, count(*) AS fleet_processes FROM processes WHERE {processes} GROUP BY slot)
SELECT slot FROM ({at}) c
