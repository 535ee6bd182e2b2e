-- Slots: what did all chosen processes together hold, at each slot?
SELECT slot, CAST(sum(live_bytes) AS BIGINT) AS bytes, count(*) AS processes, max(sample_period) AS sample_period, count(DISTINCT host) AS hosts
FROM processes WHERE {processes} GROUP BY slot ORDER BY slot {limit}
