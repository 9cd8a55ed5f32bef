-- Leases rows. A leased row stays in schedule:, so that the book's functions see it.
-- KEYS  1 delay:, 2 schedule:, 3 pulse:rows:, 4 pulse:failing:.
-- ARGV  1 time or '' for TIME, 2 token, 3 seconds, 4 'DUE', 'ROW' or 'FREE', 5 number of rows or an id, 6 prefix of the
--       keys of cached rows.
-- Returns {leased rows as id, due or '', failures, '1' for the first turn of a spread row; seconds until the next row is
-- due, or ''; removed ids}.
local time = redis.call('TIME')
local now = tonumber(ARGV[1] ~= '' and ARGV[1] or string.format('%d.%06d', time[1], time[2]))
local leased, removed, next_due, until_time = {}, {}, nil, string.format('%.6f', now + ARGV[3])

local function state(id)
  local till, _, loaded, failures, spread, reason =
    string.match(redis.call('HGET', KEYS[3], id) or '', '^(%S+) (%S+) (%S+) (%S+) (%S+) (.*)$')
  return tonumber(till) or 0, loaded or '-', tonumber(failures) or 0, spread or '0', reason or ''
end
local function lease(id, due)
  local till, loaded, failures, spread, reason = state(id)
  if till > now and ARGV[4] ~= 'ROW' then return till end
  redis.call('HSET', KEYS[3], id, string.format('%s %s %s %d %s %s', until_time, ARGV[2], loaded, failures, spread, reason))
  for _, value in ipairs({id, due, failures, spread}) do leased[#leased + 1] = value end
end

if ARGV[4] ~= 'DUE' then
  if ARGV[4] == 'FREE' and redis.call('EXISTS', ARGV[6] .. ARGV[5]) == 1 then return {leased, '', removed} end
  lease(ARGV[5], redis.call('ZSCORE', KEYS[2], ARGV[5]) or '')
  return {leased, '', removed}
end
local limit, offset = 4 * ARGV[5], 0
while #leased < limit and offset < 5000 do
  local page = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now, 'WITHSCORES', 'LIMIT', offset, 100)
  local gone = 0
  for i = 1, #page, 2 do
    if #leased >= limit then break end
    local id, delay = page[i], tonumber(redis.call('ZSCORE', KEYS[1], page[i]) or 0)
    if not (delay > 0) then
      redis.call('ZREM', KEYS[1], id); redis.call('ZREM', KEYS[2], id); redis.call('HDEL', KEYS[3], id)
      redis.call('ZREM', KEYS[4], id); redis.call('DEL', ARGV[6] .. id)
      removed[#removed + 1], gone = id, gone + 1
    else
      local till = lease(id, page[i + 1])
      if till and till < (next_due or math.huge) then next_due = till end
    end
  end
  if #page < 200 then break end
  offset = offset + 100 - gone
end
local later = redis.call('ZRANGEBYSCORE', KEYS[2], string.format('(%.6f', now), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
if later and tonumber(later) < (next_due or math.huge) then next_due = tonumber(later) end
return {leased, next_due and string.format('%.6f', next_due - now) or '', removed}
