-- Forgets contexts without recent samples, or only removes them from the ranking. Contexts with samples since the
-- caller looked stay. A context that neither index lists has no time of its own; the caller has judged its age.
-- KEYS  1 lease, 2 pulse:contexts, 3 pulse:timers, 4 slowest:AccessTime, 5 known:, then the contexts' keys.
-- ARGV  1 the holder's token, 2 time to live of the lease in s, 3 last-seen time up to which contexts go, 4 'RANK' or 'ALL',
--       then for each context: name, n keys, m members of known:, and the m members.
-- Returns {'LOST'} or {'FORGOTTEN', contexts or ranks}.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return {'LOST'} end
redis.call('EXPIRE', KEYS[1], ARGV[2])
local cut_off, forgotten, k, a = tonumber(ARGV[3]), 0, 5, 4
while a < #ARGV do
  local name, n, m = ARGV[a + 1], tonumber(ARGV[a + 2]), tonumber(ARGV[a + 3])
  local http = tonumber(try('ZSCORE', KEYS[2], name) or nil)
  local timer = tonumber(try('ZSCORE', KEYS[3], name) or nil)
  if (http or cut_off) <= cut_off and (timer or cut_off) <= cut_off then
    local ranks = try('ZREM', KEYS[4], name)
    if ARGV[4] == 'RANK' then
      forgotten = forgotten + (tonumber(ranks) or 0)
    elseif http or timer then
      try('ZREM', KEYS[2], name); try('ZREM', KEYS[3], name)
      for i = 1, n do redis.call('DEL', KEYS[k + i]) end
      for i = 1, m do try('ZREM', KEYS[5], ARGV[a + 3 + i]) end
      forgotten = forgotten + 1
    end
  end
  k, a = k + n, a + 3 + m
end
return {'FORGOTTEN', forgotten}
