-- If the state has the given version, removes fences, closes a hole in the journal, makes folders wait for a newer
-- version of this crate, or sets an entry aside.
-- KEYS  1 state (hello.lua has its fields), 2 journal, 3 pulse:aside.
-- ARGV  1 version, 2 next version, then 'HOLE'; or 'FENCES' and for each fence its field and the value that was read;
--       or 'NEWER', the id and the version of an entry that the folder cannot read, and the time or '' for TIME; or the
--       id of an entry to set aside, the number of its requests, the most entries of pulse:aside, the most bytes of
--       each entry there, and the time to live of pulse:aside in seconds.
-- Returns {'STALE', version} or {'DONE', fences removed, reason why foreign data in pulse:aside was deleted, or ''}.
local state, target, removed, foreign = KEYS[1], ARGV[3], 0, nil
local v, head, low, upto, aside, newer = unpack(redis.call('HMGET', state, 'v', 'head', 'low', 'upto', 'aside', 'newer'))
if v ~= ARGV[1] then return {'STALE', v} end
redis.call('PERSIST', state)
redis.call('HSET', state, 'v', ARGV[2])
if target == 'FENCES' then
  for i = 4, #ARGV, 2 do
    if redis.call('HGET', state, ARGV[i]) == ARGV[i + 1] then removed = removed + redis.call('HDEL', state, ARGV[i]) end
  end
elseif target == 'HOLE' then
  -- Acknowledged entries are missing from the journal, so folding continues after the missing entries.
  local function has_entries(last) return #redis.call('XRANGE', KEYS[2], '(' .. low, last, 'COUNT', 1) > 0 end
  local to = (upto ~= '' and has_entries(head)) and upto or head
  if to ~= low and not has_entries(to) then
    local from, till = string.match(low, '^%d+'), string.match(to, '^%d+')
    redis.call('HINCRBY', state, 'hole', string.format('%.0f', till - from))
    redis.call('HSET', state, 'low', to, 'upto', '', 'done', '', 'aside', '', 'oldest', '', 'trimmed', till)
    if to == head then redis.call('HSET', state, 'need', 0) end
  end
elseif target == 'NEWER' then
  local now = ARGV[6] ~= '' and ARGV[6] or redis.call('TIME')[1]
  -- If an earlier entry waited, its wait also counts for this entry, because both need the same newer instance.
  local at, waited = string.match(newer or '', ' (%d+) (%d+)$')
  if not at or math.abs(now - at) > 60 then waited = '0' end
  redis.call('HSET', state, 'newer', table.concat({ARGV[4], ARGV[5], now, waited}, ' '))
else
  local entry = redis.call('XRANGE', KEYS[2], target, target)[1]
  if entry then
    local fields, bytes, left = entry[2], 0, tonumber(ARGV[6])
    local copy = {'XADD', KEYS[3], 'MAXLEN', ARGV[5], '*', 'id', target}
    for i, part in ipairs(fields) do
      if i <= 100 then copy[#copy + 1] = string.sub(part, 1, math.max(left, 0)) end
      bytes, left = bytes + #part, left - #part
    end
    if left < 0 or #fields > 100 then copy[#copy + 1], copy[#copy + 2] = 'cut_from_bytes', bytes end
    foreign = try(unpack(copy)).err
    if foreign then redis.call('DEL', KEYS[3]); redis.call(unpack(copy)) end
    redis.pcall('EXPIRE', KEYS[3], ARGV[7])
    redis.pcall('HINCRBY', state, 'set_aside', ARGV[4])
    redis.call('HSET', state, 'aside', (aside or '') .. target .. ' ')
  end
end
return {'DONE', removed, foreign or ''}
