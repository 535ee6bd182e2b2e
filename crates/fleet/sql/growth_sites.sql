     grown AS (SELECT service, site_id, count(*) AS hosts_grew FROM on_host WHERE new_mean > old_mean GROUP BY service, site_id),
     best AS (SELECT w.service AS service, w.site_id AS site_id, w.old_mean AS old_mean, w.new_mean AS new_mean, w.new_mean - w.old_mean AS grew,
                     coalesce(g.hosts_grew, 0) AS hosts_grew, w.hosts_seen AS hosts_seen, w.sample_period AS sample_period
              FROM whole w LEFT JOIN grown g ON g.service = w.service AND g.site_id = w.site_id
              WHERE w.new_mean > w.old_mean ORDER BY grew DESC, service, site_id {limit})
SELECT b.service AS service, p.from_version AS from_version, p.to_version AS to_version, b.site_id AS site_id, coalesce(k.function, '') AS function,
       coalesce(k.type_name, '') AS type_name, coalesce(k.stack, '') AS stack, b.old_mean AS old_mean, b.new_mean AS new_mean, b.grew AS grew,
       b.hosts_grew AS hosts_grew, b.hosts_seen AS hosts_seen, b.sample_period AS sample_period
FROM best b JOIN pair p ON p.service = b.service LEFT JOIN stacks k ON k.site_id = b.site_id
ORDER BY grew DESC, service, site_id
