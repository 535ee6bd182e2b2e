     best AS (SELECT service, site_id, host, old_mean, new_mean, new_mean - old_mean AS grew, sample_period
              FROM on_host WHERE new_mean > old_mean ORDER BY grew DESC, service, site_id, host {limit})
SELECT b.service AS service, p.from_version AS from_version, p.to_version AS to_version, b.host AS host, b.site_id AS site_id, coalesce(k.function, '') AS function,
       coalesce(k.type_name, '') AS type_name, coalesce(k.stack, '') AS stack, b.old_mean AS old_mean, b.new_mean AS new_mean, b.grew AS grew,
       b.sample_period AS sample_period
FROM best b JOIN pair p ON p.service = b.service LEFT JOIN stacks k ON k.site_id = b.site_id
ORDER BY grew DESC, service, site_id, host
