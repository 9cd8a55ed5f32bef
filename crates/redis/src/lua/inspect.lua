-- Inspects the server for all instances: its memory, the keys in quarantine, and the missing tables of records.
-- KEYS  1 state, 2 pulse:quarantine, 3 pulse:revisions.
-- ARGV  1 prefix, 2 the time, 3 '1' to run INFO or '', then for each tier: seconds, and seconds for which slices are
--       kept.
-- Returns {'DONE', reason why INFO failed or ''}. Sets in the state:
--       memory: the policy of eviction, the number of evicted keys, and 1 if no memory is left;
--       gone: the number of slices whose table was found missing in the last hour, and some of the tables; '' for none.
local state, quarantine, revisions, now = KEYS[1], KEYS[2], KEYS[3], tonumber(ARGV[2])
local function ask(...) -- Returns the reply, or nil if there is no reply or the command failed.
  local reply = redis.pcall(...)
  return not (type(reply) == 'table' and reply.err) and reply or nil
end
redis.call('PERSIST', state) -- After PERSIST, writes need no free memory.
local generation, known_memory, known_gone = unpack(redis.call('HMGET', state, 'gen', 'memory', 'gone'))

local reply = ARGV[3] == '1' and redis.pcall('INFO')
if reply then
  local info = type(reply) == 'string' and reply or ''
  local function field(name) return string.match(info, '\n' .. name .. ':([^\r\n]*)') or '' end
  local most, used = tonumber(field('maxmemory')) or 0, tonumber(field('used_memory')) or 0
  local memory = table.concat({field('maxmemory_policy'), field('evicted_keys'), most > 0 and used >= 0.99 * most and 1 or 0}, ' ')
  if generation and memory ~= known_memory then redis.call('HSET', state, 'memory', memory) end
end

-- Returns whether a quarantined key still holds foreign data: a type that does not fit the name, or wrong sums.
local function is_wrong(key, reason)
  local name, slice = string.sub(key, #ARGV[1] + 1), string.match(reason, 'slice (%-?%d+)')
  if ask('EXISTS', key) == 0 then return false end
  if string.find(name, '^last_slot_') or string.find(name, '^stats:.*:p?start$') then return not ask('GETRANGE', key, 0, 0) end
  for _, ordered in ipairs({'^stats[:_]', '^known:$', '^slowest:', '^pulse:contexts$', '^pulse:timers$'}) do
    if string.find(name, ordered) then
      local members, scores = ask('ZCARD', key), ask('ZMSCORE', key, 'count', 'sum', 'sumsq', 'min', 'max')
      local wrong = not members or not scores or string.find(name, '^stats:') and members > 16
      for i = 1, 5 do wrong = wrong or scores[i] and not (math.abs(tonumber(scores[i]) or 1 / 0) < 1e300) end
      return wrong
    end
  end
  local count = slice and ask('HGET', key, slice) or '0' -- A large count could overflow at the next addition.
  return not ask('HLEN', key) or not string.find(count, '^%-?%d+$') or math.abs(tonumber(count)) > 2 ^ 62
end
if (ask('HLEN', quarantine) or 101) <= 100 then
  local listed = ask('HGETALL', quarantine) or {}
  for i = 1, #listed, 2 do
    if not is_wrong(listed[i], listed[i + 1]) then redis.pcall('HDEL', quarantine, listed[i])
    else redis.pcall('EXPIRE', quarantine, 86400) end
  end
end

-- The revision of a slice whose table is missing becomes `gone` and the time at which the loss was found.
local kept, count, gone, listed = {}, 0, {}, ask('HGETALL', revisions) or {}
for i = 4, #ARGV, 2 do kept[ARGV[i]] = tonumber(ARGV[i + 1]) end
for i = 1, #listed, 2 do
  local tier, slice, revision = string.match(listed[i], '^%d+'), string.match(listed[i + 1], '^(%-?%d+) (.*)$')
  local key = kept[tier or ''] and slice and ARGV[1] .. 'pulse:r1:' .. tier .. ':' .. slice
  if key and slice + kept[tier] > now and ask('EXISTS', key) == 0 then
    local at = tonumber(string.match(revision, '^gone (%d+)$') or nil)
    if not at then redis.pcall('HSET', revisions, listed[i], slice .. ' gone ' .. ARGV[2]) end
    if now - (at or now) < 3600 then
      count = count + 1
      if count <= 3 then gone[count] = key end
    end
  end
end
gone = count > 0 and count .. ', as ' .. table.concat(gone, ', ') or ''
if generation and gone ~= (known_gone or '') then redis.call('HSET', state, 'gone', gone) end
return {'DONE', type(reply) == 'table' and reply.err or ''}
