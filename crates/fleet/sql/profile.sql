-- Profile: what did each call site of each service hold, at some slots? All but the largest sites of a service are one row, without a site: sums stay exact.
WITH held AS (SELECT slot, service, site_id, CAST(sum(live_bytes) AS BIGINT) AS bytes, CAST(sum(live_blocks) AS BIGINT) AS blocks
              FROM sites WHERE {sites} AND slot IN ({slots}) GROUP BY slot, service, site_id),
     ranked AS (SELECT service, site_id, max(bytes) AS most FROM held GROUP BY service, site_id),
     kept AS (SELECT service, site_id FROM ranked ORDER BY most DESC, site_id, service {limit})
SELECT h.slot AS slot, h.service AS service, k.site_id AS site_id, CAST(sum(h.bytes) AS BIGINT) AS bytes, CAST(sum(h.blocks) AS BIGINT) AS blocks
FROM held h LEFT JOIN kept k ON k.service = h.service AND k.site_id = h.site_id
GROUP BY h.slot, h.service, k.site_id ORDER BY slot, service, site_id
