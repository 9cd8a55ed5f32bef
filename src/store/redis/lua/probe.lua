-- Tries every command that the other scripts need, with arguments that change nothing: those that
-- write get an argument that is no number, or a key that never exists. Within a script a missing
-- permission would only show when half of a call has been merged.
--
-- KEYS  1 pulse:probe (never exists), 2 a count: key, 3 known:, 4 a stats: key,
--       5 slowest:AccessTime.
-- ARGV  none.
-- Returns the errors, those that the arguments cause among them.

local probe, count, known, stats, slowest = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local errors = {}
for _, command in ipairs({
  {'TIME'},
  {'GET', probe}, {'GET', stats},
  {'SET', probe, '', 'EX', 'x'}, {'SET', stats, '', 'EX', 'x'},
  {'EXISTS', stats}, {'RENAME', probe, probe}, {'DEL', probe},
  {'EXPIRE', count, 'x'}, {'EXPIRE', probe, 'x'},
  {'HINCRBY', count, '0', 'x'}, {'HDEL', probe, 'x'}, {'HKEYS', probe}, {'HLEN', probe}, {'HSCAN', probe, '0'}, {'TTL', probe},
  {'HGET', probe, 'x'}, {'HSET', probe, 'x', 'x', 'x'},
  {'ZADD', known, 'x', 'x'}, {'ZADD', slowest, 'x', 'x'}, {'ZADD', stats, 'x', 'x'}, {'ZADD', probe, 'x', 'x'},
  {'ZRANGE', stats, '0', '0', 'WITHSCORES'}, {'ZSCORE', probe, 'x'}, {'ZREM', probe, 'x'},
  {'ZREMRANGEBYRANK', slowest, 'x', 'x'}, {'ZREMRANGEBYSCORE', probe, 'x', 'x'},
  {'ZRANGEBYLEX', probe, '-', '+'}, {'ZRANGEBYSCORE', probe, '0', '0'}, {'ZCOUNT', probe, '0', '0'},
  {'ZREVRANGE', probe, '0', '0'}, {'HGETALL', probe}, {'HMGET', probe, 'x'},
}) do
  local reply = redis.pcall(unpack(command))
  if type(reply) == 'table' and reply.err then errors[#errors + 1] = reply.err end
end
return errors
