-- Processes: how fast does each one grow (least-squares slope of its live bytes), and when does it reach its limit if it goes on? One that is at its limit already has no hours left.
-- Bytes are counted in KiB, so that the sums of squares fit into 64 bits. A process that sampled in any slot has estimates: its slope is made of all of them.
WITH chosen AS (SELECT process_id, slot, service, version, region, host, container, pid, sample_period, live_bytes, live_blocks, rss_bytes, limit_bytes
                FROM processes WHERE {processes}),
     p AS (SELECT process_id, min(slot) AS first, max(slot) AS last, count(*) AS slots FROM chosen GROUP BY process_id HAVING count(*) >= {slots}),
     s AS (SELECT c.process_id AS process_id, p.first AS first, p.last AS last, p.slots AS slots, CAST(p.slots AS DOUBLE) AS n, max(c.sample_period) AS sample_period,
                  CAST(sum(c.slot - p.first) AS DOUBLE) AS sx, CAST(sum((c.slot - p.first) * (c.slot - p.first)) AS DOUBLE) AS sxx,
                  CAST(sum(CAST((c.live_bytes - c.live_bytes % 1024) / 1024e0 AS BIGINT)) AS DOUBLE) AS sy,
                  CAST(sum((c.slot - p.first) * CAST((c.live_bytes - c.live_bytes % 1024) / 1024e0 AS BIGINT)) AS DOUBLE) AS sxy
           FROM chosen c JOIN p ON p.process_id = c.process_id GROUP BY c.process_id, p.first, p.last, p.slots),
     f AS (SELECT process_id, first, last, slots, sample_period, CASE WHEN n * sxx - sx * sx > 0e0 THEN 3686400e0 * (n * sxy - sx * sy) / (n * sxx - sx * sx) ELSE 0e0 END AS bytes_per_hour FROM s),
     e AS (SELECT f.process_id AS process_id, c.service AS service, c.version AS version, c.region AS region, c.host AS host, c.container AS container, c.pid AS pid,
                  f.first AS first_slot, f.last AS last_slot, f.slots AS slots, f.bytes_per_hour AS bytes_per_hour, c.live_bytes AS live_bytes, c.live_blocks AS live_blocks,
                  c.rss_bytes AS rss_bytes, c.limit_bytes AS limit_bytes, f.sample_period AS sample_period,
                  CASE WHEN c.limit_bytes > 0 AND c.limit_bytes <= coalesce(c.rss_bytes, c.live_bytes) THEN 0e0
                       WHEN f.bytes_per_hour > 0e0 AND c.limit_bytes > 0
                       THEN CAST(c.limit_bytes - coalesce(c.rss_bytes, c.live_bytes) AS DOUBLE) / f.bytes_per_hour END AS hours_to_limit
           FROM f JOIN chosen c ON c.process_id = f.process_id AND c.slot = f.last)
SELECT process_id, service, version, region, host, container, pid, first_slot, last_slot, slots, bytes_per_hour, live_bytes, live_blocks, rss_bytes, limit_bytes,
       sample_period, hours_to_limit
FROM e ORDER BY {order}, process_id {limit}
