-- Timeline: what did each group hold over time? A bucket shows one slot: the one in which all chosen processes together held the most.
WITH chosen AS (SELECT slot, {by} AS grp, sample_period, live_bytes, live_blocks, rss_bytes FROM processes WHERE {processes}),
     total AS (SELECT slot, CAST(sum(live_bytes) AS BIGINT) AS bytes FROM chosen GROUP BY slot),
     span AS (SELECT min(slot) AS first, max(slot) - min(slot) + 1 AS width FROM total),
     placed AS (SELECT t.slot AS slot, t.bytes AS bytes, (t.slot - s.first) * {buckets} - ((t.slot - s.first) * {buckets}) % s.width AS bucket FROM total t CROSS JOIN span s),
     ranked AS (SELECT slot, row_number() OVER (PARTITION BY bucket ORDER BY bytes DESC, slot) AS place FROM placed)
SELECT c.slot AS slot, c.grp AS grp, CAST(sum(c.live_bytes) AS BIGINT) AS bytes, CAST(sum(c.live_blocks) AS BIGINT) AS blocks, count(*) AS processes,
       CAST(sum(c.rss_bytes) AS BIGINT) AS rss_bytes, max(c.sample_period) AS sample_period
FROM chosen c JOIN (SELECT slot FROM ranked WHERE place = 1) r ON r.slot = c.slot
GROUP BY c.slot, c.grp ORDER BY slot, grp
