// The parts of a path's request time, in each timer and outside of timers; and the paths that run a timer.

import { card } from './card.js';
import { el, say, text } from './dom.js';
import { count, delta, duration, isNumber, percent, plural, times, visible } from './format.js';
import { contextColumn, numberColumn, ratioColumn, shareColumn, Table } from './table.js';

const NO_TIMERS =
	'No timer ran within these requests. Use the feature "tracing", or time a part with pulse.time("db:…", future).';

const HIDDEN = 'A filter hides the statements of sqlx: see the warning above.';

const NONE_RUN = 'No path lists this timer: it runs outside of requests, or is in no path’s 16 longest timers';

/** db:find_user 41× per request */
export const repetition = ({ timer, per_request: runs }) => `${visible(timer)} ${times(runs)} per request`;

/** The text and the colour of runs per request: more than 20 are red. */
const perRequest = {
	words: (row) => times(row.per_request).replace('×', ''),
	level: (row) => (row.repeated ? 'bad' : null),
};

/** computing 3 ms (+12%), waiting 42 ms (2.4×); longest poll 180 ms */
function computing({ polls, change }) {
	if (!isNumber(polls?.computing)) return '';
	const part = (name) => {
		const changed = delta(change?.[name]);
		return `${name} ${duration(polls[name])}${changed && ` (${changed})`}`;
	};
	const longest = isNumber(polls.longest) ? `; longest poll ${duration(polls.longest)}` : '';
	return `${part('computing')}, ${part('waiting')}${longest}`;
}

/**
 * The parts of the time per request: in each timer and outside of timers, now and before.
 * @param {string} [noTimers] the sentence for requests without timers
 */
export function timeGoes(noTimers = NO_TIMERS) {
	const table = new Table({
		name: 'time-goes',
		caption: 'Where the time goes, per request',
		key: (row) => row.timer,
		figures: ['time', 'change'],
		columns: [
			{
				id: 'timer',
				label: 'Timer',
				className: 'name',
				value: (row) => row.timer,
				draw(cell, row) {
					if (!cell.firstChild) cell.append(el('bdi', 'path'));
					text(cell.firstChild, row.own ? row.timer : visible(row.timer));
					cell.firstChild.classList.toggle('muted', row.own === true);
				},
			},
			shareColumn('Share', { title: 'The share of the requests’ time' }),
			numberColumn('time', 'Time', duration),
			numberColumn('before', 'Before', duration),
			ratioColumn('change', 'Change', {
				words: (row) => delta(row.change) || (row.before === null && row.compared ? 'new' : ''),
			}),
			ratioColumn('error_share', 'Errors', {
				title: 'The share of the timer’s runs that fail, on all pages',
				value: (row) => row.error_share ?? null,
				words: (row) => (row.errors > 0 ? percent(row.error_share, 1) : ''),
				level: (row) => (row.failing ? 'bad' : null),
			}),
			ratioColumn('per_request', 'Runs', {
				title: 'Runs per request. More than 20 are marked: usually one query per row of another query',
				...perRequest,
			}),
		],
	});
	const [note, polls, repeats] = [el('span', 'muted'), el('p', 'polls'), el('p', 'repeats')];
	const hidden = el('p', 'muted');
	const parts = [polls, table.node, repeats, hidden];
	const node = card('time-goes', 'Where the time goes', { head: [note], parts });
	return {
		node,
		draw({ count: requests, timers: now = [], timers_before: then, change, label, ...own }, health) {
			say(hidden, health?.conditions?.includes('hidden_statements') ? HIDDEN : '');
			const old = new Map((then?.timers ?? []).map((timer) => [timer.timer, timer.seconds_per_request]));
			const compared = isNumber(change?.mean);
			say(polls, computing({ polls: own.polls, change }));
			const row = (more, timer, time, before = null) => ({ ...more, timer, time, before });
			const rows = now.map((timer) =>
				row({ ...timer, compared }, timer.timer, timer.seconds_per_request, old.get(timer.timer)),
			);
			if (rows.length) {
				const untimed = { own: true, share: own.untimed_share, change: own.untimed_change };
				rows.push(row(untimed, 'outside of timers', own.untimed_per_request, then?.untimed_per_request));
			}
			rows.sort((a, b) => b.time - a.time);
			if (own.queue) {
				const queue = { own: true, compared, change: own.queue.change };
				rows.unshift(row(queue, 'queue, before the request', own.queue.mean, then?.queue?.mean));
			}
			table.draw(rows, rows.length ? '' : requests > 0 ? noTimers : 'No requests in this time');
			text(note, rows.length ? label : '');
			const repeated = now.filter((timer) => timer.repeated).map(repetition);
			say(repeats, repeated.length ? `${repeated.join('; ')}: probably one query per row of another query` : '');
		},
	};
}

/** The paths that run a timer; with `isQueue`, the waits of the paths. */
export function runBy(isQueue = false) {
	const table = new Table({
		name: 'run-by',
		caption: 'The paths that run this timer',
		key: (row) => row.context,
		href: true,
		figures: ['share_of_timer', 'mean'],
		columns: [
			contextColumn(),
			numberColumn('share_of_timer', isQueue ? 'Share of waits' : 'Share of timer', (part) => percent(part, 1), {
				title: isQueue ? 'The path’s share of all waits' : 'The path’s share of the timer’s time',
			}),
			numberColumn('count', isQueue ? 'Requests' : 'Runs', count),
			ratioColumn('per_request', 'Per request', { title: 'Runs per request of the path', ...perRequest }),
			numberColumn('mean', 'Mean', duration, { title: 'The mean of the timer within this path' }),
			shareColumn('Share of path', { title: 'The share of the path’s time during which the timer runs' }),
		].filter(({ id }) => !isQueue || !['per_request', 'share'].includes(id)),
	});
	const [note, polls] = [el('span', 'muted'), el('p', 'polls')];
	const parts = [polls, table.node];
	const node = card('run-by', isQueue ? 'The wait of each path' : 'Run by', { head: [note], parts });
	return {
		node,
		/** Draws the paths, and how many of the timer's runs are within requests. */
		draw({ run_by: paths = [], count: runs, ...own }, label) {
			say(polls, computing({ polls: own.polls, change: own.change }));
			table.draw(paths, paths.length ? '' : NONE_RUN);
			const within = paths.reduce((sum, row) => sum + row.count, 0);
			const part = within < runs ? `${count(within)} of ${plural(runs, 'run')} within requests, ` : '';
			text(note, paths.length ? `${part}${label}` : '');
		},
	};
}
