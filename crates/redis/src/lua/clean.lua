-- Runs one step of a cleaning pass. A step is bounded, and atomic: each addition comes before or after the step. The
-- lease lasts until the next pass, so that the same instance cleans as long as it is alive.
-- KEYS  1 lease, 2 known:, 3 pulse:contexts, 4 pulse:timers, 5 slowest:AccessTime, 6 pulse:instances.
-- ARGV  1 instance, 2 time to live of the lease in seconds, 3 to 5 the begin of the step, as the previous step returned
--       it, 6 the time, 7 seconds between passes, 8 last-seen time up to which contexts are forgotten, 9 last-seen time
--       up to which contexts leave the ranking, 10 time up to which instances are dead, 11 slices to keep of a
--       precision that is not configured, 12 the hour up to which contexts without a last-seen time leave the ranking,
--       in ISO form, 13 prefix of the keys of counters, 14 prefix of the keys of statistics, 15 suffix of the keys of
--       statistics, 16 '1' if the keys of idle counters expire, 17 to 19 the metrics of a context, then for each
--       precision the seconds and the slices to keep.
-- Returns {'HELD'} while another instance cleans, or {'DONE', the begin of the next step: stage or '' after the last,
--       position, cursor; counters examined, slices, counters and contexts removed; reason why the key held no lease or
--       ''; the first key that was skipped or '', the reason, and the precision of the key or 0}.
local PAGE, LISTED, RANKS, CONTEXTS = 250, 2000, 100, 8
local position, from, cursor, now, interval = tonumber(ARGV[4]), ARGV[5], '0', tonumber(ARGV[6]), tonumber(ARGV[7])
local number, forgotten, unranked, retained = math.floor(now / interval), tonumber(ARGV[8]), tonumber(ARGV[9]), {}
for i = 20, #ARGV, 2 do retained[tonumber(ARGV[i])] = tonumber(ARGV[i + 1]) end

local holder, left = try('GET', KEYS[1]), redis.call('TTL', KEYS[1])
local foreign = type(holder) == 'table' and holder.err or (left == -1 or left > 7200) and 'it does not expire soon' or ''
if holder and holder ~= ARGV[1] and foreign == '' then return {'HELD'} end
redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2])

local examined, slices, counters, contexts, skipped, cost = 0, 0, 0, 0, {'', '', 0}, 0
local function skip(key, why, p)
  if skipped[1] == '' then skipped = {string.sub(key, 1, 400), string.sub(why, 1, 400), p} end
end

-- Removes the slices of a counter that are older than its retention, or a part of them if there are many. Returns
-- whether the counter is gone.
local function clean_counter(member, p)
  local key, keep = ARGV[13] .. member, retained[p] or tonumber(ARGV[11])
  local len = try('HLEN', key)
  if type(len) ~= 'number' then return skip(key, len.err, p) end
  examined, cost = examined + 1, cost + 8
  -- A counter that is being written needs no cleaning, because each new slice removes an old slice. Its slices are
  -- listed only in every sixteenth pass, to find slices that were not removed while the counter paused.
  local span, margin = keep * p, math.max(600, 2 * p)
  local ttl = ARGV[16] == '1' and len > 0 and redis.call('TTL', key)
  local is_written = ttl and ttl > span + margin - 2 * p - 10 and len > 16 and len <= keep
  if is_written and p < 2 * interval and (position + number) % 16 ~= 0 then return end
  local is_long, fields = len > LISTED, {}
  if is_long then
    local part = redis.call('HSCAN', key, from, 'COUNT', 500)
    from, cursor = '0', part[1]
    for i = 1, #part[2], 2 do fields[#fields + 1] = part[2][i] end
  elseif len > 0 then
    fields = redis.call('HKEYS', key)
  end
  local cut_off, old, live, strange = now - span, {}, {}, 0
  for _, field in ipairs(fields) do
    local slice = string.find(field, '^%-?%d+$') and tonumber(field)
    local to = slice and (slice <= cut_off and old or live)
    if to then to[#to + 1] = field else strange = strange + 1 end
  end
  if #live > keep and not is_long then
    table.sort(live, function(a, b) return tonumber(a) < tonumber(b) end)
    for i = 1, #live - keep do old[#old + 1] = live[i] end
  end
  if strange > 0 then skip(key, strange .. ' fields are not slices; remove them with HDEL', p) end
  cost = cost + #fields
  if #old > 0 then slices = slices + redis.call('HDEL', key, unpack(old)) end
  if redis.call('EXISTS', key) == 0 then
    cursor = '0'
    return redis.call('ZREM', KEYS[2], member) == 1
  end
  if ttl and #live > 0 and ttl < span + margin / 2 then redis.call('EXPIRE', key, span + margin) end
end

local function last_seen(name)
  local http, timer = try('ZSCORE', KEYS[3], name), try('ZSCORE', KEYS[4], name)
  http, timer = type(http) == 'string' and tonumber(http), type(timer) == 'string' and tonumber(timer)
  return http and timer and math.max(http, timer) or http or timer
end

local function statistics(name, key) return ARGV[14] .. name .. ARGV[15] .. key end

-- Removes the names, the statistics and the counters of a context. Its records expire by themselves.
local function forget(name)
  for i = 3, 5 do try('ZREM', KEYS[i], name) end
  contexts = contexts + 1
  if #name > 1024 then return end -- A longer name is not a context.
  for _, key in ipairs({'', ':start', ':last', ':pstart'}) do redis.call('DEL', statistics(name, key)) end
  for p in pairs(retained) do
    for i = 17, 19 do
      local member = string.format('%.0f:%s:', p, ARGV[i]) .. name
      redis.call('DEL', ARGV[13] .. member)
      try('ZREM', KEYS[2], member)
    end
  end
end

-- A stage returns the number of members that it found. The next stage begins once this number is 0.
local function clean_counters()
  local page = try('ZRANGE', KEYS[2], position, position + PAGE - 1)
  if page.err then skip(KEYS[2], page.err .. '; no counter can be cleaned until the key is deleted', 0) end
  for _, member in ipairs(page) do
    local p, is_gone = tonumber(string.match(member, '^(%d+):') or nil) or 0, false
    if p < 1 or p > 4294967295 then
      skip(KEYS[2], 'member `' .. string.sub(member, 1, 200) .. '` is not {precision}:{name}; remove it with ZREM', 0)
    elseif number % math.max(math.floor(p / interval), 1) == 0 then
      is_gone = clean_counter(member, p)
    end
    if cursor ~= '0' then break end
    if is_gone then counters = counters + 1 else position = position + 1 end
    if cost >= LISTED then break end
  end
  return #page
end

local function forget_contexts(index)
  local old = try('ZRANGEBYSCORE', index, '-inf', forgotten, 'LIMIT', position, CONTEXTS)
  for _, name in ipairs(old) do
    -- `<all>`, the context of all requests, is never forgotten.
    if name == '<all>' or last_seen(name) > forgotten then position = position + 1 else forget(name) end
  end
  return #old
end

local function leave_ranking()
  local ranked = try('ZREVRANGE', KEYS[5], position, position + RANKS - 1)
  for _, name in ipairs(ranked) do
    local seen = last_seen(name)
    if not seen then
      -- Only the book's functions have recorded this context. Listing the context lets a later pass forget it.
      local start = try('GETRANGE', statistics(name, ':start'), 0, 19)
      local is_hour = type(start) == 'string' and string.find(start, '^%d%d%d%d%-%d%d%-%d%dT%d%d:00:00$')
      if is_hour and start <= ARGV[12] then
        try('ZADD', KEYS[3], unranked, name)
        seen = unranked
      end
    end
    if seen and seen <= unranked then redis.call('ZREM', KEYS[5], name) else position = position + 1 end
  end
  return #ranked
end

local stage, found = tonumber(ARGV[3]), 0
if stage == 1 then found = clean_counters()
elseif stage == 2 then found = forget_contexts(KEYS[3])
elseif stage == 3 then found = forget_contexts(KEYS[4])
elseif stage == 4 then found = leave_ranking()
else try('ZREMRANGEBYSCORE', KEYS[6], '-inf', '(' .. ARGV[10]) end
if found == 0 then stage, position = stage < 5 and stage + 1 or '', 0 end
return {'DONE', stage, position, cursor, examined, slices, counters, contexts, foreign, unpack(skipped)}
