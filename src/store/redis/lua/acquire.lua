-- Acquires the lease to fold, and sets a version of the state that all later steps must give.
-- KEYS  1 state, 2 journal, 3 lease.
-- ARGV  1 instance, 2 time to live of the lease in ms, 3 the new version, 4 newest version of entries that the
--       instance can read, 5 seconds for which a newer entry waits for a newer instance, 6 time or '' for TIME.
-- Returns {'HELD'}, {'NEWER'}, {'NONE'} without a journal, or {'MINE', low, upto or '', partitions done, aside, rolled,
--       reason why the key held no lease of this crate, or ''}.
local low, upto, done, aside, rolled, need, head, trimmed = unpack(redis.call('HMGET', KEYS[1], 'low', 'upto', 'done', 'aside', 'rolled', 'need', 'head', 'trimmed'))
if not low then return {'NONE'} end
local holder, left = redis.pcall('GET', KEYS[3]), redis.call('TTL', KEYS[3])
local foreign = type(holder) == 'table' and holder.err or (left == -1 or left > 600) and 'it does not expire soon' or ''
if holder and holder ~= ARGV[1] and foreign == '' then return {'HELD'} end
if (tonumber(need) or 0) > tonumber(ARGV[4]) then
  local oldest = redis.call('XRANGE', KEYS[2], '(' .. low, head, 'COUNT', 1)[1]
  local now = ARGV[6] ~= '' and ARGV[6] or redis.call('TIME')[1]
  -- Fields are in the order of append.lua. Where entries are gone, any instance may close the hole.
  if (oldest and now - (tonumber(oldest[2][6]) or 0) < tonumber(ARGV[5])) or (not oldest and low == head) then return {'NEWER'} end
end
redis.call('PERSIST', KEYS[1]) -- Allowed without free memory, and so are all writes after it: folding frees memory.
redis.call('SET', KEYS[3], ARGV[1], 'PX', ARGV[2])
redis.call('HSET', KEYS[1], 'v', ARGV[3])
local function offset(id) return tonumber(string.match(id or '', '^%d+') or nil) or 0 end
if offset(low) > offset(head) then
  -- Folders of earlier versions took an entry of another program behind the head for their progress. Entries that are
  -- there although all before it were trimmed are not folded; the first of them begins where the last folded one ended.
  local first = offset(trimmed) >= offset(low) and redis.call('XRANGE', KEYS[2], '-', head, 'COUNT', 1)[1]
  low = first and string.format('%.0f-0', offset(first[1]) - #(first[2][12] or '') - 1) or head
  redis.call('HSET', KEYS[1], 'low', low, 'trimmed', offset(low))
end
if offset(upto) > offset(head) then
  upto = head
  redis.call('HSET', KEYS[1], 'upto', upto)
end
return {'MINE', low, upto, done, aside, rolled, foreign}
