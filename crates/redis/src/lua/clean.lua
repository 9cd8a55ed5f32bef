-- Drops slices of some counters, and removes counters that are then empty from known:, all in one atomic step.
-- KEYS  1 lease, 2 known:, then the count:{p}:{name} keys.
-- ARGV  1 the holder's token, 2 time to live of the lease in seconds, then for each counter:
--       '{p}:{name}', key TTL to set or '', n, and n slices to drop.
-- Returns {'LOST'} when another instance holds the lease by now, else {'CLEANED', slices, counters}.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return {'LOST'} end
redis.call('EXPIRE', KEYS[1], ARGV[2])
local slices, counters, a = 0, 0, 2
for i = 3, #KEYS do
  local key, ttl, n = KEYS[i], ARGV[a + 2], tonumber(ARGV[a + 3])
  local dropped = n > 0 and try('HDEL', key, unpack(ARGV, a + 4, a + 3 + n)) -- The key may have changed its type.
  if type(dropped) == 'number' then slices = slices + dropped end
  if redis.call('EXISTS', key) == 0 then
    counters = counters + redis.call('ZREM', KEYS[2], ARGV[a + 1])
  elseif ttl ~= '' then
    redis.call('EXPIRE', key, ttl)
  end
  a = a + 3 + n
end
return {'CLEANED', slices, counters}
