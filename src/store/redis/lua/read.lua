-- Reads entries that are not folded, or records that a round adds to; both only under our version.
-- KEYS  1 state, 2 journal, 3 lease, then a key of records for each group.
-- ARGV  1 version, 2 instance, 3 milliseconds of the lease, 4 most bytes of entries or '' for none, 5 the entry after
--       which to begin, 6 the server's time or '' for TIME, then for each group: n, and n fields.
-- Returns {'STALE'}, {'READ', head, time, entries}, or {'READ', head, time, records of the first group, …},
--       where a group that cannot be read is empty.
local v, head, low, upto = unpack(redis.call('HMGET', KEYS[1], 'v', 'head', 'low', 'upto'))
if v ~= ARGV[1] then return {'STALE'} end
-- Prolonged while it is ours or nobody's: whoever has taken it has changed the version too.
redis.pcall('SET', KEYS[3], ARGV[2], 'PX', ARGV[3])
local result, a = {'READ', head, ARGV[6] ~= '' and ARGV[6] or redis.call('TIME')[1]}, 6
if ARGV[4] ~= '' then
  -- An id begins with the bytes appended so far. A round that was begun is read to its end only.
  local from, last = '(' .. ARGV[5], string.match(ARGV[5], '^%d+') + ARGV[4]
  -- A failover since the part before may have taken the journal to another history, and left the version.
  if ARGV[5] ~= low and #redis.call('XRANGE', KEYS[2], ARGV[5], ARGV[5]) == 0 then return {'STALE'} end
  local till = upto ~= '' and tonumber(string.match(upto, '^%d+')) <= last and upto or string.format('%.0f', last)
  result[4] = redis.call('XRANGE', KEYS[2], from, till)
  if #result[4] == 0 then result[4] = redis.call('XRANGE', KEYS[2], from, upto ~= '' and upto or '+', 'COUNT', 1) end
end
for i = 4, #KEYS do
  local records = redis.pcall('HMGET', KEYS[i], unpack(ARGV, a + 2, a + 1 + ARGV[a + 1]))
  for j = 1, #records do records[j] = records[j] and #records[j] <= 2 ^ 20 and records[j] end -- Larger is no record.
  a, result[i] = a + 1 + ARGV[a + 1], records.err and {} or records
end
return result
