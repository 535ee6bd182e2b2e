-- Difference: which call sites hold more in one part of the fleet than in another (mean bytes a process and slot)?
-- {service} is the service, so that parts with different services can be compared, or '' if the parts themselves are services.
WITH runs AS (SELECT {service} AS service, CAST(sum(CASE WHEN {processes_a} THEN 1 ELSE 0 END) AS BIGINT) AS a_n, CAST(sum(CASE WHEN {processes_b} THEN 1 ELSE 0 END) AS BIGINT) AS b_n
              FROM processes WHERE {processes}{group_runs}),
     held AS (SELECT {service} AS service, site_id, CAST(sum(a_bytes) AS BIGINT) AS a_bytes, CAST(sum(b_bytes) AS BIGINT) AS b_bytes, max(sample_period) AS sample_period
              FROM (SELECT service, site_id, sample_period, CASE WHEN {rows_a} THEN bytes ELSE 0 END AS a_bytes, CASE WHEN {rows_b} THEN bytes ELSE 0 END AS b_bytes
                    FROM ({rows}) q) r GROUP BY {group}site_id),
     mean AS (SELECT h.service AS service, h.site_id AS site_id, CAST(h.a_bytes AS DOUBLE) / CAST(r.a_n AS DOUBLE) AS a_mean,
                     CAST(h.b_bytes AS DOUBLE) / CAST(r.b_n AS DOUBLE) AS b_mean, h.sample_period AS sample_period
              FROM held h JOIN (SELECT service, a_n, b_n FROM runs WHERE a_n > 0 AND b_n > 0) r ON r.service = h.service),
     best AS (SELECT service, site_id, a_mean, b_mean, b_mean - a_mean AS more, abs(b_mean - a_mean) AS size, sample_period
              FROM mean WHERE a_mean <> b_mean ORDER BY size DESC, service, site_id {limit})
SELECT b.service AS service, b.site_id AS site_id, coalesce(k.function, '') AS function, coalesce(k.type_name, '') AS type_name, coalesce(k.stack, '') AS stack,
       b.a_mean AS a_mean, b.b_mean AS b_mean, b.more AS more, b.sample_period AS sample_period
FROM best b LEFT JOIN stacks k ON k.site_id = b.site_id
ORDER BY abs(more) DESC, service, site_id
