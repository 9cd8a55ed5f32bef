-- Merges one call: counters, statistics, ranking and histograms, once.
--
-- KEYS  1 fence, 2 known:, 3 slowest:AccessTime, 4 pulse:contexts, 5 pulse:timers, then
--       for each counter group: its count:{p}:{name} keys;
--       for each context: stats:{context}:AccessTime, …:start, …:last, …:pstart;
--       for each histogram group: its pulse:hist:{p}:{context} keys.
-- ARGV  1 number of the call, 2 number of the last call that must have been merged,
--       3 seconds to keep the fence, 4 the server's time in Unix seconds or '' for TIME,
--       5 bytes of a counter key before '{p}:{name}', 6 contexts that the ranking keeps,
--       7 counter groups, 8 contexts, 9 histogram groups, then
--       for each counter group: slice, samples * p, key TTL or '', n, and n increments;
--       for each context: 'http', 'timer' or 'all', name, last seen, n, and n hours, ascending:
--         start, ISO start, count, sum, sumsq, min, max;
--       for each histogram group: slice, samples * p, samples, key TTL or '',
--         '1' when p is an hour, n, and n packed histograms.
-- Returns {'MERGED', late, skewed, key, reason, key, reason, …}, {'DUPLICATE'}, {'GAP', fence}
--       or {'RESET'}.

local KEYS, ARGV, tonumber, type = KEYS, ARGV, tonumber, type
local call, try = redis.call, redis.pcall
local find, sub, floor, unpack = string.find, string.sub, math.floor, unpack

-- The fence. Its write is the first one and by `call`: what keeps the server from writing at all
-- (out of memory, read-only, disk full, replicas missing) ends the script here, with nothing done.
local seq, previous = tonumber(ARGV[1]), tonumber(ARGV[2])
-- Beside the number stand exceptions of that call, whose answer may have been lost: a repetition is
-- told them again.
local last, late_then, skewed_then = string.match(call('GET', KEYS[1]) or '', '^(%d+) ?(%d*) ?(%d*)$')
local fence = tonumber(last)
-- Before the sender is told that something is missing, a write that changes nothing: a replica that is
-- behind, or a server that may not write, ends the script here by its error, and is no reason for it.
if fence == nil then
  if previous > 0 then
    call('DEL', KEYS[1])
    return {'RESET'}
  end
elseif fence == seq and late_then ~= '' then
  return {'MERGED', tonumber(late_then), tonumber(skewed_then)}
elseif fence >= seq then
  return {'DUPLICATE'}
elseif fence ~= previous then
  call('EXPIRE', KEYS[1], ARGV[3])
  return {'GAP', string.format('%.0f', fence)}
end
local now = tonumber(ARGV[4])
if now == nil then now = tonumber(call('TIME')[1]) end

-- Nor may anything be done where a permission is missing (7.0 and newer can be asked): what is tried
-- below and not allowed would be dropped.
local may = redis.acl_check_cmd
if may then
  local asked = {
    {'HINCRBY', KEYS[2], '0', '1'}, {'HSET', KEYS[2], '0', '1'}, {'HGET', KEYS[2], '0'},
    {'HDEL', KEYS[2], '0'}, {'HLEN', KEYS[2]}, {'HKEYS', KEYS[2]}, {'EXPIRE', KEYS[2], '1'},
    {'ZADD', KEYS[2], '0', '0'}, {'ZRANGE', KEYS[2], '0', '0'}, {'EXISTS', KEYS[2]},
    {'RENAME', KEYS[2], KEYS[3]}, {'DEL', KEYS[2]}, {'ZREMRANGEBYRANK', KEYS[3], '0', '0'},
  }
  for _, command in ipairs(asked) do
    if not may(unpack(command)) then
      return redis.error_reply("NOPERM this user has no permissions to run the '" .. string.lower(command[1]) .. "' command")
    end
  end
end
call('SET', KEYS[1], ARGV[1], 'EX', ARGV[3])

-- Every other write is tried; what fails is dropped and told.
local result = {'MERGED', 0, 0}
local told = 3
local function quarantine(key, reason)
  if type(reason) == 'table' then reason = reason.err end
  result[told + 1], result[told + 2] = key, tostring(reason)
  told = told + 2
end

-- ZADDs of many members, collected and sent a hundred at a time.
local function zadd(key, option)
  local args, n = {'ZADD', key, option}, option and 3 or 2
  local first = n
  return function(score, member)
    if score then
      args[n + 1], args[n + 2] = score, member
      n = n + 2
    end
    if n > first and (not score or n > 200) then
      local reply = try(unpack(args, 1, n))
      if type(reply) == 'table' then quarantine(key, reply) end
      n = first
    end
  end
end
local add_known, add_slowest = zadd(KEYS[2]), zadd(KEYS[3])
local add_context, add_timer = zadd(KEYS[4], 'GT'), zadd(KEYS[5], 'GT')

local latest = now + 3600
local prefix = tonumber(ARGV[5]) + 1
local k, a = 5, 9

for _ = 1, tonumber(ARGV[7]) do
  local slice, ttl, n = ARGV[a + 1], ARGV[a + 3], tonumber(ARGV[a + 4])
  local start = tonumber(slice)
  if start <= latest then
    local pushed_out = start - tonumber(ARGV[a + 2])
    for i = 1, n do
      local key, by = KEYS[k + i], ARGV[a + 4 + i]
      local sum = try('HINCRBY', key, slice, by)
      if type(sum) ~= 'number' then
        quarantine(key, sum)
      elseif sum == tonumber(by) then
        -- A new slice (or one that stood at 0): the oldest goes, and the key lives on.
        try('HDEL', key, pushed_out)
        if ttl ~= '' then try('EXPIRE', key, ttl) end
        add_known(0, sub(key, prefix))
      end
    end
  end
  k, a = k + n, a + 4 + n
end
add_known()

local function is_hour(text)
  if not find(text, '^%d%d%d%d%-%d%d%-%d%dT%d%d:00:00$') then return false end
  local month, day, hour = tonumber(sub(text, 6, 7)), tonumber(sub(text, 9, 10)), tonumber(sub(text, 12, 13))
  return month >= 1 and month <= 12 and day >= 1 and day <= 31 and hour <= 23
end

-- The ISO form of the hour that a time lies in.
local function iso_hour(seconds)
  local days = floor(seconds / 86400)
  local z = days + 719468
  local era = floor(z / 146097)
  local of_era = z - era * 146097
  local year_of_era = floor((of_era - floor(of_era / 1460) + floor(of_era / 36524) - floor(of_era / 146096)) / 365)
  local of_year = of_era - (365 * year_of_era + floor(year_of_era / 4) - floor(year_of_era / 100))
  local march_month = floor((5 * of_year + 2) / 153)
  local day = of_year - floor((153 * march_month + 2) / 5) + 1
  local month = march_month < 10 and march_month + 3 or march_month - 9
  local year = year_of_era + era * 400 + (month <= 2 and 1 or 0)
  return string.format('%04d-%02d-%02dT%02d:00:00', year, month, day, floor((seconds - days * 86400) / 3600))
end

-- Adds to a set of statistics, whole or not at all. Returns count and sum, or nil and the reason.
local HUGE = math.huge
local function add(key, count, sum, sumsq, min, max)
  local set = try('ZRANGE', key, 0, -1, 'WITHSCORES')
  if set.err then return nil, set end
  local least, most
  for i = 1, #set, 2 do
    local member, score = set[i], tonumber(set[i + 1])
    if score == nil then return nil, 'a score is not a number' end
    if member == 'count' then count = count + score
    elseif member == 'sum' then sum = sum + score
    elseif member == 'sumsq' then sumsq = sumsq + score
    elseif member == 'min' then least = score
    elseif member == 'max' then most = score
    end
  end
  if least and least <= min then min = least end
  if most and most >= max then max = most end
  -- Infinite and NaN fail one of these.
  if not (count < HUGE and count > -HUGE and sum < HUGE and sum > -HUGE
      and sumsq < HUGE and sumsq > -HUGE and min > -HUGE and max < HUGE) then
    return nil, 'the sum is not a finite number'
  end
  -- Numbers reach the server with 17 digits, unlike those that Lua itself makes strings of.
  local reply
  if min == least and max == most then
    reply = try('ZADD', key, count, 'count', sum, 'sum', sumsq, 'sumsq')
  else
    reply = try('ZADD', key, min, 'min', max, 'max', count, 'count', sum, 'sum', sumsq, 'sumsq')
  end
  if type(reply) == 'table' then return nil, reply end
  return count, sum
end

local late, skewed = 0, 0
for _ = 1, tonumber(ARGV[8]) do
  local stats, start_key, last, pstart_key = KEYS[k + 1], KEYS[k + 2], KEYS[k + 3], KEYS[k + 4]
  local kind, name, hours = ARGV[a + 1], ARGV[a + 2], tonumber(ARGV[a + 4])
  local seen = tonumber(ARGV[a + 3])
  local bad, why, count, sum
  local start
  if hours > 0 then
    start = try('GET', start_key)
    if type(start) == 'table' then
      bad, why = start_key, start
    elseif start ~= ARGV[a + 6] and not (start and is_hour(start)) then
      -- A set that does not say its hour is taken for the current one's.
      start = nil
      local exists = try('EXISTS', stats)
      if exists == 1 then
        start = iso_hour(now)
        local reply = try('SET', start_key, start)
        if reply.err then bad, why = start_key, reply end
      end
    end
  end
  for i = 0, hours - 1 do
    local h = a + 4 + 7 * i
    local iso, n = ARGV[h + 2], tonumber(ARGV[h + 3])
    local into = nil
    if tonumber(ARGV[h + 1]) > latest then
      if kind ~= 'all' then skewed = skewed + n end
    elseif bad then
      -- Its statistics cannot be read: none of its hours can be placed.
    elseif start == iso then
      into = stats
    elseif start and iso > start then
      local moved
      if try('EXISTS', stats) == 1 then moved = try('RENAME', stats, last) else moved = try('DEL', last) end
      if type(moved) == 'table' and moved.err then
        bad, why = stats, moved
      else
        try('SET', pstart_key, start)
        try('SET', start_key, iso)
        start, into = iso, stats
      end
    else
      local pstart = try('GET', pstart_key)
      if type(pstart) == 'table' then
        bad, why = pstart_key, pstart
      else
        if pstart and pstart ~= iso and not is_hour(pstart) then pstart = nil end
        if pstart == iso then
          into = last
        elseif pstart and iso < pstart then
          if kind ~= 'all' then late = late + n end
        elseif start then
          try('DEL', last)
          try('SET', pstart_key, iso)
          into = last
        else
          try('SET', start_key, iso)
          start, into = iso, stats
        end
      end
    end
    if into then
      local total, reason = add(into, n, tonumber(ARGV[h + 4]), tonumber(ARGV[h + 5]),
        tonumber(ARGV[h + 6]), tonumber(ARGV[h + 7]))
      if total == nil then
        quarantine(into, reason)
      elseif into == stats then
        count, sum = total, reason
      end
    end
  end
  if bad then quarantine(bad, why) end
  if kind ~= 'all' then
    if count and count > 0 then add_slowest(sum / count, name) end
    if seen > now then seen = now end
    if kind == 'http' then add_context(seen, name) else add_timer(seen, name) end
  end
  k, a = k + 4, a + 4 + 7 * hours
end
add_slowest()
add_context()
add_timer()
if tonumber(ARGV[8]) > 0 then
  local reply = try('ZREMRANGEBYRANK', KEYS[3], 0, -1 - tonumber(ARGV[6]))
  if type(reply) == 'table' then quarantine(KEYS[3], reply) end
end

-- Histograms. A field is a head and a tail of groups, each of a packed scale, {index = count} and,
-- for hours, an array of outcomes and errors; the head is one group, after a 16-bit length of both.
-- To unpack and pack again costs ten times what it costs to append, so a delta of the current slice
-- is appended until the tail outweighs the head. What is over is compact.
local pack, decode = cmsgpack.pack, cmsgpack.unpack
local head, lengths = struct.pack, struct.unpack
local byte, insert, sort = string.byte, table.insert, table.sort

local function coarsen(buckets, from, to)
  if from <= to then return buckets end
  local by, coarse = 2 ^ (from - to), {}
  for index, n in pairs(buckets) do
    index = floor(index / by)
    coarse[index] = (coarse[index] or 0) + n
  end
  return coarse
end

-- The length of the head; nil when it is no histogram.
local function head_of(field)
  if #field < 5 then return nil end
  local mark, length = lengths('>BI2', field)
  if mark ~= 0xcd or length > #field or length < 5 or byte(field, 4) > 20 then return nil end
  return length
end

local function with_head(body)
  return head('>BI2', 0xcd, #body + 3) .. body
end

-- Makes one group of all, no finer than `coarsest`. Fails (to be caught) when they are none.
local function compacted(groups, coarsest)
  local values = {decode(groups)}
  local scale, buckets, outcomes
  local i, n = 1, #values
  if n < 2 then error('no histogram') end
  while i <= n do
    local mine, kept, ended = values[i], values[i + 1], values[i + 2]
    if type(mine) ~= 'number' or mine < 0 or mine > 20 then error('no histogram') end
    i = i + 2
    if type(ended) == 'table' then i = i + 1 else ended = nil end
    if scale == nil then
      scale, buckets, outcomes = mine, kept, ended
    else
      if mine < scale then
        buckets, scale = coarsen(buckets, scale, mine), mine
      else
        kept = coarsen(kept, mine, scale)
      end
      for index, count in pairs(kept) do buckets[index] = (buckets[index] or 0) + count end
      if outcomes and ended then
        for j = 1, #outcomes do outcomes[j] = outcomes[j] + (ended[j] or 0) end
      else
        outcomes = outcomes or ended
      end
    end
  end
  if scale > coarsest then buckets, scale = coarsen(buckets, scale, coarsest), coarsest end
  if outcomes then return with_head(pack(scale, buckets, outcomes)) end
  return with_head(pack(scale, buckets))
end

local this_hour = now - now % 3600

local function compact(key, field, coarsest)
  local old = try('HGET', key, field)
  local length = old and head_of(old)
  if not length or (length == #old and byte(old, 4) <= coarsest) then return end
  local ok, packed = pcall(compacted, sub(old, 4), coarsest)
  if ok then try('HSET', key, field, packed) end
end

-- After a new slice: one is pushed out, no more than `samples` stay, those that are over are made
-- compact and, in hours, lose their fineness.
local function after_new(key, new, pushed_out, samples, hourly)
  try('HDEL', key, pushed_out)
  local slices = {}
  for _, field in ipairs(try('HKEYS', key)) do
    local start = tonumber(field)
    if start then insert(slices, start) end
  end
  sort(slices)
  local surplus = #slices - samples
  for i, start in ipairs(slices) do
    if i <= surplus then
      try('HDEL', key, start)
    elseif hourly then
      if start < this_hour then compact(key, start, 2) end
    elseif start < new and (slices[i + 1] or new) >= new then
      compact(key, start, 4)
    end
  end
end

for _ = 1, tonumber(ARGV[9]) do
  local slice, span, samples = ARGV[a + 1], tonumber(ARGV[a + 2]), tonumber(ARGV[a + 3])
  local ttl, hourly, n = ARGV[a + 4], ARGV[a + 5] == '1', tonumber(ARGV[a + 6])
  local start = tonumber(slice)
  if start <= latest then
    local coarsest = (hourly and start < this_hour) and 2 or 4
    local current = start + span / samples > now
    for i = 1, n do
      local key, delta = KEYS[k + i], ARGV[a + 6 + i]
      local old = try('HGET', key, slice)
      local packed, ok = nil, true
      if type(old) == 'string' then
        local length = head_of(old)
        if not length then
          ok = false
        elseif current and #old - length < (length > 256 and length or 256) then
          packed = old .. delta
        else
          ok, packed = pcall(compacted, sub(old, 4) .. delta, coarsest)
        end
      elseif not old then
        if coarsest < byte(delta) then
          packed = compacted(delta, coarsest)
        else
          packed = with_head(delta)
        end
      end
      if not ok then
        quarantine(key, 'slice ' .. slice .. ' holds no histogram')
      elseif not packed then
        quarantine(key, old)
      else
        local reply = try('HSET', key, slice, packed)
        if type(reply) == 'table' then
          quarantine(key, reply)
        elseif not old then
          after_new(key, start, start - span, samples, hourly)
          if ttl ~= '' then try('EXPIRE', key, ttl) end
        end
      end
    end
  end
  k, a = k + n, a + 6 + n
end

if late > 0 or skewed > 0 then
  try('SET', KEYS[1], string.format('%s %.0f %.0f', ARGV[1], late, skewed), 'EX', ARGV[3])
end
result[2], result[3] = late, skewed
return result
