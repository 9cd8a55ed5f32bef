-- If the state has the given version, reads entries that are not folded, or fields that a round changes.
-- KEYS  1 state (hello.lua has its fields), 2 journal, 3 lease, then a key of fields for each group.
-- ARGV  1 version, 2 instance, 3 time to live of the lease in ms, 4 most bytes of entries or '' for none, 5 the entry
--       after which to begin, 6 the time or '' for TIME, 7 most bytes of one entry, then for each group: HMGET or
--       ZMSCORE, n, and n fields.
-- Returns {'STALE'}, {'READ', head, time, entries}, or {'READ', head, time, values of the first group, …}. A group is
--       empty if its key cannot be read. An entry with too many bytes has only its short fields.
local v, head, low, upto = unpack(redis.call('HMGET', KEYS[1], 'v', 'head', 'low', 'upto'))
if v ~= ARGV[1] then return {'STALE'} end
-- Renews the lease. No other instance holds the lease: acquiring it would have changed the version.
redis.pcall('SET', KEYS[3], ARGV[2], 'PX', ARGV[3])
local result, a = {'READ', head, ARGV[6] ~= '' and ARGV[6] or redis.call('TIME')[1]}, 7
if ARGV[4] ~= '' then
  -- Reads entries up to the end of a begun round, or else up to `head`: entries after `head` are of another program.
  local from, till, left, most = '(' .. ARGV[5], upto ~= '' and upto or head, tonumber(ARGV[4]), tonumber(ARGV[7])
  -- A failover since the previous read may have lost entries without a change of the version. Then the last entry of
  -- the previous read is missing.
  if ARGV[5] ~= low and #redis.call('XRANGE', KEYS[2], ARGV[5], ARGV[5]) == 0 then return {'STALE'} end
  local entries, page = {}, nil
  repeat
    page = redis.call('XRANGE', KEYS[2], from, till, 'COUNT', 8)
    for _, entry in ipairs(page) do
      local fields, short, size = entry[2], {}, 64 -- An entry takes more memory than its bytes.
      for i = 1, #fields do size = size + #fields[i] end
      -- No instance sends such a large entry. The entry is set aside, and its short fields describe it.
      if size > most or #fields > 32 then
        for i = 1, math.min(#fields, 32), 2 do
          if #fields[i] + #fields[i + 1] <= 64 then short[#short + 1], short[#short + 2] = fields[i], fields[i + 1] end
        end
        entry[2], size = short, 4096
      end
      if left > 0 and (#entries == 0 or size <= left) then entries[#entries + 1] = entry end
      left, from = left - size, '(' .. entry[1]
    end
  until left <= 0 or #page < 8
  result[4] = entries
end
for i = 4, #KEYS do
  local values = try(ARGV[a + 1], KEYS[i], unpack(ARGV, a + 3, a + 2 + ARGV[a + 2]))
  for j = 1, #values do values[j] = values[j] and #values[j] <= 2 ^ 20 and values[j] end -- A record is never longer.
  a, result[i] = a + 2 + ARGV[a + 2], values.err and {} or values
end
return result
