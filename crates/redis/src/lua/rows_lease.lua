-- Leases rows. A leased row stays in schedule:, where the book's functions can find it.
-- KEYS  1 delay:, 2 schedule:, 3 pulse:rows:, 4 pulse:failing:, 5 the cached row, for 'ROW' and 'FREE' only.
-- ARGV  1 time or '' for the server's time, 2 token, 3 seconds of the lease, 4 'DUE' for rows that are due, 'ROW' for
--       one row, 'FREE' for one row that is neither leased nor cached, 5 maximum number of rows for 'DUE', otherwise
--       the id, 6 maximum bytes of a cached row that can be read, for 'FREE' only.
-- Returns {leased, seconds until another row can be leased or '', garbage, gone}. `leased` has the id, the due time or
--       '', and the failures of each leased row; `garbage` has the id and the reason of each entry that is not a row;
--       `gone` has the ids without a positive delay, which rows_drop.lua removes together with their cached rows.
local time = redis.call('TIME')
local now = tonumber(ARGV[1] ~= '' and ARGV[1] or string.format('%d.%06d', time[1], time[2]))
local leased, garbage, gone, next_due, until_time = {}, {}, {}, nil, string.format('%.6f', now + ARGV[3])
local YEAR, HOUR, MAX_ID, MAX_LOOKS, MAX_GONE = 31536000, 3600, 256, 5000, 500

-- Leases a row. If another lease prevents this, returns the end of that lease.
local function lease(id, due, state)
  local till, _, loaded, failures, spread, reason = string.match(state or '', '^(%S+) (%S+) (%S+) (%S+) (%S+) (.*)$')
  till, failures = tonumber(till) or 0, tonumber(failures) or 0
  -- A lease lasts less than an hour, so a later end is not valid.
  if till > now and till < now + HOUR and ARGV[4] ~= 'ROW' then return till end
  if not (failures >= 0 and failures < 1e9) then failures = 0 end
  redis.call('HSET', KEYS[3], id, string.format('%s %s %s %d %s %s', until_time, ARGV[2],
    tonumber(loaded) and loaded or '-', failures, spread == '1' and '1' or '0', reason or ''))
  for _, value in ipairs({id, due, failures}) do leased[#leased + 1] = value end
end

-- The multi-byte sequences of UTF-8.
local TAIL = '[\128-\191]'
local SEQUENCES = {
  '[\194-\223]' .. TAIL, '\224[\160-\191]' .. TAIL, '[\225-\236\238\239]' .. TAIL .. TAIL, '\237[\128-\159]' .. TAIL,
  '\240[\144-\191]' .. TAIL .. TAIL, '[\241-\243]' .. TAIL .. TAIL .. TAIL, '\244[\128-\143]' .. TAIL .. TAIL,
}
local function is_utf8(text)
  if not string.find(text, '[\128-\255]') then return true end
  -- Each sequence becomes an ASCII character, so that the bytes around it do not form a new sequence.
  for _, sequence in ipairs(SEQUENCES) do text = string.gsub(text, sequence, '-') end
  return not string.find(text, '[\128-\255]')
end

-- Returns the reason why an entry of the schedule is not a row, or nil for a row.
local function problem(id, delay)
  if #id > MAX_ID then return 'its id is longer than 256 bytes' end
  if delay > YEAR then return 'its delay is longer than a year' end
  if not is_utf8(id) then return 'its id is not UTF-8' end
end

if ARGV[4] ~= 'DUE' then
  -- A row counts as not cached if its key has another type (an error here), an empty value, or a value that is too
  -- long.
  local function byte(at) return try('GETRANGE', KEYS[5], at, at) end
  local first_byte = byte(0)
  local is_cached = type(first_byte) == 'string' and first_byte ~= ''
  if ARGV[4] == 'ROW' or not is_cached or byte(ARGV[6]) ~= '' then
    lease(ARGV[5], redis.call('ZSCORE', KEYS[2], ARGV[5]) or '', redis.call('HGET', KEYS[3], ARGV[5]))
  end
  return {leased, '', garbage, gone}
end
local limit, offset, looks = 3 * ARGV[5], 0, 0
while #leased < limit do
  local page = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now, 'WITHSCORES', 'LIMIT', offset, 100)
  local ids, moved = {}, 0
  for i = 1, #page, 2 do ids[#ids + 1] = page[i] end
  if #ids == 0 then break end
  local delays, states = redis.call('ZMSCORE', KEYS[1], unpack(ids)), redis.call('HMGET', KEYS[3], unpack(ids))
  for at, id in ipairs(ids) do
    local delay = tonumber(delays[at] or 0)
    local why = delay > 0 and problem(id, delay)
    if not (delay > 0) and #id <= MAX_ID then
      gone[#gone + 1] = id
    elseif not (delay > 0) then -- The id is too long: no instance has cached such a row.
      redis.call('ZREM', KEYS[1], id); redis.call('ZREM', KEYS[2], id); redis.call('HDEL', KEYS[3], id)
      redis.call('ZREM', KEYS[4], id)
      moved = moved + 1
    elseif why then
      -- The entry becomes due in a minute, and does not block other rows until then.
      redis.call('ZADD', KEYS[2], string.format('%.6f', now + 60), id)
      garbage[#garbage + 1], garbage[#garbage + 2] = string.sub(id, 1, MAX_ID), why
      moved = moved + 1
    elseif #leased < limit then
      local till = lease(id, page[2 * at], states[at])
      if till and till < (next_due or math.huge) then next_due = till end
    end
  end
  if #ids < 100 then break end
  offset, looks = offset + #ids - moved, looks + #ids + 4 * moved
  if looks >= MAX_LOOKS or #gone >= MAX_GONE then
    if moved > 0 or #gone > 0 then next_due = now end -- The next call follows at once, and reads the remaining rows.
    break
  end
end
local later = redis.call('ZRANGEBYSCORE', KEYS[2], string.format('(%.6f', now), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
if later and tonumber(later) < (next_due or math.huge) then next_due = tonumber(later) end
return {leased, next_due and string.format('%.6f', next_due - now) or '', garbage, gone}
