-- Takes contexts out of the ranking of the slowest that have not been seen for a while; those seen
-- meanwhile are left alone. The last visit of one that only the book's writer knows is not known
-- here: the caller has looked at its hour.
--
-- KEYS  1 lease, 2 pulse:contexts, 3 pulse:timers, 4 slowest:AccessTime.
-- ARGV  1 our token in the lease, 2 seconds to prolong it by, 3 last seen at or before this goes,
--       then the names.
-- Returns {'LOST'} or {'UNRANKED', ranks}.

if redis.call('GET', KEYS[1]) ~= ARGV[1] then return {'LOST'} end
redis.call('EXPIRE', KEYS[1], ARGV[2])

local cut_off, ranks = tonumber(ARGV[3]), 0
for i = 4, #ARGV do
  local http = tonumber(redis.pcall('ZSCORE', KEYS[2], ARGV[i]) or nil)
  local timer = tonumber(redis.pcall('ZSCORE', KEYS[3], ARGV[i]) or nil)
  if (http or cut_off) <= cut_off and (timer or cut_off) <= cut_off then
    ranks = ranks + redis.call('ZREM', KEYS[4], ARGV[i])
  end
end
return {'UNRANKED', ranks}
