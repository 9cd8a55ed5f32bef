-- Returns the generation of the journal, and begins one if there is none.
-- KEYS  1 state, 2 journal, 3 pulse:orphaned, 4 pulse:contexts, 5 pulse:timers.
-- ARGV  1 name for a new generation, 2 partitions, 3 time or '' for TIME, 4 time to live of an orphaned journal in
--       seconds, 5 the most bytes of an orphaned journal: the oldest entries are kept.
-- Returns {generation, its age in seconds, '1' if no entries and no contexts existed when it began, or '0'}.
-- Fields of the state, besides those of judgements and roll-ups, counts, and notices for health:
--       gen, created, fresh: the generation, when it began, and '1' if no entries and no contexts existed then, or '0';
--       since: the beginning of the data, as in append.lua; parts: the number of partitions;
--       v: the version of this state, which each step expects and replaces;
--       head: the position of the newest entry; low: the position up to which entries are folded;
--       upto, done: the end of the begun round and its folded partitions, or ''; aside: the round's unreadable entries;
--       need: the newest format among the entries; oldest: when the oldest entry after `low` was appended, or '';
--       trimmed: the offset up to which the journal was trimmed; f:{instance}: the instance's last call and its time.
local state, now = KEYS[1], ARGV[3] ~= '' and ARGV[3] or redis.call('TIME')[1]
local generation, created, was_fresh = unpack(redis.call('HMGET', state, 'gen', 'created', 'fresh'))
if generation then return {generation, now - created, was_fresh} end
local orphans = redis.call('XLEN', KEYS[2])
if orphans == 0 then redis.call('DEL', KEYS[2]) end -- An empty stream still refuses ids below its last id.
local fresh = (orphans == 0 and redis.call('EXISTS', KEYS[3], KEYS[4], KEYS[5]) == 0) and '1' or '0'
if orphans > 0 then -- Without the state, it is unknown which entries were folded.
  redis.call('DEL', KEYS[3])
  local left, from, page = tonumber(ARGV[5]), '-', nil
  repeat
    page = redis.call('XRANGE', KEYS[2], from, '+', 'COUNT', 8)
    for _, entry in ipairs(page) do
      local fields = entry[2]
      for i = 1, #fields do left = left - #fields[i] end
      if left > 0 then redis.call('XADD', KEYS[3], entry[1], unpack(fields, 1, math.min(#fields, 100))) end
      from = '(' .. entry[1]
    end
  until left <= 0 or #page < 8
  redis.call('EXPIRE', KEYS[3], ARGV[4])
  redis.call('DEL', KEYS[2])
end
redis.call('HSET', state, 'gen', ARGV[1], 'created', now, 'since', now, 'fresh', fresh, 'parts', ARGV[2], 'head', '0-0', 'low', '0-0',
  'upto', '', 'done', '', 'v', ARGV[1], 'need', 0, 'trimmed', 0, 'aside', '', 'oldest', '', 'orphaned', orphans)
return {ARGV[1], 0, fresh}
