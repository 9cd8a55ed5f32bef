-- What becomes of a state or journal that cannot be folded as it is, under our version.
-- KEYS  1 state, 2 journal, 3 pulse:aside.
-- ARGV  1 version, 2 name for the next one, then 'HOLE'; or 'FENCES', and of each its field and its value when it was
--       looked at; or the id of an entry to set aside, the requests in it, and how many of those are kept.
-- Returns {'STALE', version} or {'DONE', fences removed, why what pulse:aside held is gone, or ''}.
local state, what, removed, strange = KEYS[1], ARGV[3], 0, nil
local v, head, low, upto, aside = unpack(redis.call('HMGET', state, 'v', 'head', 'low', 'upto', 'aside'))
if v ~= ARGV[1] then return {'STALE', v} end
redis.call('PERSIST', state)
redis.call('HSET', state, 'v', ARGV[2])
if what == 'FENCES' then
  for i = 4, #ARGV, 2 do
    if redis.call('HGET', state, ARGV[i]) == ARGV[i + 1] then removed = removed + redis.call('HDEL', state, ARGV[i]) end
  end
elseif what == 'HOLE' then
  -- Entries that had been acknowledged are gone: what comes after must not wait for them.
  local function left(last) return #redis.call('XRANGE', KEYS[2], '(' .. low, last, 'COUNT', 1) > 0 end
  local to = (upto ~= '' and left('+')) and upto or head
  if to ~= low and not left(to) then
    local from, till = string.match(low, '^%d+'), string.match(to, '^%d+')
    redis.call('HINCRBY', state, 'hole', string.format('%.0f', till - from))
    redis.call('HSET', state, 'low', to, 'upto', '', 'done', '', 'aside', '', 'oldest', '', 'trimmed', till)
  end
else
  local entry = redis.call('XRANGE', KEYS[2], what, what)[1]
  if entry then
    local copy = {'XADD', KEYS[3], 'MAXLEN', ARGV[5], '*', 'id', what, unpack(entry[2], 1, math.min(#entry[2], 100))}
    strange = redis.pcall(unpack(copy)).err
    if strange then redis.call('DEL', KEYS[3]); redis.pcall(unpack(copy)) end
    redis.pcall('HINCRBY', state, 'set_aside', ARGV[4])
    -- Appending raises `need` again where it must.
    redis.call('HSET', state, 'aside', (aside or '') .. what .. ' ', 'need', 0)
  end
end
return {'DONE', removed, strange or ''}
