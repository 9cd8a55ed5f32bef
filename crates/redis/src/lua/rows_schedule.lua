-- Schedules rows, which are due at once, and removes rows whose delay is not positive.
-- KEYS  1 delay:, 2 schedule:, 3 pulse:rows:, 4 pulse:failing:, then the key of each cached row.
-- ARGV  1 time or '' for TIME, 2 the most rows, 3 '1' to spread the later refreshes, then id and delay of each row.
-- Returns {'DONE', rows} or, without a change, {'FULL', rows}.
local time, rows = redis.call('TIME'), redis.call('ZCARD', KEYS[1])
local now, new = ARGV[1] ~= '' and ARGV[1] or string.format('%d.%06d', time[1], time[2]), 0
local seen = {}
for i = 4, #ARGV, 2 do
  if tonumber(ARGV[i + 1]) > 0 and not seen[ARGV[i]] and not redis.call('ZSCORE', KEYS[1], ARGV[i]) then
    new, seen[ARGV[i]] = new + 1, true
  end
end
if new > 0 and rows + new > tonumber(ARGV[2]) then return {'FULL', rows} end
for i = 4, #ARGV, 2 do
  local id = ARGV[i]
  redis.call('ZREM', KEYS[4], id)
  if tonumber(ARGV[i + 1]) > 0 then
    redis.call('ZADD', KEYS[1], ARGV[i + 1], id)
    redis.call('ZADD', KEYS[2], now, id)
    -- This removes the token, so that the result of a load in progress is dropped.
    local loaded = string.match(redis.call('HGET', KEYS[3], id) or '', '^%S+ %S+ (%S+) ')
    redis.call('HSET', KEYS[3], id, string.format('0 - %s 0 %s ', loaded or '-', ARGV[3]))
  else
    redis.call('ZREM', KEYS[1], id)
    redis.call('ZREM', KEYS[2], id)
    redis.call('HDEL', KEYS[3], id)
    redis.call('DEL', KEYS[3 + i / 2])
  end
end
return {'DONE', redis.call('ZCARD', KEYS[1])}
