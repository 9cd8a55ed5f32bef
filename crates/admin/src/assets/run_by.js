// The paths that run a timer.

import { card } from './card.js';
import { el, text } from './dom.js';
import { count, duration, percent, plural } from './format.js';
import { contextColumn, numberColumn, ratioColumn, shareColumn, Table } from './table.js';
import { perRequest } from './time_goes.js';

const NONE_RUN =
	'No request ran this timer in this range: it runs outside of requests, or 16 other timers take more time';

/** The paths that run a timer: the calls per request, and the share of the path's time; or the waits of the paths. */
export function runBy(isQueue = false) {
	const table = new Table({
		name: 'run-by',
		caption: 'The paths that run this timer',
		key: (row) => row.context,
		href: true,
		figures: ['share_of_timer', 'mean'],
		columns: [
			contextColumn(),
			numberColumn('share_of_timer', isQueue ? 'Of all waits' : 'Share of timer', (part) => percent(part, 1), {
				title: isQueue
					? 'The share of the time that all requests wait'
					: 'The share of the timer’s time that is within this path',
			}),
			numberColumn('count', isQueue ? 'Requests' : 'Calls', count),
			ratioColumn('per_request', 'Per request', { title: 'Calls per request of the path', ...perRequest }),
			numberColumn('mean', 'Mean', duration, { title: 'The mean of the timer within this path' }),
			shareColumn('Share of path', { title: 'The share of the path’s time during which it runs' }),
		].filter(({ id }) => !isQueue || !['per_request', 'share'].includes(id)),
	});
	const note = el('span', 'muted');
	const node = card('run-by', isQueue ? 'The wait of each path' : 'Run by', { head: [note], parts: [table.node] });
	return {
		node,
		/** `calls`: all calls of the timer, within requests and outside. */
		draw(paths, calls, label) {
			table.draw(paths, paths.length ? '' : NONE_RUN);
			const within = paths.reduce((sum, row) => sum + row.count, 0);
			const part = within < calls ? `${count(within)} of ${plural(calls, 'call')} within requests, ` : '';
			text(note, paths.length ? `${part}${label}` : '');
		},
	};
}
