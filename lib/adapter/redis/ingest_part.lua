-- Stores a part of the payload of an entry that is not there yet; parts without an entry expire.
--   KEYS 11 parts   ARGV 1 batch  2 which, from 0  3 bytes  4 ttl, ms
if call('HEXISTS', META, ARGV[1]) == 0 then
  call('HSET', KEYS[11], ARGV[2], ARGV[3])
  call('PEXPIRE', KEYS[11], ARGV[4])
end
return 1
