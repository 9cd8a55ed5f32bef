-- Folds some partitions of a round once. Adds to the book's keys, which other programs also write; replaces records.
-- KEYS  1 state, 2 journal, 3 lease, 4 known:, 5 slowest:AccessTime, 6 pulse:contexts, 7 pulse:timers,
--       8 pulse:quarantine, then for each counter group its count:{p}:{name} keys; for each context
--       stats:{context}:AccessTime, …:start, …:last, …:pstart; for each write its key.
-- ARGV  1 version, 2 next version, 3 instance, 4 time to live of the lease in ms, 5 the round's last entry or '' to fold
--       no entry, 6 partitions done after this step or 'ALL', 7 first entry not to trim or '', 8 the round's newest
--       stamp, 9 its hour in ISO form, 10 bytes of a counter key before '{p}:{name}', 11 length of the ranking,
--       12 late, 13 skewed, 14 duration of the round in ms, 15 bytes of missing entries, 16 slices rolled up,
--       17 counter groups, 18 contexts, 19 writes of records and tables, then
--       for each counter group: slice, retention, key TTL or '', '1' to renew it in any case, n, and n increments;
--       for each context: 'http', 'timer' or 'all', name, last seen, n, and n hours, ascending:
--         start, ISO start, count, sum, sumsq, min, max;
--       for each write: command, key TTL or '', n, and n arguments.
-- Returns {'DONE'}, {'STALE', version}, or {'ABSENT'} when the round's last entry is not there.
local KEYS, ARGV, tonumber, type, unpack, call, try = KEYS, ARGV, tonumber, type, unpack, redis.call, redis.pcall
local state, upto = KEYS[1], ARGV[5]
local v, head, open = unpack(call('HMGET', state, 'v', 'head', 'upto'))
if v ~= ARGV[1] then return {'STALE', v} end
if open == '' and upto ~= '' and upto ~= head and #call('XRANGE', KEYS[2], upto, upto) == 0 then return {'ABSENT'} end
-- Without a permission, the writes below would fail one by one and be quarantined. Servers from 7.0 can check first.
local is_permitted = redis.acl_check_cmd
for command in string.gmatch(not is_permitted and '' or 'HINCRBY HSET HDEL EXPIRE ZADD ZMSCORE ZCARD EXISTS DEL RENAME SET GET ZREM ZREMRANGEBYRANK', '%u+') do
  if not is_permitted(command, KEYS[4], KEYS[5]) then return redis.error_reply("NOPERM no permissions to run " .. command) end
end
-- A server that refuses writes fails here, before any change. PERSIST and all writes after it need no free memory.
call('PERSIST', state)
call('HSET', state, 'v', ARGV[2], 'upto', upto, 'done', ARGV[6], 'folder', ARGV[3], 'rolled', ARGV[16], 'judged', upto .. ' ' .. ARGV[8])
try('SET', KEYS[3], ARGV[3], 'PX', ARGV[4])

-- A later write that fails does not end the script: its data is dropped, and its key is quarantined.
local function quarantine(key, reason)
  reason = tostring(type(reason) == 'table' and reason.err or reason)
  try('HINCRBY', state, 'quarantined', 1)
  if (tonumber(try('HLEN', KEYS[8])) or 100) >= 100 then try('DEL', KEYS[8]) end -- Also if it is of another type.
  try('HSET', KEYS[8], string.sub(key, 1, 300), ARGV[8] .. ' ' .. string.sub(reason, 1, 300))
  try('EXPIRE', KEYS[8], 86400)
end

-- Returns a function that adds a member to a sorted set, a hundred per ZADD. A call without arguments sends the last.
local function zadd(key, option)
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
local list_counter, add_slowest = zadd(KEYS[4], 'CH'), zadd(KEYS[5], 'CH')
local add_seen = {http = zadd(KEYS[6], 'GT'), timer = zadd(KEYS[7], 'GT')}

local k, a, prefix, late = 8, 19, tonumber(ARGV[10]) + 1, tonumber(ARGV[12])
for _ = 1, tonumber(ARGV[17]) do
  local slice, ttl, renews, n = ARGV[a + 1], ARGV[a + 3], ARGV[a + 4] == '1', tonumber(ARGV[a + 5])
  local pushed_out = string.format('%.0f', slice - ARGV[a + 2])
  for i = 1, n do
    local key, by = KEYS[k + i], ARGV[a + 5 + i]
    local sum = try('HINCRBY', key, slice, by)
    if type(sum) ~= 'number' then
      quarantine(key, sum)
    elseif sum == tonumber(by) then
      -- A new slice, or one that was 0, pushes out the oldest. If there was one, the key is listed and has time to live.
      if try('HDEL', key, pushed_out) ~= 1 or renews then
        if ttl ~= '' then try('EXPIRE', key, ttl) end
        list_counter(0, string.sub(key, prefix))
      end
    end
  end
  k, a = k + n, a + 5 + n
end
list_counter()

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
    if not (x > -huge and x < huge) then return nil, 'the sum is not a finite number' end -- False for infinity and NaN.
  end
  -- Numbers are passed as such: the server writes 17 digits, Lua's own conversion fewer.
  local bounds = (min ~= least or max ~= most) and {min, 'min', max, 'max'} or {}
  local reply = try('ZADD', key, count, 'count', sum, 'sum', sumsq, 'sumsq', unpack(bounds))
  if type(reply) == 'table' then return nil, reply end
  return count > 0 and sum / count
end

for _ = 1, tonumber(ARGV[18]) do
  local stats, start_key, last, pstart_key = KEYS[k + 1], KEYS[k + 2], KEYS[k + 3], KEYS[k + 4]
  local kind, name, hours = ARGV[a + 1], ARGV[a + 2], tonumber(ARGV[a + 4])
  local start, bad_key, reason, mean = hours > 0 and try('GET', start_key), nil, nil, nil
  if type(start) == 'table' then
    bad_key, reason = start_key, start
  elseif start and not is_hour(start) or hours > 0 and not start then
    -- A set without an hour counts as the current hour's.
    start = try('EXISTS', stats) == 1 and ARGV[9]
    local reply = start and try('SET', start_key, start)
    if reply and reply.err then bad_key, reason = start_key, reply end
  end
  for h = a + 4, a + 4 + 7 * (hours - 1), 7 do
    local iso, n, into = ARGV[h + 2], tonumber(ARGV[h + 3]), nil
    local pstart = not bad_key and (not start or iso < start) and try('GET', pstart_key)
    if type(pstart) == 'table' then bad_key, reason = pstart_key, pstart end
    if bad_key then into = nil -- The hour of a set cannot be read, so no hour can be added.
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
  if mean and kind ~= 'all' then add_slowest(mean, name) end
  if add_seen[kind] then add_seen[kind](ARGV[a + 3], name) end
  k, a = k + 4, a + 4 + 7 * hours
end
add_slowest(); add_seen.http(); add_seen.timer()
local surplus = (tonumber(try('ZCARD', KEYS[5])) or 0) - ARGV[11] -- At most a thousand per step.
if surplus > 0 then try('ZREMRANGEBYRANK', KEYS[5], 0, math.min(surplus, 1000) - 1) end

for i = 1, tonumber(ARGV[19]) do
  local key, n = KEYS[k + i], tonumber(ARGV[a + 3])
  for first = a + 4, a + 3 + n, 1000 do
    local reply = try(ARGV[a + 1], key, unpack(ARGV, first, math.min(a + 3 + n, first + 999)))
    if type(reply) == 'table' and reply.err then quarantine(key, reply) end
  end
  if ARGV[a + 2] ~= '' then try('EXPIRE', key, ARGV[a + 2]) end
  a = a + 3 + n
end

for field, n in pairs({late = late, skewed = tonumber(ARGV[13]), hole = tonumber(ARGV[15])}) do
  if n > 0 then try('HINCRBY', state, field, n) end
end
if ARGV[6] == 'ALL' then
  call('HSET', state, 'low', upto, 'upto', '', 'done', '', 'aside', '', 'took', ARGV[14], 'oldest', upto == head and '' or ARGV[8])
  -- No entry of any version is left. The next append raises `need` again, for which folders of earlier versions wait.
  if upto == head then call('HSET', state, 'need', 0) end
end
if ARGV[7] ~= '' then
  call('HSET', state, 'trimmed', string.match(ARGV[7], '^%d+'))
  try('XTRIM', KEYS[2], 'MINID', ARGV[7])
end
return {'DONE'}
