//! The breaks: each takes one promise away from a script.

use std::path::{Path, PathBuf};

/// A change to one place of a script that violates a promise.
pub(crate) struct Break {
    /// The script, without `.lua`.
    pub(crate) script: &'static str,
    /// What goes wrong.
    pub(crate) name: &'static str,
    /// What holds without the break.
    pub(crate) promise: &'static str,
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
    /// When the text to replace does not occur exactly once, as after a change of the script.
    pub(crate) fn apply(&self, source: &str) -> Result<String, String> {
        match source.matches(self.from).count() {
            1 => Ok(source.replacen(self.from, self.to, 1)),
            count => Err(format!(
                "{}.lua contains {count} times, and not once, what the break `{}` replaces: {}",
                self.script, self.name, self.from
            )),
        }
    }
}

/// The breaks of one script: name, promise, text to replace, replacement.
macro_rules! breaks {
    ($($script:literal: [$($name:literal, $promise:literal, $from:literal => $to:literal;)*])*) => {
        pub(crate) const BREAKS: &[Break] = &[$($(
            Break { script: $script, name: $name, promise: $promise, from: $from, to: $to },
        )*)*];
    };
}

breaks! {
"hello": [
    "each hello begins a new generation",
    "a generation lasts until the state is gone",
    "if generation then return" => "if generation and not created then return";

    "a generation is always said to be new",
    "buffered calls are replayed into another generation only within 60 s of its creation",
    "{generation, now - created, was_fresh}" => "{generation, 0, was_fresh}";

    "the second instance is told that the generation was not fresh",
    "all instances replay their buffers into a fresh generation",
    "{generation, now - created, was_fresh}" => "{generation, now - created, '0'}";

    "a generation is fresh although entries were there",
    "a generation is fresh only if neither a journal nor records existed",
    "(orphans == 0 and redis.call(" => "(redis.call(";

    "a generation is fresh although contexts are there",
    "a generation is fresh only if neither a journal nor records existed",
    "'EXISTS', KEYS[3], KEYS[4], KEYS[5])" => "'EXISTS', KEYS[3])";

    "a generation is fresh although a journal was orphaned before",
    "a generation is fresh only if neither a journal nor records existed",
    "'EXISTS', KEYS[3], KEYS[4], KEYS[5])" => "'EXISTS', KEYS[4], KEYS[5])";

    "a journal without its state is deleted",
    "a journal without its state is set aside for a week",
    "if left > 0 then redis.call('XADD', KEYS[3]," => "if false then redis.call('XADD', KEYS[3],";

    "a journal of any size is set aside",
    "what is kept of an orphaned journal is bounded in bytes",
    "if left > 0 then redis.call('XADD', KEYS[3]," => "if true then redis.call('XADD', KEYS[3],";

    "an orphaned journal also stays the journal",
    "a new generation appends from offset 0",
    "  redis.call('DEL', KEYS[2])\nend" => "end";

    "an orphaned journal never expires",
    "a journal without its state is set aside for a week",
    "  redis.call('EXPIRE', KEYS[3], ARGV[4])\n" => "";

    "an empty journal stays when its state is gone",
    "a new generation appends from offset 0",
    "if orphans == 0 then redis.call('DEL', KEYS[2]) end" => "";

    "a new generation does not say since when it has recorded",
    "what counts as recorded begins with the first sample",
    "'since', now, " => "";

    "orphaned entries are not counted",
    "what is set aside is told",
    "'orphaned', orphans" => "'orphaned', 0";
]
"append": [
    "a call of another generation is appended",
    "a call of another generation is reset",
    "if generation ~= ARGV[1] then" => "if not generation then";

    "a replica without the generation answers RESET",
    "a replica, and a server that refuses writes, never answer RESET",
    "return {'RESET', redis.call('PERSIST', state)}" => "return {'RESET'}";

    "a replica that lags answers GAP",
    "a replica, and a server that refuses writes, never answer GAP",
    "string.format('%.0f', fence), redis.call('PERSIST', state)}" => "string.format('%.0f', fence)}";

    "a repeated call counts as a gap",
    "a call that is sent again is a duplicate",
    "if fence >= seq then" => "if fence > seq then";

    "a call after a lost one is appended",
    "a gap is answered, so that the lost calls are replayed or counted",
    "if fence ~= tonumber(ARGV[4]) then" => "if fence > tonumber(ARGV[4]) then";

    "a fence of 20 digits is believed",
    "a fence that cannot be read is garbled, and its instance goes on under a new name",
    "string.sub(last or '0 ', 1, 16)" => "(last or '0 ')";

    "a lease that never ends counts as attended",
    "an answer says that an instance folds only while one holds the lease",
    "left >= 0 and left <= 600 and 1 or 0" => "left ~= -2 and left <= 600 and 1 or 0";

    "a lease that ends in a day counts as attended",
    "an answer says that an instance folds only while one holds the lease",
    "left >= 0 and left <= 600 and 1 or 0" => "left >= 0 and 1 or 0";

    "the journal is never full",
    "the journal holds no more than journal_bytes",
    "if offset - (tonumber(trimmed) or 0) >= tonumber(ARGV[5]) then return {'FULL'} end" => "";

    "trimmed bytes count as bytes of the journal",
    "a journal that was full accepts calls again after it was folded",
    "offset - (tonumber(trimmed) or 0)" => "offset";

    "an id does not commit to the entries before it",
    "the same offset in another history has another id",
    "table.concat({head, ARGV[2]" => "table.concat({ARGV[2]";

    "an offset does not count the bytes of the entry",
    "an offset is the number of bytes that were appended",
    "offset + #ARGV[9] + 1" => "offset + 1";

    "an entry of an older version lowers the version that folders need",
    "an instance folds no entry of a version that it cannot read",
    "math.max(tonumber(need) or 0, tonumber(ARGV[6]))" => "tonumber(ARGV[6])";

    "a fence has no stamp",
    "the fence of an instance stays for a day after its last call",
    "ARGV[3] .. ' ' .. time[1]" => "ARGV[3] .. ' 0'";

    "each call passes for the oldest that is not folded",
    "the state says when the oldest entry that is not folded was appended",
    "if low == head then redis" => "if low then redis";

    "what was recorded before the generation does not count",
    "what counts as recorded begins with the first sample",
    "if first and began and first < began" => "if first and false and began and first < began";

    "what counts as recorded begins with the last call",
    "what counts as recorded begins with the first sample",
    "if first and began and first < began" => "if first and began";

    "a clock that is far off moves what counts as recorded",
    "what counts as recorded begins within what is kept",
    " and first > time[1] - ARGV[11] then" => " then";

    "an entry of another program stops all calls",
    "entries of another program stop no call",
    "if refusal then" => "if refusal and false then";

    "a stream that has used its last id stops all calls",
    "entries of another program stop no call",
    " or string.find(refusal, 'exhausted', 1, true)" => "";

    "entries that are not folded go with those of another program",
    "entries that are not folded stay while those of another program are removed",
    "redis.call('XRANGE', KEYS[4], '(' .. from, head, 'COUNT', 16)" => "{}";

    "only some of the entries that are not folded stay",
    "entries that are not folded stay while those of another program are removed",
    "until #entries == 0" => "until true";

    "an entry of ten thousand fields fails the removal half-way",
    "entries that are not folded stay while those of another program are removed",
    "unpack(kept[2], 1, math.min(#kept[2], 100))" => "unpack(kept[2])";

    "the old journal stays",
    "entries of another program are removed",
    "  redis.pcall('DEL', KEYS[4])\n" => "";

    "the removal of another program's entries is not told",
    "a key of this crate that held something else is named",
    "{'DONE', id, low, attended, refusal}" => "{'DONE', id, low, attended}";

    "a duplicate is said to be folded",
    "a call is readable only when its entry is folded",
    "{'DUPLICATE', head, low" => "{'DUPLICATE', low, low";
]
"acquire": [
    "the lease of another instance is taken",
    "one instance folds at a time",
    "if holder and holder ~= ARGV[1] and foreign == '' then return {'HELD'} end" => "";

    "a lease that never ends keeps all instances from folding",
    "a key that is no lease does not stop the fold",
    "or (left == -1 or left > 600) and 'it does not expire soon' or ''" => "or ''";

    "every instance reads up to an entry that it cannot read",
    "an instance that cannot read the next entry does not acquire the lease",
    "if entry then" => "if false then";

    "an instance waits at an entry that it can read",
    "an entry of a newer version waits for an instance that can read it",
    "tonumber(version) > tonumber(ARGV[4])" => "tonumber(version) > 0";

    "a folder waits at an entry that is gone",
    "nothing waits for an entry of a newer version that is not there any more",
    "local entry = is_newer and redis.pcall('XRANGE', KEYS[2], id, id)[1]" => "local entry = is_newer and {id, {}}";

    "garbage about a newer entry stops the fold",
    "garbage in the state does not stop the fold",
    "redis.pcall('XRANGE', KEYS[2], id, id)" => "redis.call('XRANGE', KEYS[2], id, id)";

    "a jump of the clock ends the wait of a newer entry",
    "an entry of a newer version waits for ten minutes, whatever the clock does",
    "math.max(0, math.min(now - at, 60))" => "math.max(0, now - at)";

    "a clock that goes back prolongs the wait of a newer entry",
    "an entry of a newer version waits for ten minutes, whatever the clock does",
    "math.max(0, math.min(now - at, 60))" => "math.min(now - at, 60)";

    "an entry of a newer version waits forever",
    "after 10 minutes any instance may set aside an entry of a newer version",
    "waited = waited + math.max" => "waited = 0 * math.max";

    "a newer entry that is stamped a year ahead waits for a year",
    "an entry of a newer version waits for ten minutes, whatever the clock does",
    "(age >= 0 and age <" => "(age <";

    "no instance learns that newer entries have waited",
    "after 10 minutes any instance may set aside an entry of a newer version",
    "entry and '1' or ''" => "''";

    "nothing is left and folders of older versions wait",
    "the version that folders need is lowered when nothing is left",
    "if low == head then redis.call('HSET', KEYS[1], 'need', 0) end" => "";

    "a takeover judges the stamps of a round anew",
    "all partitions of a round judge its stamps alike",
    "judged_upto == upto and stamp or ''" => "''";

    "a takeover judges a round by the stamp of another",
    "all partitions of a round judge its stamps alike",
    "judged_upto == upto and stamp or ''" => "stamp or ''";

    "the lease cannot be taken without free memory",
    "folding works on a server that is out of memory, as it frees memory",
    "redis.call('PERSIST', KEYS[1])" => "";

    "what was appended to another generation is not counted",
    "a state that comes back counts what was appended while it was away",
    "and strays > 0 then" => "and false then";

    "the lease to fold never ends",
    "another instance folds 5 s after the folder has died",
    "ARGV[1], 'PX', ARGV[2])" => "ARGV[1])";

    "a takeover does not finish the round that was begun",
    "whoever takes over finishes the round that was begun",
    "{'MINE', low, upto, done," => "{'MINE', low, '', done,";

    "a takeover folds partitions again",
    "a partition of a round is folded once",
    "{'MINE', low, upto, done," => "{'MINE', low, upto, '',";

    "a takeover forgets which entries were set aside",
    "an entry is set aside once",
    "done, aside, rolled, foreign," => "done, '', rolled, foreign,";

    "a takeover forgets which slices were rolled up",
    "a slice is added to the coarser tiers once",
    "done, aside, rolled, foreign," => "done, aside, '', foreign,";
]
"read": [
    "a folder reads under another version",
    "all reads for folding check the version",
    "if v ~= ARGV[1] then return {'STALE'} end" => "";

    "a folder that only reads loses its lease",
    "reading prolongs the lease",
    "redis.pcall('SET', KEYS[3], ARGV[2], 'PX', ARGV[3])" => "";

    "a read goes on in another history",
    "a failover between two reads of a round is noticed",
    "  if ARGV[5] ~= low and #redis.call('XRANGE', KEYS[2], ARGV[5], ARGV[5]) == 0 then return {'STALE'} end\n" => "";

    "the last entry is read again",
    "an entry is folded once",
    "local from, till, left, most = '(' .. ARGV[5]," => "local from, till, left, most = ARGV[5],";

    "entries after the end of a begun round are read",
    "a round that was begun ends where it ended before",
    "upto ~= '' and upto or head, tonumber" => "head, tonumber";

    "an entry of another program is read behind the newest entry",
    "what lies behind the newest entry is never folded",
    "upto ~= '' and upto or head, tonumber" => "upto ~= '' and upto or '18446744073709551615-0', tonumber";

    "a read has no limit",
    "a read of the journal is limited in bytes",
    "if left > 0 and (#entries == 0 or size <= left) then" => "if true then";

    "a read returns up to eight entries",
    "a read returns as many entries as its limit allows",
    "until left <= 0 or #page < 8" => "until true";

    "an entry that is larger than a read is never read",
    "a read returns at least one entry if there is any",
    "(#entries == 0 or size <= left)" => "size <= left";

    "an entry of any size is read",
    "what no instance sends is set aside, in bounded memory",
    "if size > most or #fields > 32 then" => "if #fields > 32 then";

    "an entry with any number of fields is read",
    "what no instance sends is set aside, in bounded memory",
    "if size > most or #fields > 32 then" => "if size > most then";

    "the last record of a group is not read",
    "a step adds to records as the store holds them",
    "a + 3, a + 2 + ARGV[a + 2]))" => "a + 3, a + 1 + ARGV[a + 2]))";

    "the second group is read with the arguments of the first",
    "a read returns the values of each of its groups",
    "a, result[i] = a + 2 + ARGV[a + 2]," => "result[i] =";

    "the sums of a ranking are read as the fields of a hash",
    "additions are merged with the sums that the store holds",
    "try(ARGV[a + 1], KEYS[i]" => "try('HMGET', KEYS[i]";

    "records of 20 MiB are read",
    "a record that is too large reads as empty and is replaced",
    "values[j] and #values[j] <= 2 ^ 20 and values[j]" => "values[j]";

    "records of another type stop the fold",
    "a key that cannot be read reads as empty, and is quarantined",
    "try(ARGV[a + 1]" => "redis.call(ARGV[a + 1]";
]
"fold": [
    "a step under another version takes effect",
    "a step that gives another version has no effect",
    "if v ~= ARGV[1] then return {'STALE', v} end" => "";

    "a step does not change the version",
    "a step that is sent twice takes effect once",
    "'v', ARGV[2], 'upto', upto" => "'v', v, 'upto', upto";

    "a round ends at an entry that is not there",
    "a failover that loses the end of a round undoes the round",
    "if open == '' and upto ~= '' and upto ~= head and" => "if upto == 'absent' and";

    "a missing permission quarantines all keys",
    "a missing permission fails the step before it changes anything",
    "not is_permitted and '' or 'HINCRBY" => "'' or 'HINCRBY";

    "folding needs free memory",
    "folding works on a server that is out of memory, as it frees memory",
    "call('PERSIST', state)\n" => "";

    "a step does not begin its round",
    "whoever takes over finishes the round that was begun",
    "'v', ARGV[2], 'upto', upto, 'done'" => "'v', ARGV[2], 'upto', open, 'done'";

    "the partitions of a step are not marked as done",
    "a partition of a round is folded once",
    "'done', ARGV[6], 'folder'" => "'done', '', 'folder'";

    "slices that are rolled up are not marked",
    "a slice is added to the coarser tiers once",
    ", 'rolled', ARGV[16], 'judged'" => ", 'judged'";

    "the stamp of a round is not noted",
    "all partitions of a round judge its stamps alike",
    ", 'judged', upto .. ' ' .. ARGV[8])" => ")";

    "the version that folders need stays when nothing is left",
    "the version that folders need is lowered when nothing is left",
    "  if upto == head then call('HSET', state, 'need', 0) end\n" => "";

    "the version that folders need is lowered below an entry",
    "an append raises the version that folders need",
    "  if upto == head then call('HSET', state, 'need', 0) end\n" => "  call('HSET', state, 'need', 0)\n";

    "a folder that only writes loses its lease",
    "a step prolongs the lease",
    "try('SET', KEYS[3], ARGV[3], 'PX', ARGV[4])" => "";

    "the quarantine holds any number of keys",
    "the quarantine holds at most 100 keys",
    "or 100) >= 100 then" => "or 100) >= 100000 then";

    "the quarantine never expires",
    "a quarantined key is named for a day",
    "  try('EXPIRE', KEYS[8], 86400)\n" => "";

    "a step writes no more than 500 fields of a key",
    "a step writes all its records",
    "math.min(a + 3 + n, first + 999)" => "math.min(a + 3 + n, a + 1003)";

    "a write that fails is not told",
    "a key of another type is quarantined",
    "    if type(reply) == 'table' and reply.err then quarantine(key, reply) end\n" => "";

    "records never expire",
    "records expire after the retention of their tier",
    "  if ARGV[a + 2] ~= '' then try('EXPIRE', key, ARGV[a + 2]) end\n" => "";

    "missing entries are not told",
    "a hole is told in bytes",
    "hole = tonumber(ARGV[15])" => "hole = 0";

    "the end of a round skips entries that came after it",
    "a round ends at its last entry",
    "'low', upto, 'upto', '', 'done'" => "'low', head, 'upto', '', 'done'";

    "the end of a round leaves it begun",
    "the step that completes a round ends it",
    "'low', upto, 'upto', '', 'done'" => "'low', upto, 'done'";

    "the end of a round keeps the positions of entries that were set aside",
    "the state stays small",
    "'done', '', 'aside', '', 'took'" => "'done', '', 'took'";

    "an entry that waits has no age",
    "the state says when the oldest entry that is not folded was appended",
    "upto == head and '' or ARGV[8])" => "'')";

    "trimming does not free the journal's bytes",
    "a journal that was full accepts calls again after it was folded",
    "call('HSET', state, 'trimmed', string.match(ARGV[7], '^%d+'), 'untrimmed', '')" => "call('HSET', state, 'untrimmed', '')";

    "entries that could not be trimmed free the journal's bytes",
    "the bound of the journal holds while XTRIM is denied",
    "if refusal == '' then call('HSET', state, 'trimmed'" => "if true then call('HSET', state, 'trimmed'";

    "entries that could not be trimmed are not told",
    "a denied XTRIM is told",
    "else call('HSET', state, 'untrimmed', refusal) end" => "end";

    "the warning of a denied XTRIM stays",
    "a warning is quiet when its cause is mended",
    "string.match(ARGV[7], '^%d+'), 'untrimmed', '')" => "string.match(ARGV[7], '^%d+'))";

    "the journal is never trimmed",
    "entries that are folded are trimmed",
    "local trimmed = try('XTRIM', KEYS[2], 'MINID', ARGV[7])" => "local trimmed = 0";

    "entries that are not folded are trimmed",
    "an entry is trimmed when it is folded",
    "try('XTRIM', KEYS[2], 'MINID', ARGV[7])" => "try('XTRIM', KEYS[2], 'MAXLEN', 0)";
]
"inspect": [
    "a policy of eviction that is set later is not noted",
    "a policy of eviction is told by all while it lasts",
    "if generation and memory ~= known_memory then" => "if generation and not known_memory then";

    "a full memory is not noted",
    "a server without free memory is told by all while it lasts",
    "used >= 0.99 * most and 1 or 0" => "used < 0 and 1 or 0";

    "a note needs free memory",
    "a server without free memory is told by all while it lasts",
    "redis.call('PERSIST', state) -- Allowed without free memory, and so are the writes after it.\n" => "";

    "a key that is mended stays in quarantine",
    "keys that hold something else are told until they are mended",
    "if not is_wrong(listed[i], listed[i + 1]) then" => "if false then";

    "a key that is wrong leaves the quarantine",
    "keys that hold something else are told until they are mended",
    "if not is_wrong(listed[i], listed[i + 1]) then" => "if true then";

    "a table that is gone is told for ever",
    "a table that is gone is told for an hour",
    "if now - (at or now) < 3600 then" => "if true then";
]
"try": [
    "a command that is denied counts as data of another program",
    "only data of another program is told as such",
    "if refusal and not (" => "if false and not (";

    "a key of another type ends a script",
    "a key of another type is replaced",
    "string.find(refusal, 'wrong kind of value', 1, true)" => "false";

    "a stream that takes no entry ends a script",
    "an entry is set aside whatever another program has written there",
    " or string.find(refusal, 'exhausted', 1, true)" => "";
]
"exports": [
    "the last new counters are not listed",
    "each counter is in known:",
    "list_counter()" => "";

    "an older call takes back the time of a context's last request",
    "the time of a context's last request never goes back",
    "http = zadd(KEYS[6], 'GT', quarantine)" => "http = zadd(KEYS[6], 'CH', quarantine)";

    "a new slice pushes no old one out",
    "the book's counters are trimmed when they are written",
    "if try('HDEL', key, pushed_out) ~= 1 or renews then" => "if true then";

    "a counter is not renewed while each slice pushes one out",
    "a counter that another program removed from known: is listed again",
    "~= 1 or renews then" => "~= 1 then";

    "counters never expire",
    "the book's counters have a time to live",
    "if ttl ~= '' then try('EXPIRE', key, ttl) end" => "";

    "a field that is no number stops the fold",
    "garbage in a key drops that key's delta only",
    "local sum = try('HINCRBY'" => "local sum = redis.call('HINCRBY'";

    "an impossible hour is believed",
    "an hour that is not one is replaced by the current hour",
    "hour <= '23'" => "hour <= '99'";

    "statistics with thousands of members are written",
    "statistics with more than 16 members are quarantined",
    "if try('ZCARD', key) > 16 then return" => "if false then return";

    "the least time is replaced by the last call's",
    "statistics hold the least and the greatest time",
    "math.min(min, least or min)" => "min";

    "an infinite sum is written",
    "a sum that would overflow is quarantined, and changes nothing",
    "if not (x > -huge and x < huge) then" => "if false then";

    "statistics without an hour are merged into any hour",
    "statistics without an hour count as the current hour's",
    "start = try('EXISTS', stats) == 1 and ARGV[9]" => "start = false";

    "a new hour drops the last one",
    "a new hour makes the current statistics the last hour's",
    "try('RENAME', stats, last) or" => "try('DEL', stats) or";

    "the last hour stays when the current one has no statistics",
    "the last hour's statistics are those of the hour in :pstart",
    "or try('DEL', last)" => "or 0";

    "a new hour does not say which one was the last",
    "the last hour's statistics are those of the hour in :pstart",
    "        try('SET', pstart_key, start)\n" => "";

    "an hour between is added to the last one",
    "an hour between the last and the current one replaces the last",
    "      try('DEL', last)\n      try('SET', pstart_key, iso)" => "      try('SET', pstart_key, iso)";

    "samples of older hours are dropped without being counted",
    "current + last + late + skewed = served",
    "late = late + n" => "late = late";

    "late samples are counted for <all> too",
    "each late sample is counted once",
    "if kind ~= 'all' then late" => "if kind then late";

    "<all> is ranked",
    "<all> is in no ranking",
    "if mean and kind ~= 'all' then" => "if mean then";

    "the mean of the last hour is ranked",
    "contexts are ranked by their mean of the current hour",
    "elseif into == stats then mean = new end" => "else mean = new end";

    "the ranking grows without limit",
    "the ranking holds a hundred",
    "if surplus > 0 then" => "if surplus > 1e9 then";

    "the ranking loses one too many",
    "the ranking holds a hundred",
    "math.min(surplus, 1000) - 1)" => "math.min(surplus, 1000))";

    "the ranking loses the slowest",
    "the ranking holds the slowest hundred",
    "0, math.min(surplus, 1000) - 1)" => "-math.min(surplus, 1000), -1)";

    "a huge ranking is trimmed in one step",
    "a step blocks the server for a short time only",
    "math.min(surplus, 1000) - 1)" => "surplus - 1)";
]
"amend": [
    "an amendment under another version takes effect",
    "an amendment that gives another version has no effect",
    "if v ~= ARGV[1] then return {'STALE', v} end" => "";

    "an amendment does not change the version",
    "an amendment that is sent twice takes effect once",
    "redis.call('HSET', state, 'v', ARGV[2])\n" => "";

    "an amendment needs free memory",
    "folding works on a server that is out of memory, as it frees memory",
    "redis.call('PERSIST', state)\n" => "";

    "the fence of an instance that appended meanwhile is removed",
    "the fence of an instance stays for a day after its last call",
    "if redis.call('HGET', state, ARGV[i]) == ARGV[i + 1] then" => "if true then";

    "a hole is closed over entries that are there",
    "closing a hole skips only entries that are gone",
    "if to ~= low and not has_entries(to) then" => "if to ~= low then";

    "a hole skips the entries after a begun round",
    "closing a hole skips only entries that are gone",
    "(upto ~= '' and has_entries(head)) and upto or head" => "head";

    "a hole is not told",
    "a hole is told in bytes",
    "    redis.call('HINCRBY', state, 'hole', string.format('%.0f', till - from))\n" => "";

    "a hole stays part of the journal's bytes",
    "a journal that was full accepts calls again after it was folded",
    ", 'trimmed', till)" => ")";

    "a closed hole leaves the round begun",
    "closing a hole drops the round whose entries are gone",
    "'low', to, 'upto', '', 'done'" => "'low', to, 'done'";

    "any number of entries is set aside",
    "pulse:aside holds at most 100 entries",
    "'MAXLEN', ARGV[5], '*'" => "'*'";

    "an entry of any size is set aside",
    "pulse:aside is bounded in bytes",
    "string.sub(part, 1, math.max(left, 0))" => "part";

    "an entry that is cut is not told from a whole one",
    "what is missing of an entry in pulse:aside is told",
    "if left < 0 or #fields > 100 then" => "if false then";

    "entries that are set aside stay for ever",
    "pulse:aside is bounded in time",
    "    redis.pcall('EXPIRE', KEYS[3], ARGV[7])\n" => "";

    "data of another program in pulse:aside stops the fold",
    "an entry that cannot be decoded never stops the fold",
    "foreign = try(unpack(copy)).err" => "foreign = redis.call(unpack(copy)).err";

    "requests that are set aside are not counted",
    "what is set aside is counted in requests",
    "    redis.pcall('HINCRBY', state, 'set_aside', ARGV[4])\n" => "";

    "setting an entry aside forgets the one before",
    "an entry is set aside once",
    "(aside or '') .. target .. ' '" => "target .. ' '";

    "the wait of a newer entry begins anew with each",
    "entries of a newer version wait together",
    "math.abs(now - at) > 60" => "true";

    "a newer entry goes on with a wait of long ago",
    "an entry of a newer version waits for an instance that can read it",
    "if not at or math.abs(now - at) > 60 then" => "if not at then";

    "a closed hole leaves what folders of older versions need",
    "the version that folders need is lowered when nothing is left",
    "    if to == head then redis.call('HSET', state, 'need', 0) end\n" => "";
]
"clean": [
    "an instance cleans while another has the lease",
    "one instance cleans",
    "if holder and holder ~= ARGV[1] and foreign == '' then return {'HELD'} end\n" => "";

    "a step does not prolong the lease",
    "one instance cleans as long as it lives",
    "redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2])" => "redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2], 'NX')";

    "a lease that is none is left",
    "a lease that never expires is taken",
    "(left == -1 or left > 7200) and" => "false and";

    "a key of another type stops cleaning",
    "garbage in a key stops the cleaning of that key only",
    "local len = try('HLEN', key)" => "local len = redis.call('HLEN', key)";

    "old slices of a counter that is written are never listed",
    "gaps leave no old slices",
    "(position + number) % 16 ~= 0" => "true";

    "a long hash is listed at once",
    "a step is bounded",
    "len > LISTED, {}" => "false, {}";

    "the newest old slice stays",
    "cleaning keeps the slices within their retention",
    "slice <= cut_off" => "slice < cut_off";

    "all slices of the future stay",
    "the newest slices stay, and no more",
    "if #live > keep and not is_long then" => "if false then";

    "fields that are not slices are removed",
    "garbage is left alone",
    "string.find(field, '^%-?%d+$') and tonumber(field)" => "tonumber(field) or 0";

    "a counter with slices is removed from known:",
    "only empty counters are removed from known:",
    "if redis.call('EXISTS', key) == 0 then" => "if true then";

    "an empty counter stays in known:",
    "empty counters are removed from known:",
    "if redis.call('EXISTS', key) == 0 then" => "if false then";

    "cleaning does not renew the time to live",
    "a counter with slices within their retention does not expire",
    "redis.call('EXPIRE', key, span + margin)" => "local _ = 0";

    "a precision is examined in every pass",
    "a precision is examined when it is due",
    "number % math.max(math.floor(p / interval), 1) == 0" => "true";

    "the member after one that is gone is skipped",
    "a pass examines all counters",
    "if is_gone then counters = counters + 1 else position = position + 1 end" => "if is_gone then counters = counters + 1 end position = position + 1";

    "a context that is still a timer is forgotten",
    "a context with recent samples of either kind stays",
    "math.max(http, timer)" => "math.min(http, timer)";

    "the global counters are forgotten",
    "the counters of <all> stay",
    "name == '<all>' or " => "";

    "contexts that stay end the stage",
    "contexts that stay do not delay others",
    "return #old" => "return position == 0 and #old or 0";

    "a forgotten context stays in the ranking",
    "a context is forgotten with all its data",
    "for i = 3, 5 do" => "for i = 3, 4 do";

    "the counters of a forgotten context stay",
    "a context is forgotten with all its data",
    "redis.call('DEL', ARGV[13] .. member)" => "local _ = member";

    "the counters of a forgotten context stay in known:",
    "a context is forgotten with all its data",
    "      try('ZREM', KEYS[2], member)\n" => "";

    "an idle context stays in the ranking",
    "idle contexts leave the ranking",
    "if seen and seen <= unranked then" => "if false then";

    "a context of the book is never forgotten",
    "contexts that only the ranking names are forgotten",
    "try('ZADD', KEYS[3], unranked, name)" => "local _ = name";

    "dead instances stay listed",
    "dead instances are removed",
    "else try('ZREMRANGEBYSCORE', KEYS[6], '-inf', '(' .. ARGV[10]) end" => "end";
]
"rows_schedule": [
    "rows beyond the maximum are scheduled",
    "above `max_rows`, rows are refused",
    "if new > 0 and rows + new > tonumber(ARGV[2]) then" => "if false then";

    "a row that is named twice is counted twice",
    "above `max_rows`, rows are refused, and not below",
    "not seen[ARGV[i]] and " => "";

    "a load that began before the schedule keeps its lease",
    "an answer that is older than the schedule is dropped",
    "string.format('0 - %s 0 %s ', loaded or '-', ARGV[3])" => "(string.gsub(redis.call('HGET', KEYS[3], id) or string.format('0 - - 0 %s ', ARGV[3]), '^%S+', '0'))";

    "a removed row stays cached",
    "removing a row removes what is cached",
    "    redis.call('DEL', KEYS[3 + i / 2])\n" => "";
]
"rows_lease": [
    "a leased row is leased again",
    "each turn is done by one daemon",
    "if till > now and till < now + HOUR and ARGV[4] ~= 'ROW' then return till end" => "";

    "a lease never ends",
    "a daemon that dies gives its rows back",
    "if till > now and till < now + HOUR and" => "if till > 0 and till < now + HOUR and";

    "a lease of garbage is believed",
    "no lease lasts for an hour",
    " and till < now + HOUR" => "";

    "a refresh by hand waits for the lease",
    "an answer that is older than a refresh by hand is dropped",
    " and ARGV[4] ~= 'ROW' then return till" => " then return till";

    "a cached row is loaded for each caller",
    "many callers cause one load",
    "if ARGV[4] == 'ROW' or not is_cached or byte(ARGV[6]) ~= '' then" => "if true then";

    "a row that is too long is not replaced",
    "a row that cannot be read does not keep callers waiting",
    " or byte(ARGV[6]) ~= '' then" => " then";

    "ids that are not UTF-8 are leased",
    "entries that are no rows are skipped, and loaded by nobody",
    "if not is_utf8(id) then" => "if false then";

    "ids that are too long are leased",
    "entries that are no rows are skipped, and loaded by nobody",
    "if #id > MAX_ID then" => "if false then";

    "entries that are no rows stay at the head",
    "entries that are no rows delay no row, and are reported once a minute",
    "now + 60), id)" => "now), id)";

    "rows behind a page of leased ones are not seen",
    "rows behind many leased ones are on time",
    "if #ids < 100 then break end" => "if true then break end";
]
"rows_drop": [
    "a row without a delay stays",
    "a delay of 0 or less removes the row",
    "redis.call('ZREM', KEYS[4], id); redis.call('DEL', KEYS[4 + i])" => "redis.call('ZREM', KEYS[4], id)";
]
"rows_finish": [
    "an answer is written without the lease",
    "an answer that is older than a later change is dropped",
    "if token ~= ARGV[2] then return {0, ''} end" => "";

    "an answer overtakes the schedule of the book",
    "an answer that is older than the book's schedule is dropped",
    "if score ~= due or due" => "if due";

    "what the book removed leaves a state behind",
    "nothing is left of a removed row",
    "  if score == '' then redis.call('HDEL', KEYS[3], id); return {0, ''} end\n" => "";

    "failures are not counted",
    "a row that fails waits longer each time, and is listed first",
    "(tonumber(failures) or 0) + 1" => "(tonumber(failures) or 0)";

    "the next turn is counted from the end of the load",
    "the next turn is due time + delay",
    "next_due = due + delay * (missed" => "next_due = now + delay * (0 * missed";

    "missed turns are replayed",
    "missed turns are skipped",
    "if not (next_due > now and next_due <= now + delay) then next_due = now + delay end" => "next_due = due + delay";

    "rows that were scheduled together stay together",
    "the first interval of rows that were scheduled together is shortened",
    "(spread == '1' and tonumber(ARGV[8]) or 1)" => "1";

    "every interval is shortened",
    "only the first interval of a row is shortened",
    "string.format('0 - %s %d 0 %s', loaded, failures, reason)" => "string.format('0 - %s %d 1 %s', loaded, failures, reason)";

    "a missing row stays cached",
    "a row that there is not is removed from the cache",
    "  redis.call('DEL', KEYS[5])\n" => "";

    "a failed row is not listed first",
    "failing rows are listed first",
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
                panic!(
                    "{error}\nchange the break in tests/lua_breaks/src/breaks.rs with the script"
                );
            }
            assert!(names.insert(broken.name), "two breaks: {}", broken.name);
        }
    }
}
