-- Appends one call to the journal, once.
-- KEYS  1 state (hello.lua has its fields), 2 journal, 3 fold lease, 4 pulse:journal:old, which only this script uses.
-- ARGV  1 generation, 2 instance, 3 number of the call, 4 number that the instance's fence must have,
--       5 most bytes of the journal, 6 version of the entry, 7 number of its requests, 8 the time or '' for TIME,
--       9 the packed batch, 10 the second of its oldest sample or '', 11 seconds for which samples are kept.
-- Returns {'DONE' or 'DUPLICATE', a position at or after the call, low, 1 if an instance folds or 0}, {'GAP', fence},
--       {'FULL'}, {'RESET'}, or {'GARBLED'} if the fence of the instance cannot be read. If entries of another program
--       were removed, 'DONE' has as its fifth value the error that they caused.
local state, field, seq = KEYS[1], 'f:' .. ARGV[2], tonumber(ARGV[3])
local generation, head, trimmed, need, low, since, last =
  unpack(redis.call('HMGET', state, 'gen', 'head', 'trimmed', 'need', 'low', 'since', field))
-- PERSIST changes nothing, but fails on a replica or a server that refuses writes. The caller must get this error
-- instead of RESET or GAP.
if generation ~= ARGV[1] then return {'RESET', redis.call('PERSIST', state)} end
local fence = tonumber(string.match(string.sub(last or '0 ', 1, 16), '^(%d+) ') or nil) -- A Lua number keeps 15 digits.
local left = redis.call('TTL', KEYS[3]) -- A lease expires within seconds. A key that lives longer is not a lease.
local attended = left >= 0 and left <= 600 and 1 or 0
local offset = tonumber(string.match(head or '', '^(%d+)%-%d+$') or nil)
if not offset then return redis.error_reply('ERR ' .. state .. ' has garbage in its field head: delete it') end
if not fence then return {'GARBLED', redis.call('PERSIST', state)} end
if fence >= seq then return {'DUPLICATE', head, low, attended} end
if fence ~= tonumber(ARGV[4]) then return {'GAP', string.format('%.0f', fence), redis.call('PERSIST', state)} end
if offset - (tonumber(trimmed) or 0) >= tonumber(ARGV[5]) then return {'FULL'} end

local time = ARGV[8] ~= '' and {ARGV[8], '0'} or redis.call('TIME')
-- The second part of the id depends on all earlier entries. If a failover loses entries, the next entry at the same
-- offset gets another id.
local chain = redis.sha1hex(table.concat({head, ARGV[2], ARGV[3], time[1], time[2]}, ' '))
local id = string.format('%.0f-%.0f', offset + #ARGV[9] + 1, tonumber(string.sub(chain, 1, 13), 16))
-- The first write needs the same permissions as the last: without them, the script fails before any change.
redis.call('HSET', state, 'need', math.max(tonumber(need) or 0, tonumber(ARGV[6])))
local entry = {'XADD', KEYS[2], id, 'i', ARGV[2], 's', ARGV[3], 't', time[1], 'v', ARGV[6], 'n', ARGV[7], 'p', ARGV[9]}
local refusal = redis.pcall(unpack(entry)).err
if refusal then
  -- A stream refuses an id below its highest id so far. If another program has added a higher id, the journal is
  -- rebuilt from the entries that are not folded. The script first tries to read these entries, because no command may
  -- fail after RENAME.
  if not (string.find(refusal, 'equal or smaller', 1, true) or string.find(refusal, 'exhausted', 1, true)) then return redis.error_reply(refusal) end
  redis.call('XRANGE', KEYS[2], '(' .. low, head, 'COUNT', 1)
  redis.call('RENAME', KEYS[2], KEYS[4])
  local from = low
  repeat
    local entries = redis.call('XRANGE', KEYS[4], '(' .. from, head, 'COUNT', 16)
    for _, kept in ipairs(entries) do
      from = kept[1]
      redis.call('XADD', KEYS[2], from, unpack(kept[2], 1, math.min(#kept[2], 100)))
    end
  until #entries == 0
  redis.pcall('DEL', KEYS[4])
  redis.call(unpack(entry))
end
redis.call('HSET', state, 'head', id, field, ARGV[3] .. ' ' .. time[1])
if low == head then redis.call('HSET', state, 'oldest', time[1]) end
-- An instance may have recorded samples before the generation began, while the store was unreachable or empty. Then
-- `since`, the beginning of the data, becomes earlier.
local first, began = tonumber(ARGV[10]), tonumber(since)
if first and began and first < began and first > time[1] - ARGV[11] then redis.call('HSET', state, 'since', ARGV[10]) end
return {'DONE', id, low, attended, refusal}
