-- Appends one call to the journal, once.
-- KEYS  1 state, 2 journal, 3 lease to fold.
-- ARGV  1 generation, 2 instance, 3 number of the call, 4 number of the call that must be the instance's last one,
--       5 most bytes of the journal, 6 version of the entry, 7 requests in it, 8 the server's time or '' for TIME,
--       9 the packed batch.
-- Returns {'DONE' or 'DUPLICATE', a place at or after it, low, 1 when somebody folds or 0}, {'GAP', fence}, {'FULL'},
--       {'RESET'}, or {'GARBLED'} when nobody knows which calls of the instance were appended.
local state, field, seq = KEYS[1], 'f:' .. ARGV[2], tonumber(ARGV[3])
local generation, head, trimmed, need, low, last = unpack(redis.call('HMGET', state, 'gen', 'head', 'trimmed', 'need', 'low', field))
-- PERSIST changes nothing: a replica that is behind, or a server that may not write, ends here by its error.
if generation ~= ARGV[1] then return {'RESET', redis.call('PERSIST', state)} end
local fence = tonumber(string.match(string.sub(last or '0 ', 1, 16), '^(%d+) ') or nil) -- Lua counts with 15 digits.
local left = redis.call('TTL', KEYS[3]) -- A lease ends within seconds: what lasts is none.
local attended = left >= 0 and left <= 600 and 1 or 0
local offset = tonumber(string.match(head or '', '^(%d+)%-%d+$') or nil)
if not offset then return redis.error_reply('ERR ' .. state .. ' has garbage in its field head: delete it') end
if not fence then return {'GARBLED', redis.call('PERSIST', state)} end
if fence >= seq then return {'DUPLICATE', head, low, attended} end
if fence ~= tonumber(ARGV[4]) then return {'GAP', string.format('%.0f', fence), redis.call('PERSIST', state)} end
if offset - (tonumber(trimmed) or 0) >= tonumber(ARGV[5]) then return {'FULL'} end

local time = ARGV[8] ~= '' and {ARGV[8], '0'} or redis.call('TIME')
-- The id commits to all entries before it: the same offset in another history has another one.
local chain = redis.sha1hex(table.concat({head, ARGV[2], ARGV[3], time[1], time[2]}, ' '))
local id = string.format('%.0f-%.0f', offset + #ARGV[9] + 1, tonumber(string.sub(chain, 1, 13), 16))
-- The first write is like the last one: where that is not allowed, nothing is done.
redis.call('HSET', state, 'need', math.max(tonumber(need) or 0, tonumber(ARGV[6])))
redis.call('XADD', KEYS[2], id, 'i', ARGV[2], 's', ARGV[3], 't', time[1], 'v', ARGV[6], 'n', ARGV[7], 'p', ARGV[9])
redis.call('HSET', state, 'head', id, field, ARGV[3] .. ' ' .. time[1])
if low == head then redis.call('HSET', state, 'oldest', time[1]) end
return {'DONE', id, low, attended}
