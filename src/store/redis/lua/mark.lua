-- Adds a mark.
-- KEYS: marks, version
-- ARGV: time, mark, version or '', number of marks to keep: of those with a version, and of the others
-- Returns 1, or 0 if the last mark that has a version has this one.
if ARGV[3] ~= '' and redis.call('GET', KEYS[2]) == ARGV[3] then
    return 0
end
redis.call('ZADD', KEYS[1], ARGV[1], ARGV[2])
if ARGV[3] ~= '' then
    -- Once there is a mark: it is tried again after an error.
    redis.call('SET', KEYS[2], ARGV[3])
end
-- No more than these were added here, so that those of another program cannot hold the server up.
redis.call('ZREMRANGEBYRANK', KEYS[1], 0, -2 - 2 * tonumber(ARGV[4]))
local kept = { [true] = 0, [false] = 0 }
for _, mark in ipairs(redis.call('ZREVRANGE', KEYS[1], 0, -1)) do
    local is_json, fields = pcall(cjson.decode, mark)
    local has_version = is_json and type(fields) == 'table' and type(fields.version) == 'string'
    kept[has_version] = kept[has_version] + 1
    if kept[has_version] > tonumber(ARGV[4]) then
        redis.call('ZREM', KEYS[1], mark)
    end
end
return 1
