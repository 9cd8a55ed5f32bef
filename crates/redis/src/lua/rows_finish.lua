-- Ends the lease of a row. A result is dropped if the row's schedule has changed since the lease.
-- KEYS  1 delay:, 2 schedule:, 3 pulse:rows:, 4 pulse:failing:, 5 the cached row.
-- ARGV  1 time or '' for TIME, 2 token, 3 id, 4 due or '' for a row without a schedule, 5 'ROW', 'MISSING', 'DROPPED'
--       or 'FAILED', 6 the row, or the reason of the failure, 7 ttl in ms or '', 8 factor for the delay of a row that
--       was scheduled together with other rows, 9 backoff in s.
-- Returns {1, or 0 if another holder has the lease or the schedule has changed; seconds until the row is due, or ''}.
local time = redis.call('TIME')
local now = tonumber(ARGV[1] ~= '' and ARGV[1] or string.format('%d.%06d', time[1], time[2]))
local id, due, kind = ARGV[3], ARGV[4], ARGV[5]
local token, loaded, failures, spread = string.match(redis.call('HGET', KEYS[3], id) or '', '^%S+ (%S+) (%S+) (%S+) (%S+) ')
if token ~= ARGV[2] then return {0, ''} end
local delay, score = tonumber(redis.call('ZSCORE', KEYS[1], id) or 0), redis.call('ZSCORE', KEYS[2], id) or ''
if score ~= due or due ~= '' and not (delay > 0) then -- The row was scheduled again or removed meanwhile.
  if score == '' then redis.call('HDEL', KEYS[3], id); return {0, ''} end
  redis.call('HSET', KEYS[3], id, string.format('0 - %s %s %s ', loaded, failures, spread))
  return {0, string.format('%.6f', score - now)}
end
local reason = ''
if kind ~= 'FAILED' then redis.call('ZREM', KEYS[4], id) end
if kind == 'ROW' then
  redis.call('SET', KEYS[5], ARGV[6], unpack(ARGV[7] ~= '' and {'PX', ARGV[7]} or {}))
  loaded, failures = string.format('%.6f', now), 0
elseif kind == 'FAILED' then
  failures, reason = math.min((tonumber(failures) or 0) + 1, 1e9), ARGV[6]
  if due ~= '' then redis.call('ZADD', KEYS[4], failures, id) end
else
  redis.call('DEL', KEYS[5])
  loaded, failures = '-', 0
end
if kind == 'DROPPED' or due == '' then
  redis.call('ZREM', KEYS[1], id); redis.call('ZREM', KEYS[2], id); redis.call('HDEL', KEYS[3], id)
  return {1, ''}
end
redis.call('HSET', KEYS[3], id, string.format('0 - %s %d 0 %s', loaded, failures, reason))
local next_due
if kind == 'FAILED' then
  next_due = now + ARGV[9]
elseif now < tonumber(due) then -- The row was refreshed before it was due.
  next_due = tonumber(due)
else
  -- Missed refreshes are skipped. The first delay of rows that were scheduled together is shortened, which spreads
  -- their refreshes.
  local missed = math.floor((now - due) / delay)
  next_due = due + delay * (missed + (spread == '1' and tonumber(ARGV[8]) or 1))
  -- This also replaces NaN and infinity, as after a due time of -inf.
  if not (next_due > now and next_due <= now + delay) then next_due = now + delay end
end
redis.call('ZADD', KEYS[2], string.format('%.6f', next_due), id)
return {1, string.format('%.6f', next_due - now)}
