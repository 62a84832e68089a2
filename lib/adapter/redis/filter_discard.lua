-- include: filter_common
-- Discards the filter and the build in progress. Needs no free memory.
wipe()
return 'ok'
