-- Frames of some call sites.
SELECT site_id, depth, function, file, line, module FROM frames WHERE site_id IN ({site_ids}) ORDER BY site_id, depth {limit}
