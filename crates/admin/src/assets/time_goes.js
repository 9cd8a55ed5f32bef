// Where the time of a path's requests goes: in which timers, and outside of all.

import { card } from './card.js';
import { attr, el, show, text } from './dom.js';
import { delta, duration, isNumber, percent, sense, times, visible } from './format.js';
import { numberColumn, shareColumn, Table } from './table.js';

const NO_TIMERS =
	'No timer ran within these requests. Time the parts of a handler with pulse.timer("db:…") or pulse.time(…).';

/** db:find_user 41× per request */
export const repetition = ({ timer, per_request: calls }) => `${visible(timer)} ${times(calls)} per request`;

/** computing 3 ms (+12%), waiting 42 ms (2.4×); a poll held a worker for 180 ms at most */
function computing({ polls, change }) {
	if (!isNumber(polls?.computing)) return '';
	const part = (name) => {
		const changed = delta(change?.[name]);
		return `${name} ${duration(polls[name])}${changed && ` (${changed})`}`;
	};
	const longest = isNumber(polls.longest) ? `; a poll held a worker for ${duration(polls.longest)} at most` : '';
	return `${part('computing')}, ${part('waiting')}${longest}`;
}

/**
 * Where the time goes: per request, in each timer and outside of all, now and before.
 * @param {string} [noTimers] the sentence for requests without timers
 */
export function timeGoes(noTimers = NO_TIMERS) {
	const table = new Table({
		name: 'time-goes',
		caption: 'Where the time goes, per request',
		key: (row) => row.timer,
		columns: [
			{
				id: 'timer',
				label: 'Per request',
				className: 'name',
				value: (row) => row.timer,
				draw(cell, row) {
					if (!cell.firstChild) cell.append(el('bdi', 'path'));
					text(cell.firstChild, row.own ? row.timer : visible(row.timer));
					cell.firstChild.classList.toggle('muted', row.own === true);
				},
			},
			shareColumn('Share', { title: 'Of the time of the requests' }),
			numberColumn('time', 'Time', (value) => duration(value)),
			numberColumn('before', 'Before', (value) => duration(value)),
			{
				id: 'change',
				label: 'Change',
				value: (row) => row.change,
				draw(cell, row) {
					text(cell, delta(row.change) || (row.before === null && row.compared ? 'new' : '–'));
					attr(cell, 'data-sense', sense(row.change));
				},
			},
			{
				id: 'error_share',
				label: 'Errors',
				title: 'Of the runs of the timer, on all pages',
				value: (row) => row.error_share ?? null,
				draw(cell, row) {
					text(cell, row.errors > 0 ? percent(row.error_share, 1) : '–');
					attr(cell, 'data-sense', row.failing ? 'bad' : null);
				},
			},
			{
				id: 'per_request',
				label: 'Calls',
				title: 'Calls per request. More than 20 are marked: a query for each row of another, usually',
				value: (row) => row.per_request,
				draw(cell, row) {
					text(cell, times(row.per_request).replace('×', ''));
					attr(cell, 'data-sense', row.repeated ? 'bad' : null);
				},
			},
		],
	});
	const node = card('time-goes', 'Where the time goes', {
		head: [el('span', 'muted')],
		parts: [el('p', 'polls'), table.node, el('p', 'repeats')],
	});
	const polls = node.querySelector('.polls');
	const repeats = node.querySelector('.repeats');
	return {
		node,
		draw({ count: requests, timers: now = [], timers_before: then, change, label, ...own }) {
			const old = new Map((then?.timers ?? []).map((timer) => [timer.timer, timer.seconds_per_request]));
			const compared = isNumber(change?.mean);
			const polled = computing({ polls: own.polls, change });
			show(polls, polled !== '');
			text(polls, polled);
			const rows = now.map((timer) => ({
				...timer,
				compared,
				time: timer.seconds_per_request,
				before: old.get(timer.timer) ?? null,
			}));
			if (rows.length)
				rows.push({
					timer: 'time outside of timers',
					own: true,
					share: own.untimed_share,
					time: own.untimed_per_request,
					before: then?.untimed_per_request ?? null,
					change: own.untimed_change,
					per_request: null,
				});
			rows.sort((a, b) => b.time - a.time);
			if (own.queue)
				rows.unshift({
					timer: 'queue, before the request',
					own: true,
					compared,
					time: own.queue.mean,
					before: then?.queue?.mean ?? null,
					change: own.queue.change,
					per_request: null,
				});
			table.draw(rows, rows.length ? '' : requests > 0 ? noTimers : 'No requests in this time');
			text(node.querySelector('.muted'), rows.length ? label : '');
			const repeated = now.filter((timer) => timer.repeated).map(repetition);
			show(repeats, repeated.length > 0);
			text(repeats, `${repeated.join('; ')}: a query for each row of another?`);
		},
	};
}
