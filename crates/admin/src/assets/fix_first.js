// The pages to fix first, the reasons, and the time that a fix would save: the rows of `api/fix_first`.

import { serverNow } from './api.js';
import { against, level } from './change.js';
import { duration, moment, perUnit, percent, rateOf, span, visible } from './format.js';
import { seconds } from './state.js';
import { contextColumn, errorColumn, numberColumn, ratioColumn, shareColumn, statistic, Table } from './table.js';

/** The reason for a row and its start, in words. Reports of instances may cover only the end of the range. */
function why({ reason, cause, instance, window: { from, to } }) {
	const part = seconds() - (to - from) > 120 ? ` (figures of ${span(to - from)})` : '';
	const words = {
		instance: () => `${visible(instance)} is out of line${part}`,
		failing: () => `${percent(cause.now, 1)} failing`,
		refusing: () => `${percent(cause.now, 1)} refused`,
		silent: () => `silent, ${perUnit(rateOf(cause.then, 60))} before`,
		surging: () => against(cause.ratio, 'the earlier traffic'),
		slower: () => (cause.is_tail ? 'its slowest tenth is slower' : 'slower'),
	}[reason];
	return words ? `${words()}, since ${moment(cause.since, serverNow())}` : 'total time';
}

const perMinute = (value) => `${duration(value)}/min`;

export function fixFirst() {
	return new Table({
		name: 'fix-first',
		caption: 'Pages to fix first',
		key: (row) => (row.instance ? `${row.context} ${row.instance}` : row.context),
		href: true,
		columns: [
			contextColumn('Path', false),
			ratioColumn('reason', 'Why', {
				className: 'left',
				value: why,
				words: why,
				level: (row) => row.cause && level(row.cause),
			}),
			shareColumn('Share of time'),
			numberColumn('per_minute', 'Time per minute', duration, { title: 'Seconds of service time per minute' }),
			numberColumn('saved_per_minute', 'Cost of slowdown', perMinute, {
				title: 'Service time that the slowdown costs, averaged over the range',
			}),
			numberColumn('won_per_minute', 'Saved if twice as fast', perMinute, {
				value: (row) => row.per_minute && row.per_minute / 2,
				title: 'Half of the time per minute',
			}),
			statistic('mean'),
			ratioColumn('ratio', 'Change', {
				title: 'The mean compared with the choice in “Against”; for a slower page, with the time before it slowed',
			}),
			statistic('p95'),
			errorColumn((row) => row.reason === 'failing'),
		],
	});
}
