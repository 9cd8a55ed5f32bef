-- Takes the lease to fold, and with it a version of the state that all later steps must name.
-- KEYS  1 state, 2 journal, 3 lease.
-- ARGV  1 instance, 2 milliseconds of the lease, 3 name for the version, 4 version of entries that the instance
--       understands, 5 seconds that a newer entry waits for one that does, 6 the server's time or '' for TIME.
-- Returns {'HELD'}, {'NEWER'}, {'NONE'} (no journal), or {'MINE', low, upto or '', partitions done, aside, rolled,
--       why the lease was none of ours, or ''}.
local low, upto, done, aside, rolled, need, head = unpack(redis.call('HMGET', KEYS[1], 'low', 'upto', 'done', 'aside', 'rolled', 'need', 'head'))
if not low then return {'NONE'} end
local holder, left = redis.pcall('GET', KEYS[3]), redis.call('TTL', KEYS[3])
local strange = type(holder) == 'table' and holder.err or (left == -1 or left > 600) and 'it does not end' or ''
if holder and holder ~= ARGV[1] and strange == '' then return {'HELD'} end
if (tonumber(need) or 0) > tonumber(ARGV[4]) then
  local oldest = redis.call('XRANGE', KEYS[2], '(' .. low, '+', 'COUNT', 1)[1]
  local now = ARGV[6] ~= '' and ARGV[6] or redis.call('TIME')[1]
  -- Fields stand in append.lua's order. Where entries are gone, anybody may close the hole.
  if (oldest and now - (tonumber(oldest[2][6]) or 0) < tonumber(ARGV[5])) or (not oldest and low == head) then return {'NEWER'} end
end
redis.call('PERSIST', KEYS[1]) -- Never refused for memory, and after it nothing is: folding is what frees it.
redis.call('SET', KEYS[3], ARGV[1], 'PX', ARGV[2])
redis.call('HSET', KEYS[1], 'v', ARGV[3])
return {'MINE', low, upto, done, aside, rolled, strange}
