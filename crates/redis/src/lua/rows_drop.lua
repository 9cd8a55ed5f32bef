-- Removes rows without a positive delay, as the book's scheduler does. A row that has a delay again stays.
-- KEYS  1 delay:, 2 schedule:, 3 pulse:rows:, 4 pulse:failing:, then the key of each cached row.
-- ARGV  the id of each row.
-- Returns the number of removed rows.
local removed = 0
for i, id in ipairs(ARGV) do
  if not (tonumber(redis.call('ZSCORE', KEYS[1], id) or 0) > 0) then
    redis.call('ZREM', KEYS[1], id); redis.call('ZREM', KEYS[2], id); redis.call('HDEL', KEYS[3], id)
    redis.call('ZREM', KEYS[4], id); redis.call('DEL', KEYS[4 + i])
    removed = removed + 1
  end
end
return removed
