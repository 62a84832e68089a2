-- include: ingest_common
-- Stores a part of the payload of an entry that is not appended yet. Parts without an entry expire.
--   KEYS 1 parts   ARGV 1 batch  2 number of the part, from 0  3 its bytes
if call('HEXISTS', META, ARGV[1]) == 0 then
  call('HSET', KEYS[OWN + 1], ARGV[2], ARGV[3])
  call('PEXPIRE', KEYS[OWN + 1], INGEST_PART_TTL_MS)
end
return 1
