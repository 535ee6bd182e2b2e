-- Labels: which services, versions and regions are there, with how many processes and hosts, and when were they seen?
SELECT service, version, region, count(DISTINCT process_id) AS processes, count(DISTINCT host) AS hosts, min(slot) AS first_slot, max(slot) AS last_slot
FROM processes WHERE {processes} GROUP BY service, version, region ORDER BY first_slot DESC, service, version, region {limit}
