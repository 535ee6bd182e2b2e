-- Leaks: which call sites grow in a straight line (slope of live blocks, r2), in how many processes and on how many hosts?
-- Squares that do not fit into 63 bits (billions of blocks at one site) are null: no line is fitted then. Sums of large ones are made in two parts, of what is above and below
-- 2^31, so that each part fits: some engines fail when a sum does not. Added as DOUBLE, the parts give the double nearest to the sum.
-- A line is fitted to each call stack of each process. x is the time since the process was first seen, so that its squares stay small.
WITH p AS (SELECT process_id, min(slot) AS first, count(*) AS slots FROM processes WHERE {processes} GROUP BY process_id HAVING count(*) >= {slots}),
     t AS (SELECT r.service AS service, r.site_id AS site_id, r.stack_id AS stack_id, r.process_id AS process_id, r.host AS host, r.sample_period AS sample_period,
                  r.n AS n, r.bytes AS bytes, r.blocks AS y, {sx} AS x, {sxx} AS xx, {sxy} AS xy, r.syy AS yy
           FROM ({rows}) r JOIN p ON p.process_id = r.process_id),
     s AS (SELECT service, site_id, stack_id, process_id, host, max(sample_period) AS sample_period, CAST(sum(n) AS DOUBLE) AS n,
                  CAST(sum(bytes) AS BIGINT) AS bytes, CAST(sum(y) AS BIGINT) AS blocks, CAST(sum(x) AS DOUBLE) AS sx, CAST(sum(y) AS DOUBLE) AS sy,
                  CAST(sum(xx) AS DOUBLE) AS sxx,
                  CAST(sum(CASE WHEN xy >= 1099511627776 THEN CAST((xy - xy % 2147483648) / 2147483648e0 AS BIGINT) ELSE 0 END) AS DOUBLE) * 2147483648e0
                  + CAST(sum(CASE WHEN xy >= 1099511627776 THEN xy % 2147483648 ELSE xy END) AS DOUBLE) AS sxy,
                  CAST(sum(CASE WHEN yy >= 1099511627776 THEN CAST((yy - yy % 2147483648) / 2147483648e0 AS BIGINT) ELSE 0 END) AS DOUBLE) * 2147483648e0
                  + CAST(sum(CASE WHEN yy >= 1099511627776 THEN yy % 2147483648 ELSE yy END) AS DOUBLE) AS syy,
                  CASE WHEN count(xy) = count(*) AND count(yy) = count(*) THEN 1 ELSE 0 END AS is_whole
           FROM t GROUP BY service, site_id, stack_id, process_id, host),
     d AS (SELECT service, site_id, stack_id, process_id, host, sample_period, n, bytes, blocks, is_whole, n * sxy - sx * sy AS dxy, n * sxx - sx * sx AS dxx, n * syy - sy * sy AS dyy FROM s),
     f AS (SELECT service, site_id, process_id, host, sample_period, bytes, blocks, CASE WHEN is_whole = 0 THEN NULL WHEN dxx > 0e0 THEN 3600e0 * dxy / dxx ELSE 0e0 END AS blocks_per_hour,
                  CASE WHEN is_whole = 1 AND dxx > 0e0 AND dyy > 0e0 AND n >= CAST({slots} AS DOUBLE) THEN dxy * dxy / (dxx * dyy) ELSE 0e0 END AS r2 FROM d),
     g AS (SELECT service, site_id, process_id, host, sample_period, bytes, blocks, blocks_per_hour, r2,
                  CASE WHEN r2 >= {r2} AND blocks_per_hour >= {rate} THEN 1 ELSE 0 END AS leaks FROM f),
     best AS (SELECT service, site_id, count(DISTINCT CASE WHEN leaks = 1 THEN host END) AS hosts, count(DISTINCT host) AS hosts_seen,
                     count(DISTINCT CASE WHEN leaks = 1 THEN process_id END) AS processes, count(DISTINCT process_id) AS processes_seen,
                     min(CASE WHEN leaks = 1 THEN blocks_per_hour END) AS slowest, max(CASE WHEN leaks = 1 THEN blocks_per_hour END) AS fastest,
                     min(CASE WHEN leaks = 1 THEN r2 END) AS r2,
                     CAST(sum(CASE WHEN leaks = 1 THEN bytes ELSE 0 END) AS DOUBLE) / CAST(sum(CASE WHEN leaks = 1 THEN blocks ELSE 0 END) AS DOUBLE) AS bytes_per_block,
                     max(CASE WHEN leaks = 1 THEN sample_period END) AS sample_period
              FROM g GROUP BY service, site_id HAVING max(leaks) = 1 ORDER BY hosts DESC, fastest DESC, service, site_id {limit})
SELECT b.service AS service, b.site_id AS site_id, coalesce(k.function, '') AS function, coalesce(k.type_name, '') AS type_name, coalesce(k.stack, '') AS stack,
       b.hosts AS hosts, b.hosts_seen AS hosts_seen, b.processes AS processes, b.processes_seen AS processes_seen, b.slowest AS slowest, b.fastest AS fastest,
       b.r2 AS r2, b.bytes_per_block AS bytes_per_block, b.sample_period AS sample_period
FROM best b LEFT JOIN stacks k ON k.site_id = b.site_id
ORDER BY hosts DESC, fastest DESC, service, site_id
