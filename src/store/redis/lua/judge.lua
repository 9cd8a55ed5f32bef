-- Replaces the last judgement, unless somebody else has.
-- KEYS: changes
-- ARGV: expected revision, new revision, judgement, detector, time to live in seconds, number of changes,
--       field and value of each change, fields to remove
-- Returns 1 if the store has this judgement now, else 0.
local revision = redis.call('HGET', KEYS[1], 'revision') or ''
-- Something else than a revision counts as none.
if revision:find('%W') then
    revision = ''
end
if revision == ARGV[2] then
    return 1
end
if revision ~= ARGV[1] then
    return 0
end
redis.call('HSET', KEYS[1], 'revision', ARGV[2], 'judged', ARGV[3], 'detector', ARGV[4])
local removed = 7 + 2 * tonumber(ARGV[6])
for at = 7, removed - 1, 2 do
    redis.call('HSET', KEYS[1], ARGV[at], ARGV[at + 1])
end
for at = removed, #ARGV do
    redis.call('HDEL', KEYS[1], ARGV[at])
end
redis.call('EXPIRE', KEYS[1], ARGV[5])
return 1
