-- Adds a mark.
-- KEYS: marks, version
-- ARGV: time, mark, version or '', number of marks to keep
-- Returns 1, or 0 if the last mark that has a version has this one.
if ARGV[3] ~= '' and redis.call('GET', KEYS[2]) == ARGV[3] then
    return 0
end
redis.call('ZADD', KEYS[1], ARGV[1], ARGV[2])
if ARGV[3] ~= '' then
    -- Once there is a mark: it is tried again after an error.
    redis.call('SET', KEYS[2], ARGV[3])
end
redis.call('ZREMRANGEBYRANK', KEYS[1], 0, -1 - tonumber(ARGV[4]))
return 1
