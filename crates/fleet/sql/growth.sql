-- Growth: which call sites hold more in one version of a service than in another (mean bytes a process and slot), and on how many hosts?
-- A host grew if its mean in the new version is above its own mean in the old one, or above that of all hosts if it did not run the old one.
WITH chosen AS (SELECT service, version, host, slot, start FROM processes WHERE {processes}),
     pair AS ({versions}),
     runs AS (SELECT p.service AS service, CASE WHEN c.version = p.to_version THEN 1 ELSE 0 END AS is_new, c.host AS host, count(*) AS n
              FROM chosen c JOIN pair p ON p.service = c.service AND (c.version = p.from_version OR c.version = p.to_version)
              GROUP BY p.service, CASE WHEN c.version = p.to_version THEN 1 ELSE 0 END, c.host),
     summed AS (SELECT service, version, host, site_id, CAST(sum(bytes) AS BIGINT) AS bytes, max(sample_period) AS sample_period
                FROM ({rows}) r GROUP BY service, version, host, site_id),
     held AS (SELECT p.service AS service, s.site_id AS site_id, CASE WHEN s.version = p.to_version THEN 1 ELSE 0 END AS is_new, s.host AS host,
                     s.bytes AS bytes, s.sample_period AS sample_period
              FROM summed s JOIN pair p ON p.service = s.service AND (s.version = p.from_version OR s.version = p.to_version)),
     everywhere AS (SELECT service, CAST(sum(CASE WHEN is_new = 0 THEN n ELSE 0 END) AS DOUBLE) AS old_n,
                           CAST(sum(CASE WHEN is_new = 1 THEN n ELSE 0 END) AS DOUBLE) AS new_n,
                           count(DISTINCT CASE WHEN is_new = 1 THEN host END) AS hosts_seen FROM runs GROUP BY service),
     whole AS (SELECT h.service AS service, h.site_id AS site_id,
                      CASE WHEN e.old_n > 0e0 THEN CAST(sum(CASE WHEN h.is_new = 0 THEN h.bytes ELSE 0 END) AS DOUBLE) / e.old_n ELSE 0e0 END AS old_mean,
                      CASE WHEN e.new_n > 0e0 THEN CAST(sum(CASE WHEN h.is_new = 1 THEN h.bytes ELSE 0 END) AS DOUBLE) / e.new_n ELSE 0e0 END AS new_mean,
                      max(h.sample_period) AS sample_period, e.hosts_seen AS hosts_seen
               FROM held h JOIN everywhere e ON e.service = h.service GROUP BY h.service, h.site_id, e.old_n, e.new_n, e.hosts_seen),
     on_host AS (SELECT w.service AS service, w.site_id AS site_id, n.host AS host, w.sample_period AS sample_period,
                        CASE WHEN o.n IS NULL THEN w.old_mean ELSE CAST(coalesce(a.bytes, 0) AS DOUBLE) / CAST(o.n AS DOUBLE) END AS old_mean,
                        CAST(b.bytes AS DOUBLE) / CAST(n.n AS DOUBLE) AS new_mean
                 FROM whole w JOIN (SELECT service, site_id, host, bytes FROM held WHERE is_new = 1) b ON b.service = w.service AND b.site_id = w.site_id
                      JOIN (SELECT service, host, n FROM runs WHERE is_new = 1) n ON n.service = b.service AND n.host = b.host
                      LEFT JOIN (SELECT service, host, n FROM runs WHERE is_new = 0) o ON o.service = b.service AND o.host = b.host
                      LEFT JOIN (SELECT service, site_id, host, bytes FROM held WHERE is_new = 0) a
                             ON a.service = b.service AND a.site_id = b.site_id AND a.host = b.host),
{growth}
