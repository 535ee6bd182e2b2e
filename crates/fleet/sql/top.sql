-- Top: which call sites hold the most, in all chosen processes together, at one slot?
WITH total AS (SELECT slot, CAST(sum(live_bytes) AS BIGINT) AS fleet_bytes, count(*) AS fleet_processes, count(DISTINCT host) AS fleet_hosts,
                      max(sample_period) AS fleet_sample_period
               FROM processes WHERE {processes} GROUP BY slot),
     chosen AS ({at}),
     fleet AS (SELECT t.slot AS slot, t.fleet_bytes AS fleet_bytes, t.fleet_processes AS fleet_processes, t.fleet_hosts AS fleet_hosts,
                      t.fleet_sample_period AS fleet_sample_period
               FROM total t JOIN chosen c ON t.slot = c.slot),
     held AS (SELECT s.site_id AS site_id, s.slot AS slot, CAST(sum(s.live_bytes) AS BIGINT) AS bytes, CAST(sum(s.live_blocks) AS BIGINT) AS blocks,
                     count(DISTINCT s.process_id) AS processes, count(DISTINCT s.host) AS hosts, max(s.sample_period) AS sample_period
              FROM (SELECT slot, site_id, process_id, host, sample_period, live_bytes, live_blocks FROM sites WHERE {sites}) s
              JOIN chosen c ON s.slot = c.slot GROUP BY s.site_id, s.slot),
     best AS (SELECT site_id, slot, bytes, blocks, processes, hosts, sample_period FROM held ORDER BY bytes DESC, site_id {limit})
SELECT b.site_id AS site_id, coalesce(k.function, '') AS function, coalesce(k.type_name, '') AS type_name, coalesce(k.stack, '') AS stack,
       b.bytes AS bytes, b.blocks AS blocks, b.processes AS processes, b.hosts AS hosts, b.sample_period AS sample_period,
       f.slot AS slot, f.fleet_bytes AS fleet_bytes, f.fleet_processes AS fleet_processes, f.fleet_hosts AS fleet_hosts,
       f.fleet_sample_period AS fleet_sample_period
FROM best b JOIN fleet f ON f.slot = b.slot LEFT JOIN stacks k ON k.site_id = b.site_id
ORDER BY bytes DESC, site_id
