-- Acquires the fold lease, and sets a version of the state that all later steps must give.
-- KEYS  1 state (hello.lua has its fields), 2 journal, 3 lease.
-- ARGV  1 instance, 2 time to live of the lease in ms, 3 the new version, 4 newest version of entries that the
--       instance can read, 5 seconds for which a newer entry waits for a newer instance, 6 time or '' for TIME.
-- Returns {'HELD'} if another instance has the lease, {'NEWER'} if an entry waits for a newer instance, {'NONE'} if
--       there is no journal, or {'MINE', low, upto or '', done, aside, rolled (the slices that are rolled up), reason
--       why the key held no lease of this crate or '', '1' if newer entries have waited long enough or '', newest time
--       of an append in the begun round or ''}.
local low, upto, done, aside, rolled, newer, head, trimmed, judged = unpack(redis.call('HMGET', KEYS[1], 'low', 'upto', 'done', 'aside', 'rolled', 'newer', 'head', 'trimmed', 'judged'))
if not low then return {'NONE'} end
local holder, left = try('GET', KEYS[3]), redis.call('TTL', KEYS[3])
local foreign = type(holder) == 'table' and holder.err or (left == -1 or left > 600) and 'it does not expire soon' or ''
if holder and holder ~= ARGV[1] and foreign == '' then return {'HELD'} end
redis.call('PERSIST', KEYS[1]) -- See fold.lua: later writes need no free memory. Folding frees memory.
local function offset(id) return tonumber(string.match(id or '', '^%d+') or nil) or 0 end
-- A folder may have noted an entry of a newer version (amend.lua). The entry waits, unless it is gone, folded or set
-- aside.
local id, version, at, waited = string.match(newer or '', '^(%d+%-%d+) (%d+) (%d+) (%d+)$')
local is_newer = id and tonumber(version) > tonumber(ARGV[4]) and offset(id) > offset(low) and not string.find(' ' .. (aside or ''), ' ' .. id .. ' ', 1, true)
local entry = is_newer and redis.pcall('XRANGE', KEYS[2], id, id)[1]
newer = ''
if entry then
  -- `waited` is the sum of the times between attempts, each limited to a minute, because the server's clock may jump.
  -- The age of the entry must reach the limit too, because the sum may include the wait of an earlier entry
  -- (amend.lua). The fields of an entry are in the order of append.lua.
  local now = ARGV[6] ~= '' and ARGV[6] or redis.call('TIME')[1]
  waited = waited + math.max(0, math.min(now - at, 60))
  newer = table.concat({id, version, now, string.format('%.0f', waited)}, ' ')
  local age = now - (tonumber(entry[2][6]) or 0)
  if waited < tonumber(ARGV[5]) or (age >= 0 and age < tonumber(ARGV[5])) then
    redis.call('HSET', KEYS[1], 'newer', newer)
    return {'NEWER'}
  end
end
-- Another program may have renamed the state for a time. Meanwhile a new state was used, whose entries begin at offset
-- 0, before the trimmed position. That state is lost, and with it the knowledge which of these entries were folded. So
-- they are removed. They count as set aside if their instances have no fence in this state.
local last, strays, from, page = math.min(offset(trimmed), offset(low)), 0, '-', nil
repeat
  page = redis.pcall('XRANGE', KEYS[2], from, string.format('%.0f', last), 'COUNT', 8)
  for _, stray in ipairs(page) do
    from = '(' .. stray[1]
    local is_ours = stray[2][1] ~= 'i' or redis.call('HGET', KEYS[1], 'f:' .. stray[2][2])
    strays = strays + (is_ours and 0 or tonumber(stray[2][10]) or 0)
  end
until #page < 8
local removed = from ~= '-' and redis.pcall('XTRIM', KEYS[2], 'MINID', string.format('%.0f-0', last + 1))
if type(removed) == 'number' and strays > 0 then redis.pcall('HINCRBY', KEYS[1], 'set_aside', string.format('%.0f', strays)) end
redis.call('SET', KEYS[3], ARGV[1], 'PX', ARGV[2])
redis.call('HSET', KEYS[1], 'v', ARGV[3], 'newer', newer)
if low == head then redis.call('HSET', KEYS[1], 'need', 0) end
local judged_upto, stamp = string.match(judged or '', '^(%S+) (%-?%d+)$')
return {'MINE', low, upto, done, aside, rolled, foreign, entry and '1' or '', judged_upto == upto and stamp or ''}
