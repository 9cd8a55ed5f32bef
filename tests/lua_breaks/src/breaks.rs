//! The breaks. Each break is a change of a script that violates a guarantee.

use std::path::{Path, PathBuf};

pub(crate) struct Break {
    /// The script, without `.lua`.
    pub(crate) script: &'static str,
    /// A sentence that describes the violation.
    pub(crate) name: &'static str,
    /// The text that is replaced, which the script contains once.
    pub(crate) from: &'static str,
    pub(crate) to: &'static str,
}

impl Break {
    /// The path of the script in a folder such as `crates/redis/src`.
    pub(crate) fn path(&self, folder: &Path) -> PathBuf {
        folder.join(format!("lua/{}.lua", self.script))
    }

    /// Returns the broken script.
    ///
    /// # Errors
    /// The script does not contain the text to replace exactly once, for example after a change of the script.
    pub(crate) fn apply(&self, source: &str) -> Result<String, String> {
        match source.matches(self.from).count() {
            1 => Ok(source.replacen(self.from, self.to, 1)),
            count => Err(format!(
                "the break `{}` replaces a text that {}.lua must contain once, but contains {count} times: {}",
                self.name, self.script, self.from
            )),
        }
    }
}

/// The breaks of each script: name, text to replace, replacement.
macro_rules! breaks {
    ($($script:literal: [$($name:literal, $from:literal => $to:literal;)*])*) => {
        pub(crate) const BREAKS: &[Break] = &[$($(
            Break { script: $script, name: $name, from: $from, to: $to },
        )*)*];
    };
}

breaks! {
"hello": [
    "each hello begins a new generation",
    "if generation then return" => "if generation and not created then return";

    "the answer says that each generation is new",
    "{generation, now - created, was_fresh}" => "{generation, 0, was_fresh}";

    "the second instance learns that the generation was not fresh",
    "{generation, now - created, was_fresh}" => "{generation, now - created, '0'}";

    "a generation is fresh although the journal had entries",
    "(orphans == 0 and redis.call(" => "(redis.call(";

    "a generation is fresh although contexts exist",
    "'EXISTS', KEYS[3], KEYS[4], KEYS[5])" => "'EXISTS', KEYS[3])";

    "a generation is fresh although a journal was orphaned before",
    "'EXISTS', KEYS[3], KEYS[4], KEYS[5])" => "'EXISTS', KEYS[4], KEYS[5])";

    "a journal without its state is deleted",
    "if left > 0 then redis.call('XADD', KEYS[3]," => "if false then redis.call('XADD', KEYS[3],";

    "an orphaned journal of any size is kept",
    "if left > 0 then redis.call('XADD', KEYS[3]," => "if true then redis.call('XADD', KEYS[3],";

    "the journal keeps the entries of an orphaned journal",
    "  redis.call('DEL', KEYS[2])\nend" => "end";

    "an orphaned journal never expires",
    "  redis.call('EXPIRE', KEYS[3], ARGV[4])\n" => "";

    "an empty journal without its state is not deleted",
    "if orphans == 0 then redis.call('DEL', KEYS[2]) end" => "";

    "a new generation does not store the beginning of its data",
    "'since', now, " => "";

    "orphaned entries are not counted",
    "'orphaned', orphans" => "'orphaned', 0";
]
"append": [
    "a call of another generation is appended",
    "if generation ~= ARGV[1] then" => "if not generation then";

    "a replica without the generation answers RESET",
    "return {'RESET', redis.call('PERSIST', state)}" => "return {'RESET'}";

    "a replica that lags answers GAP",
    "string.format('%.0f', fence), redis.call('PERSIST', state)}" => "string.format('%.0f', fence)}";

    "a repeated call counts as a gap",
    "if fence >= seq then" => "if fence > seq then";

    "a call after a lost call is appended",
    "if fence ~= tonumber(ARGV[4]) then" => "if fence > tonumber(ARGV[4]) then";

    "a fence of 20 digits is accepted",
    "string.sub(last or '0 ', 1, 16)" => "(last or '0 ')";

    "a lease without an end counts as held by a folder",
    "left >= 0 and left <= 600 and 1 or 0" => "left ~= -2 and left <= 600 and 1 or 0";

    "a lease that ends in a day counts as held by a folder",
    "left >= 0 and left <= 600 and 1 or 0" => "left >= 0 and 1 or 0";

    "the journal is never full",
    "if offset - (tonumber(trimmed) or 0) >= tonumber(ARGV[5]) then return {'FULL'} end" => "";

    "trimmed bytes count as bytes of the journal",
    "offset - (tonumber(trimmed) or 0)" => "offset";

    "an id does not depend on the entries before it",
    "table.concat({head, ARGV[2]" => "table.concat({ARGV[2]";

    "an offset does not count the bytes of the entry",
    "offset + #ARGV[9] + 1" => "offset + 1";

    "an entry of an older version lowers the version that folders need",
    "math.max(tonumber(need) or 0, tonumber(ARGV[6]))" => "tonumber(ARGV[6])";

    "a fence has no time",
    "ARGV[3] .. ' ' .. time[1]" => "ARGV[3] .. ' 0'";

    "each call counts as the oldest call that is not folded",
    "if low == head then redis" => "if low then redis";

    "samples from before the generation do not move the beginning of the data",
    "if first and began and first < began" => "if first and false and began and first < began";

    "each call moves the beginning of the data",
    "if first and began and first < began" => "if first and began";

    "a clock that is far behind moves the beginning of the data",
    " and first > time[1] - ARGV[11] then" => " then";

    "an entry of another program stops all calls",
    "if refusal then" => "if refusal and false then";

    "a stream that has used its last id stops all calls",
    " or string.find(refusal, 'exhausted', 1, true)" => "";

    "entries that are not folded are removed with an entry of another program",
    "redis.call('XRANGE', KEYS[4], '(' .. from, head, 'COUNT', 16)" => "{}";

    "only the first 16 entries that are not folded are kept",
    "until #entries == 0" => "until true";

    "an entry with ten thousand fields ends the removal in the middle",
    "unpack(kept[2], 1, math.min(#kept[2], 100))" => "unpack(kept[2])";

    "the renamed journal is not deleted",
    "  redis.pcall('DEL', KEYS[4])\n" => "";

    "the answer does not report the removal of another program's entries",
    "{'DONE', id, low, attended, refusal}" => "{'DONE', id, low, attended}";

    "the answer to a repeated call says that the call is folded",
    "{'DUPLICATE', head, low" => "{'DUPLICATE', low, low";
]
"acquire": [
    "an instance acquires the lease of another instance",
    "if holder and holder ~= ARGV[1] and foreign == '' then return {'HELD'} end" => "";

    "a lease without an end keeps all instances from folding",
    "or (left == -1 or left > 600) and 'it does not expire soon' or ''" => "or ''";

    "an instance does not wait at an entry that it cannot read",
    "if entry then" => "if false then";

    "an instance waits at an entry that it can read",
    "tonumber(version) > tonumber(ARGV[4])" => "tonumber(version) > 0";

    "a folder waits at a newer entry that is missing",
    "local entry = is_newer and redis.pcall('XRANGE', KEYS[2], id, id)[1]" => "local entry = is_newer and {id, {}}";

    "garbage in the note about a newer entry stops the fold",
    "redis.pcall('XRANGE', KEYS[2], id, id)" => "redis.call('XRANGE', KEYS[2], id, id)";

    "a jump of the clock ends the wait of a newer entry",
    "math.max(0, math.min(now - at, 60))" => "math.max(0, now - at)";

    "a clock that goes back prolongs the wait of a newer entry",
    "math.max(0, math.min(now - at, 60))" => "math.min(now - at, 60)";

    "an entry of a newer version waits forever",
    "waited = waited + math.max" => "waited = 0 * math.max";

    "a newer entry with a time a year ahead waits for a year",
    "(age >= 0 and age <" => "(age <";

    "the answer does not say that newer entries have waited long enough",
    "entry and '1' or ''" => "''";

    "folders of older versions wait although no entry is left",
    "if low == head then redis.call('HSET', KEYS[1], 'need', 0) end" => "";

    "a takeover does not learn when the newest entry of the interrupted round was appended",
    "judged_upto == upto and stamp or ''" => "''";

    "a takeover uses the time of the newest entry of another round",
    "judged_upto == upto and stamp or ''" => "stamp or ''";

    "acquiring the lease needs free memory",
    "redis.call('PERSIST', KEYS[1])" => "";

    "removed entries of another generation are not counted",
    "and strays > 0 then" => "and false then";

    "the fold lease never ends",
    "ARGV[1], 'PX', ARGV[2])" => "ARGV[1])";

    "a takeover does not finish an interrupted round",
    "{'MINE', low, upto, done," => "{'MINE', low, '', done,";

    "a takeover folds finished partitions again",
    "{'MINE', low, upto, done," => "{'MINE', low, upto, '',";

    "a takeover forgets which entries were set aside",
    "done, aside, rolled, foreign," => "done, '', rolled, foreign,";

    "a takeover forgets which slices were rolled up",
    "done, aside, rolled, foreign," => "done, aside, '', foreign,";
]
"read": [
    "a folder reads under another version",
    "if v ~= ARGV[1] then return {'STALE'} end" => "";

    "a folder that only reads loses its lease",
    "redis.pcall('SET', KEYS[3], ARGV[2], 'PX', ARGV[3])" => "";

    "a read continues although a failover has lost the entry before it",
    "  if ARGV[5] ~= low and #redis.call('XRANGE', KEYS[2], ARGV[5], ARGV[5]) == 0 then return {'STALE'} end\n" => "";

    "the last entry is read again",
    "local from, till, left, most = '(' .. ARGV[5]," => "local from, till, left, most = ARGV[5],";

    "entries after the end of an interrupted round are read",
    "upto ~= '' and upto or head, tonumber" => "head, tonumber";

    "an entry of another program after the newest entry is read",
    "upto ~= '' and upto or head, tonumber" => "upto ~= '' and upto or '18446744073709551615-0', tonumber";

    "a read has no limit",
    "if left > 0 and (#entries == 0 or size <= left) then" => "if true then";

    "a read returns at most eight entries",
    "until left <= 0 or #page < 8" => "until true";

    "an entry that is larger than a read is never read",
    "(#entries == 0 or size <= left)" => "size <= left";

    "an entry of any size is read",
    "if size > most or #fields > 32 then" => "if #fields > 32 then";

    "an entry with any number of fields is read",
    "if size > most or #fields > 32 then" => "if size > most then";

    "the last record of a group is not read",
    "a + 3, a + 2 + ARGV[a + 2]))" => "a + 3, a + 1 + ARGV[a + 2]))";

    "the second group is read with the arguments of the first",
    "a, result[i] = a + 2 + ARGV[a + 2]," => "result[i] =";

    "the sums of a ranking are read as the fields of a hash",
    "try(ARGV[a + 1], KEYS[i]" => "try('HMGET', KEYS[i]";

    "records of 20 MiB are read",
    "values[j] and #values[j] <= 2 ^ 20 and values[j]" => "values[j]";

    "a table of another type stops the fold",
    "try(ARGV[a + 1]" => "redis.call(ARGV[a + 1]";
]
"fold": [
    "a step under another version takes effect",
    "if v ~= ARGV[1] then return {'STALE', v} end" => "";

    "a step does not change the version",
    "'v', ARGV[2], 'upto', upto" => "'v', v, 'upto', upto";

    "a round ends at a missing entry",
    "if open == '' and upto ~= '' and upto ~= head and" => "if upto == 'absent' and";

    "a missing permission quarantines all keys",
    "not is_permitted and '' or 'HINCRBY" => "'' or 'HINCRBY";

    "folding needs free memory",
    "call('PERSIST', state)\n" => "";

    "a step does not begin its round",
    "'v', ARGV[2], 'upto', upto, 'done'" => "'v', ARGV[2], 'upto', open, 'done'";

    "the partitions of a step are not marked as done",
    "'done', ARGV[6], 'folder'" => "'done', '', 'folder'";

    "the end of the roll-up is not stored",
    ", 'rolled', ARGV[16], 'judged'" => ", 'judged'";

    "the time of the newest entry of a round is not stored",
    ", 'judged', upto .. ' ' .. ARGV[8])" => ")";

    "the version that folders need is not reset when no entry is left",
    "  if upto == head then call('HSET', state, 'need', 0) end\n" => "";

    "the version that folders need is reset while entries are left",
    "  if upto == head then call('HSET', state, 'need', 0) end\n" => "  call('HSET', state, 'need', 0)\n";

    "a folder that only writes loses its lease",
    "try('SET', KEYS[3], ARGV[3], 'PX', ARGV[4])" => "";

    "the quarantine holds any number of keys",
    "or 100) >= 100 then" => "or 100) >= 100000 then";

    "the quarantine never expires",
    "  try('EXPIRE', KEYS[8], 86400)\n" => "";

    "a step writes no more than 500 fields of a key",
    "math.min(a + 3 + n, first + 999)" => "math.min(a + 3 + n, a + 1003)";

    "the key of a failed write is not quarantined",
    "    if type(reply) == 'table' and reply.err then quarantine(key, reply) end\n" => "";

    "records never expire",
    "  if ARGV[a + 2] ~= '' then try('EXPIRE', key, ARGV[a + 2]) end\n" => "";

    "the bytes of missing entries are not counted",
    "hole = tonumber(ARGV[15])" => "hole = 0";

    "the end of a round skips entries after the round",
    "'low', upto, 'upto', '', 'done'" => "'low', head, 'upto', '', 'done'";

    "a finished round stays in progress",
    "'low', upto, 'upto', '', 'done'" => "'low', upto, 'done'";

    "the end of a round keeps the positions of entries that were set aside",
    "'done', '', 'aside', '', 'took'" => "'done', '', 'took'";

    "the oldest entry that is not folded has no time",
    "upto == head and '' or ARGV[8])" => "'')";

    "trimming does not free the journal's bytes",
    "call('HSET', state, 'trimmed', string.match(ARGV[7], '^%d+'), 'untrimmed', '')" => "call('HSET', state, 'untrimmed', '')";

    "entries that could not be trimmed free the journal's bytes",
    "if refusal == '' then call('HSET', state, 'trimmed'" => "if true then call('HSET', state, 'trimmed'";

    "the reason why entries could not be trimmed is not stored",
    "else call('HSET', state, 'untrimmed', refusal) end" => "end";

    "the warning about a denied XTRIM never ends",
    "string.match(ARGV[7], '^%d+'), 'untrimmed', '')" => "string.match(ARGV[7], '^%d+'))";

    "the journal is never trimmed",
    "local trimmed = try('XTRIM', KEYS[2], 'MINID', ARGV[7])" => "local trimmed = 0";

    "entries that are not folded are trimmed",
    "try('XTRIM', KEYS[2], 'MINID', ARGV[7])" => "try('XTRIM', KEYS[2], 'MAXLEN', 0)";
]
"inspect": [
    "a later change of the eviction policy is not stored",
    "if generation and memory ~= known_memory then" => "if generation and not known_memory then";

    "a full memory is not detected",
    "used >= 0.99 * most and 1 or 0" => "used < 0 and 1 or 0";

    "the inspection needs free memory",
    "redis.call('PERSIST', state) -- After PERSIST, writes need no free memory.\n" => "";

    "a repaired key stays in quarantine",
    "if not is_wrong(listed[i], listed[i + 1]) then" => "if false then";

    "a key with foreign data leaves the quarantine",
    "if not is_wrong(listed[i], listed[i + 1]) then" => "if true then";

    "a missing table is reported forever",
    "if now - (at or now) < 3600 then" => "if true then";
]
"try": [
    "a denied command counts as data of another program",
    "if refusal and not (" => "if false and not (";

    "a key of another type ends a script",
    "string.find(refusal, 'wrong kind of value', 1, true)" => "false";

    "a stream that accepts no entry ends a script",
    " or string.find(refusal, 'exhausted', 1, true)" => "";
]
"exports": [
    "the last new counters are not listed",
    "list_counter()" => "";

    "an older call moves the time of a context's last request back",
    "http = zadd(KEYS[6], 'GT', quarantine)" => "http = zadd(KEYS[6], 'CH', quarantine)";

    "a new slice does not remove the oldest slice",
    "if try('HDEL', key, pushed_out) ~= 1 or renews then" => "if true then";

    "the time to live of a counter is not renewed while each new slice removes an old slice",
    "~= 1 or renews then" => "~= 1 then";

    "counters never expire",
    "if ttl ~= '' then try('EXPIRE', key, ttl) end" => "";

    "a field that is no number stops the fold",
    "local sum = try('HINCRBY'" => "local sum = redis.call('HINCRBY'";

    "an impossible hour is accepted",
    "hour <= '23'" => "hour <= '99'";

    "statistics with thousands of members are written",
    "if try('ZCARD', key) > 16 then return" => "if false then return";

    "the minimum is replaced by the minimum of the last call",
    "math.min(min, least or min)" => "min";

    "an infinite sum is written",
    "if not (x > -huge and x < huge) then" => "if false then";

    "statistics without an hour are merged into any hour",
    "start = try('EXISTS', stats) == 1 and ARGV[9]" => "start = false";

    "a new hour deletes the statistics of the hour before",
    "try('RENAME', stats, last) or" => "try('DEL', stats) or";

    "the statistics of the last hour stay although the current hour has none",
    "or try('DEL', last)" => "or 0";

    "a new hour does not store the start of the hour before",
    "        try('SET', pstart_key, start)\n" => "";

    "an hour between the last and the current hour is added to the last hour",
    "      try('DEL', last)\n      try('SET', pstart_key, iso)" => "      try('SET', pstart_key, iso)";

    "late samples are not counted",
    "late = late + n" => "late = late";

    "late samples are counted for <all> too",
    "if kind ~= 'all' then late" => "if kind then late";

    "<all> is ranked",
    "if mean and kind ~= 'all' then" => "if mean then";

    "the mean of the last hour is ranked",
    "elseif into == stats then mean = new end" => "else mean = new end";

    "the ranking grows without limit",
    "if surplus > 0 then" => "if surplus > 1e9 then";

    "the ranking loses one context too many",
    "math.min(surplus, 1000) - 1)" => "math.min(surplus, 1000))";

    "the ranking loses the slowest contexts",
    "0, math.min(surplus, 1000) - 1)" => "-math.min(surplus, 1000), -1)";

    "a huge ranking is trimmed in one step",
    "math.min(surplus, 1000) - 1)" => "surplus - 1)";
]
"amend": [
    "an amendment under another version takes effect",
    "if v ~= ARGV[1] then return {'STALE', v} end" => "";

    "an amendment does not change the version",
    "redis.call('HSET', state, 'v', ARGV[2])\n" => "";

    "an amendment needs free memory",
    "redis.call('PERSIST', state)\n" => "";

    "the fence of an instance that appended meanwhile is removed",
    "if redis.call('HGET', state, ARGV[i]) == ARGV[i + 1] then" => "if true then";

    "a hole is closed although the journal has its entries",
    "if to ~= low and not has_entries(to) then" => "if to ~= low then";

    "closing a hole skips the entries after an interrupted round",
    "(upto ~= '' and has_entries(head)) and upto or head" => "head";

    "the bytes of a hole are not counted",
    "    redis.call('HINCRBY', state, 'hole', string.format('%.0f', till - from))\n" => "";

    "the bytes of a closed hole still count as bytes of the journal",
    ", 'trimmed', till)" => ")";

    "a closed hole leaves the round in progress",
    "'low', to, 'upto', '', 'done'" => "'low', to, 'done'";

    "any number of entries is set aside",
    "'MAXLEN', ARGV[5], '*'" => "'*'";

    "an entry of any size is set aside",
    "string.sub(part, 1, math.max(left, 0))" => "part";

    "an entry that was cut looks like a whole entry",
    "if left < 0 or #fields > 100 then" => "if false then";

    "entries that are set aside never expire",
    "    redis.pcall('EXPIRE', KEYS[3], ARGV[7])\n" => "";

    "data of another program in pulse:aside stops the fold",
    "foreign = try(unpack(copy)).err" => "foreign = redis.call(unpack(copy)).err";

    "requests that are set aside are not counted",
    "    redis.pcall('HINCRBY', state, 'set_aside', ARGV[4])\n" => "";

    "setting an entry aside forgets the entry that was set aside before",
    "(aside or '') .. target .. ' '" => "target .. ' '";

    "the wait for a newer instance begins again with each newer entry",
    "math.abs(now - at) > 60" => "true";

    "a newer entry continues a wait that ended long ago",
    "if not at or math.abs(now - at) > 60 then" => "if not at then";

    "the version that folders need is not reset when a closed hole leaves no entry",
    "    if to == head then redis.call('HSET', state, 'need', 0) end\n" => "";
]
"clean": [
    "an instance cleans while another instance has the lease",
    "if holder and holder ~= ARGV[1] and foreign == '' then return {'HELD'} end\n" => "";

    "a step does not prolong the lease",
    "redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2])" => "redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2], 'NX')";

    "a key that is not a lease stops cleaning",
    "(left == -1 or left > 7200) and" => "false and";

    "a key of another type stops cleaning",
    "local len = try('HLEN', key)" => "local len = redis.call('HLEN', key)";

    "old slices of a counter in use are never listed",
    "(position + number) % 16 ~= 0" => "true";

    "a long hash is listed at once",
    "len > LISTED, {}" => "false, {}";

    "the newest old slice stays",
    "slice <= cut_off" => "slice < cut_off";

    "any number of slices in the future stays",
    "if #live > keep and not is_long then" => "if false then";

    "fields that are not slices are removed",
    "string.find(field, '^%-?%d+$') and tonumber(field)" => "tonumber(field) or 0";

    "a counter with slices is removed from known:",
    "if redis.call('EXISTS', key) == 0 then" => "if true then";

    "an empty counter stays in known:",
    "if redis.call('EXISTS', key) == 0 then" => "if false then";

    "cleaning does not renew the time to live",
    "redis.call('EXPIRE', key, span + margin)" => "local _ = 0";

    "a precision is examined in every pass",
    "number % math.max(math.floor(p / interval), 1) == 0" => "true";

    "the member after a removed member is skipped",
    "if is_gone then counters = counters + 1 else position = position + 1 end" => "if is_gone then counters = counters + 1 end position = position + 1";

    "a context that is still a timer is forgotten",
    "math.max(http, timer)" => "math.min(http, timer)";

    "the counters of all requests are forgotten",
    "name == '<all>' or " => "";

    "after a page of contexts that stay, no context is examined",
    "return #old" => "return position == 0 and #old or 0";

    "a forgotten context stays in the ranking",
    "for i = 3, 5 do" => "for i = 3, 4 do";

    "the counters of a forgotten context stay",
    "redis.call('DEL', ARGV[13] .. member)" => "local _ = member";

    "the counters of a forgotten context stay in known:",
    "      try('ZREM', KEYS[2], member)\n" => "";

    "an idle context stays in the ranking",
    "if seen and seen <= unranked then" => "if false then";

    "a context that only the book's functions have recorded is never forgotten",
    "try('ZADD', KEYS[3], unranked, name)" => "local _ = name";

    "dead instances stay listed",
    "else try('ZREMRANGEBYSCORE', KEYS[6], '-inf', '(' .. ARGV[10]) end" => "end";
]
"rows_schedule": [
    "rows beyond the maximum are scheduled",
    "if new > 0 and rows + new > tonumber(ARGV[2]) then" => "if false then";

    "a row that is named twice is counted twice",
    "not seen[ARGV[i]] and " => "";

    "a load that began before the schedule keeps its lease",
    "string.format('0 - %s 0 %s ', loaded or '-', ARGV[3])" => "(string.gsub(redis.call('HGET', KEYS[3], id) or string.format('0 - - 0 %s ', ARGV[3]), '^%S+', '0'))";

    "a removed row stays cached",
    "    redis.call('DEL', KEYS[3 + i / 2])\n" => "";
]
"rows_lease": [
    "a leased row is leased again",
    "if till > now and till < now + HOUR and ARGV[4] ~= 'ROW' then return till end" => "";

    "a lease never ends",
    "if till > now and till < now + HOUR and" => "if till > 0 and till < now + HOUR and";

    "a lease with garbage as its end is accepted",
    " and till < now + HOUR" => "";

    "a refresh by hand waits for the lease",
    " and ARGV[4] ~= 'ROW' then return till" => " then return till";

    "a cached row is loaded for each caller",
    "if ARGV[4] == 'ROW' or not is_cached or byte(ARGV[6]) ~= '' then" => "if true then";

    "a row that is too long is not replaced",
    " or byte(ARGV[6]) ~= '' then" => " then";

    "ids that are not UTF-8 are leased",
    "if not is_utf8(id) then" => "if false then";

    "ids that are too long are leased",
    "if #id > MAX_ID then" => "if false then";

    "members that are not rows block other rows",
    "now + 60), id)" => "now), id)";

    "rows after a page of leased rows are not leased",
    "if #ids < 100 then break end" => "if true then break end";
]
"rows_drop": [
    "a row without a delay stays cached",
    "redis.call('ZREM', KEYS[4], id); redis.call('DEL', KEYS[4 + i])" => "redis.call('ZREM', KEYS[4], id)";
]
"rows_finish": [
    "a result is written without the lease",
    "if token ~= ARGV[2] then return {0, ''} end" => "";

    "a result overwrites the schedule of another program",
    "if score ~= due or due" => "if due";

    "a row that another program has removed leaves a state",
    "  if score == '' then redis.call('HDEL', KEYS[3], id); return {0, ''} end\n" => "";

    "failures are not counted",
    "(tonumber(failures) or 0) + 1" => "(tonumber(failures) or 0)";

    "the next refresh is due an interval after the end of the load",
    "next_due = due + delay * (missed" => "next_due = now + delay * (0 * missed";

    "missed refreshes are made later",
    "if not (next_due > now and next_due <= now + delay) then next_due = now + delay end" => "next_due = due + delay";

    "rows that were scheduled together are always due together",
    "(spread == '1' and tonumber(ARGV[8]) or 1)" => "1";

    "every interval is shortened",
    "string.format('0 - %s %d 0 %s', loaded, failures, reason)" => "string.format('0 - %s %d 1 %s', loaded, failures, reason)";

    "a missing row stays cached",
    "  redis.call('DEL', KEYS[5])\n" => "";

    "a failing row is not listed as failing",
    "  if due ~= '' then redis.call('ZADD', KEYS[4], failures, id) end\n" => "";
]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use super::*;

    #[test]
    fn each_break_can_be_applied() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut names = BTreeSet::new();
        for broken in BREAKS {
            let source = fs::read_to_string(broken.path(&root.join("crates/redis/src")))
                .expect("the script exists");
            if let Err(error) = broken.apply(&source) {
                panic!("{error}\nadapt the break in tests/lua_breaks/src/breaks.rs to the script");
            }
            assert!(
                names.insert(broken.name),
                "two breaks have the name {}",
                broken.name
            );
        }
    }
}
