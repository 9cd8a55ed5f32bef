-- Adds to counters and to the book's statistics. Programs in other languages may add to both. This file precedes
-- fold.lua in one script. add_counters and add_statistics get the indexes (k, a) of the last key and argument that were
-- read before, and return the indexes of the last key and argument that they have read.
-- KEYS  4 known:, 5 slowest:AccessTime, 6 pulse:contexts, 7 pulse:timers. The additions follow:
--       for each counter group, its keys count:{p}:{name};
--       for each context, stats:{context}:AccessTime, …:start, …:last and …:pstart.
-- ARGV  9 hour of the round's newest append in ISO form, 10 number of bytes of a counter key before '{p}:{name}',
--       11 length of the ranking, 17 number of counter groups, 18 number of contexts. The additions follow:
--       for each counter group (the counters of one slice): slice, seconds for which slices are kept, TTL of its keys
--         or '', '1' to set the TTL also of keys that have one, n, and n increments;
--       for each context: 'http', 'timer' or 'all', name, time of the last sample, n, and n hours, oldest first:
--         start, ISO start, count, sum, sumsq, min, max.
local KEYS, ARGV, tonumber, type, unpack, try = KEYS, ARGV, tonumber, type, unpack, redis.pcall

-- Returns a function that adds a member to a sorted set. One ZADD adds a hundred members; a call without arguments adds
-- the remaining members.
local function zadd(key, option, quarantine)
  local members = {}
  return function(score, member)
    if #members > 0 and (not score or #members >= 200) then
      local reply = try('ZADD', key, option, unpack(members))
      if type(reply) == 'table' then quarantine(key, reply) end
      members = {}
    end
    members[#members + 1], members[#members + 2] = score, member
  end
end

-- Adds to counters, and lists new counters in known:.
local function add_counters(k, a, quarantine)
  local list_counter, prefix = zadd(KEYS[4], 'CH', quarantine), tonumber(ARGV[10]) + 1
  for _ = 1, tonumber(ARGV[17]) do
    local slice, ttl, renews, n = ARGV[a + 1], ARGV[a + 3], ARGV[a + 4] == '1', tonumber(ARGV[a + 5])
    local pushed_out = string.format('%.0f', slice - ARGV[a + 2])
    for i = 1, n do
      local key, by = KEYS[k + i], ARGV[a + 5 + i]
      local sum = try('HINCRBY', key, slice, by)
      if type(sum) ~= 'number' then
        quarantine(key, sum.err .. ', slice ' .. slice)
      elseif sum == tonumber(by) then
        -- The slice is new, or was 0, so the slice that is no longer retained is removed. If that slice existed, the
        -- key is already listed and already has a TTL.
        if try('HDEL', key, pushed_out) ~= 1 or renews then
          if ttl ~= '' then try('EXPIRE', key, ttl) end
          list_counter(0, string.sub(key, prefix))
        end
      end
    end
    k, a = k + n, a + 5 + n
  end
  list_counter()
  return k, a
end

local function is_hour(text)
  local month, day, hour = string.match(text, '^%d%d%d%d%-(%d%d)%-(%d%d)T(%d%d):00:00$')
  return month and month >= '01' and month <= '12' and day >= '01' and day <= '31' and hour <= '23'
end

-- Adds to a set of statistics, completely or not at all. Returns the mean, or nil and the reason.
local function add(key, sums, min, max)
  local old, huge = try('ZMSCORE', key, 'count', 'sum', 'sumsq', 'min', 'max'), math.huge
  if old.err then return nil, old end
  if try('ZCARD', key) > 16 then return nil, 'it has more than 16 members: delete it' end
  local least, most = tonumber(old[4]), tonumber(old[5])
  min, max = math.min(min, least or min), math.max(max, most or max)
  local count, sum, sumsq = sums.count + (old[1] or 0), sums.sum + (old[2] or 0), sums.sumsq + (old[3] or 0)
  for _, x in ipairs({count, sum, sumsq, min, max}) do
    if not (x > -huge and x < huge) then return nil, 'the sum is not a finite number' end -- Also refuses NaN.
  end
  -- The numbers are not converted to text here: the server writes 17 digits, but Lua's conversion writes fewer.
  local bounds = (min ~= least or max ~= most) and {min, 'min', max, 'max'} or {}
  local reply = try('ZADD', key, count, 'count', sum, 'sum', sumsq, 'sumsq', unpack(bounds))
  if type(reply) == 'table' then return nil, reply end
  return count > 0 and sum / count
end

-- Adds hours to the statistics of a context. An hour later than the current one becomes the current hour, and the
-- current hour becomes the last hour. Returns the mean of the current hour if it has changed, and the number of samples
-- older than the last hour.
local function add_hours(k, a, quarantine)
  local stats, start_key, last, pstart_key = KEYS[k + 1], KEYS[k + 2], KEYS[k + 3], KEYS[k + 4]
  local kind, hours, late = ARGV[a + 1], tonumber(ARGV[a + 4]), 0
  local start, bad_key, reason, mean = try('GET', start_key), nil, nil, nil
  if type(start) == 'table' then
    bad_key, reason = start_key, start
  elseif not start or not is_hour(start) then
    -- A set without an hour counts for the hour of the round.
    start = try('EXISTS', stats) == 1 and ARGV[9]
    local reply = start and try('SET', start_key, start)
    if reply and reply.err then bad_key, reason = start_key, reply end
  end
  for h = a + 4, a + 4 + 7 * (hours - 1), 7 do
    local iso, n, into = ARGV[h + 2], tonumber(ARGV[h + 3]), nil
    local pstart = not bad_key and (not start or iso < start) and try('GET', pstart_key)
    if type(pstart) == 'table' then bad_key, reason = pstart_key, pstart end
    if bad_key then into = nil -- If the hour of a set cannot be read, no hour can be added.
    elseif start == iso then
      into = stats
    elseif start and iso > start then
      local moved = try('EXISTS', stats) == 1 and try('RENAME', stats, last) or try('DEL', last)
      if type(moved) == 'table' and moved.err then
        bad_key, reason = stats, moved
      else
        try('SET', pstart_key, start)
        try('SET', start_key, iso)
        start, into = iso, stats
      end
    elseif pstart == iso then
      into = last
    elseif pstart and is_hour(pstart) and iso < pstart then
      if kind ~= 'all' then late = late + n end
    elseif start then
      try('DEL', last)
      try('SET', pstart_key, iso)
      into = last
    else
      try('SET', start_key, iso)
      start, into = iso, stats
    end
    if into then
      local sums = {count = n, sum = tonumber(ARGV[h + 4]), sumsq = tonumber(ARGV[h + 5])}
      local new, refusal = add(into, sums, tonumber(ARGV[h + 6]), tonumber(ARGV[h + 7]))
      if new == nil then quarantine(into, refusal) elseif into == stats then mean = new end
    end
  end
  if bad_key then quarantine(bad_key, reason) end
  return mean, late
end

-- Adds to the statistics of contexts, lists the contexts and ranks them. Also returns the number of samples older than
-- the last hour.
local function add_statistics(k, a, quarantine)
  local add_slowest, late = zadd(KEYS[5], 'CH', quarantine), 0
  local add_seen = {http = zadd(KEYS[6], 'GT', quarantine), timer = zadd(KEYS[7], 'GT', quarantine)}
  for _ = 1, tonumber(ARGV[18]) do
    local kind, name, hours = ARGV[a + 1], ARGV[a + 2], tonumber(ARGV[a + 4])
    if hours > 0 then
      local mean, older = add_hours(k, a, quarantine)
      late = late + older
      if mean and kind ~= 'all' then add_slowest(mean, name) end
    end
    if add_seen[kind] then add_seen[kind](ARGV[a + 3], name) end
    k, a = k + 4, a + 4 + 7 * hours
  end
  add_slowest(); add_seen.http(); add_seen.timer()
  local surplus = (tonumber(try('ZCARD', KEYS[5])) or 0) - ARGV[11] -- One step removes at most a thousand.
  if surplus > 0 then try('ZREMRANGEBYRANK', KEYS[5], 0, math.min(surplus, 1000) - 1) end
  return k, a, late
end

