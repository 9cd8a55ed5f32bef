-- Reads entries that are not folded, or the records that a round changes, if the state has the given version.
-- KEYS  1 state, 2 journal, 3 lease, then a key of fields for each group.
-- ARGV  1 version, 2 instance, 3 time to live of the lease in ms, 4 most bytes of entries or '' for none, 5 the entry
--       after which to begin, 6 the server's time or '' for TIME, then for each group: HMGET or ZMSCORE, n, and n fields.
-- Returns {'STALE'}, {'READ', head, time, entries}, or {'READ', head, time, values of the first group, …},
--       where a group whose key cannot be read is empty.
local v, head, low, upto = unpack(redis.call('HMGET', KEYS[1], 'v', 'head', 'low', 'upto'))
if v ~= ARGV[1] then return {'STALE'} end
-- Prolongs the lease, which no other instance holds: acquiring it would have changed the version.
redis.pcall('SET', KEYS[3], ARGV[2], 'PX', ARGV[3])
local result, a = {'READ', head, ARGV[6] ~= '' and ARGV[6] or redis.call('TIME')[1]}, 6
if ARGV[4] ~= '' then
  -- An id begins with its offset in bytes. Entries after the end of a round that was begun are not read.
  local from, last = '(' .. ARGV[5], string.match(ARGV[5], '^%d+') + ARGV[4]
  -- A failover since the previous read may have taken the journal to another history with the same version.
  if ARGV[5] ~= low and #redis.call('XRANGE', KEYS[2], ARGV[5], ARGV[5]) == 0 then return {'STALE'} end
  local till = upto ~= '' and tonumber(string.match(upto, '^%d+')) <= last and upto or string.format('%.0f', last)
  result[4] = redis.call('XRANGE', KEYS[2], from, till)
  if #result[4] == 0 then result[4] = redis.call('XRANGE', KEYS[2], from, upto ~= '' and upto or '+', 'COUNT', 1) end
end
for i = 4, #KEYS do
  local values = redis.pcall(ARGV[a + 1], KEYS[i], unpack(ARGV, a + 3, a + 2 + ARGV[a + 2]))
  for j = 1, #values do values[j] = values[j] and #values[j] <= 2 ^ 20 and values[j] end -- Records are smaller.
  a, result[i] = a + 2 + ARGV[a + 2], values.err and {} or values
end
return result
