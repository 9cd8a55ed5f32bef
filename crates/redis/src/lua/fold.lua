-- Folds some partitions of a round, once: calls the functions of exports.lua, which precedes this file in one script,
-- and replaces fields of tables.
-- KEYS  1 state (hello.lua has its fields), 2 journal, 3 lease, 4 to 7 see exports.lua, 8 pulse:quarantine, then the
--       keys of additions, and the key of each write.
-- ARGV  1 version, 2 next version, 3 instance, 4 time to live of the lease in ms, 5 the round's last entry or '' to
--       fold no entry, 6 partitions done after this step or 'ALL', 7 first entry not to trim or '', 8 time of the
--       round's newest append, 9 to 11 see exports.lua, 12 late, 13 skewed, 14 duration of the round in ms, 15 bytes of
--       missing entries, 16 slices rolled up, 17 and 18 see exports.lua, 19 number of writes of tables, then the
--       arguments of additions, and for each write: command, key TTL or '', n, and n arguments.
-- Returns {'DONE'} or, if ARGV[7] is given, {'DONE', reason why the journal could not be trimmed, or ''},
--       {'STALE', version}, or {'ABSENT'} if the round's last entry is missing.
local KEYS, ARGV, tonumber, type, unpack, call, try = KEYS, ARGV, tonumber, type, unpack, redis.call, redis.pcall
local state, upto, refusal = KEYS[1], ARGV[5], nil
local v, head, open = unpack(call('HMGET', state, 'v', 'head', 'upto'))
if v ~= ARGV[1] then return {'STALE', v} end
if open == '' and upto ~= '' and upto ~= head and #call('XRANGE', KEYS[2], upto, upto) == 0 then return {'ABSENT'} end
-- Without a permission, the writes below would fail one by one and be quarantined. Servers from 7.0 on can check first.
local is_permitted = redis.acl_check_cmd
for command in string.gmatch(not is_permitted and '' or 'HINCRBY HSET HDEL EXPIRE ZADD ZMSCORE ZCARD EXISTS DEL RENAME SET GET ZREM ZREMRANGEBYRANK', '%u+') do
  if not is_permitted(command, KEYS[4], KEYS[5]) then return redis.error_reply("NOPERM no permissions to run " .. command) end
end
-- On a server that refuses writes, the script fails here, before any change. PERSIST needs no free memory, and after a
-- first write, the server lets a script write without free memory.
call('PERSIST', state)
call('HSET', state, 'v', ARGV[2], 'upto', upto, 'done', ARGV[6], 'folder', ARGV[3], 'rolled', ARGV[16], 'judged', upto .. ' ' .. ARGV[8])
try('SET', KEYS[3], ARGV[3], 'PX', ARGV[4])

-- A failed write does not end the script: its data is omitted, and its key is quarantined.
local function quarantine(key, reason)
  reason = tostring(type(reason) == 'table' and reason.err or reason)
  local number = tonumber(try('HINCRBY', state, 'quarantined', 1)) or 0
  if (tonumber(try('HLEN', KEYS[8])) or 100) >= 100 then try('DEL', KEYS[8]) end -- Also deletes a key of another type.
  try('HSET', KEYS[8], string.sub(key, 1, 600), ARGV[8] .. ' ' .. string.sub(reason, 1, 300) .. ' #' .. number)
  try('EXPIRE', KEYS[8], 86400)
end

local k, a, late = add_counters(8, 19, quarantine)
k, a, late = add_statistics(k, a, quarantine)

for i = 1, tonumber(ARGV[19]) do
  local key, n = KEYS[k + i], tonumber(ARGV[a + 3])
  for first = a + 4, a + 3 + n, 1000 do
    local reply = try(ARGV[a + 1], key, unpack(ARGV, first, math.min(a + 3 + n, first + 999)))
    if type(reply) == 'table' and reply.err then quarantine(key, reply) end
  end
  if ARGV[a + 2] ~= '' then try('EXPIRE', key, ARGV[a + 2]) end
  a = a + 3 + n
end

for field, n in pairs({late = ARGV[12] + late, skewed = tonumber(ARGV[13]), hole = tonumber(ARGV[15])}) do
  if n > 0 then try('HINCRBY', state, field, n) end
end
if ARGV[6] == 'ALL' then
  call('HSET', state, 'low', upto, 'upto', '', 'done', '', 'aside', '', 'took', ARGV[14], 'oldest', upto == head and '' or ARGV[8])
  -- If no entry is left, no version is needed until the next append.
  if upto == head then call('HSET', state, 'need', 0) end
end
if ARGV[7] ~= '' then
  -- If XTRIM fails, `trimmed` is not changed, so these entries still count as bytes of the journal.
  local trimmed = try('XTRIM', KEYS[2], 'MINID', ARGV[7])
  refusal = type(trimmed) == 'table' and trimmed.err or ''
  if refusal == '' then call('HSET', state, 'trimmed', string.match(ARGV[7], '^%d+'), 'untrimmed', '')
  else call('HSET', state, 'untrimmed', refusal) end
end
return {'DONE', refusal}
