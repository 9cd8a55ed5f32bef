// A table of single requests. A click on a duration shows the parts of the request.

import { serverNow } from './api.js';
import { attr, el, fill, meter, show, text } from './dom.js';
import { duration, grouped, isNumber, time, visible } from './format.js';
import { instanceLink } from './instances.js';
import { contextColumn, numberColumn, ratioColumn, Table } from './table.js';
import { drawTrace } from './trace.js';

/** A time of day with seconds, and with the date if that differs from the date of `now`. */
const instant = (unix, now) =>
	time(unix, 'day') === time(now, 'day') ? time(unix) : `${time(unix, 'day')}, ${time(unix)}`;

const requestKey = (row) => `${row.ended} ${row.duration} ${row.instance} ${row.context} ${row.trace_id}`;

/** The requests of both hours of a list in `api/path`. */
export const ofBothHours = ({ hour, last_hour: lastHour }) => [...hour, ...lastHour];

/** The single requests in an answer of `api/path`. A request that is slow and failed appears once. */
export function keptRequests({ slowest_requests: slowest, failed_requests: failed }) {
	const slow = ofBothHours(slowest);
	const keys = new Set(slow.map(requestKey));
	return [...slow, ...ofBothHours(failed).filter((request) => !keys.has(requestKey(request)))];
}

/** Draws the error of a request and, if `isOpen`, its parts. */
function drawDetails(cell, request, isOpen) {
	const { error_kind: kind, message } = request;
	if (!cell.firstChild) {
		const said = message ? ` ${visible(message)}` : '';
		if (kind) cell.append(el('p', 'failure', el('bdi', 'bad-text', visible(kind)), said));
		cell.append(el('div'));
	}
	if (isOpen) drawParts(cell.lastChild, request);
	show(cell.lastChild, isOpen);
}

/** Draws the parts of a request: its wait in front of the service, its timers, and the time outside of them. */
function drawParts(cell, { queue, computing, longest_poll: longest, untimed, timers, duration: whole }) {
	if (cell.firstChild) return; // a request does not change
	const runs = (count) => (count > 0 ? `${grouped(count)}×` : 'still running');
	const parts = timers.map(({ timer, count, seconds }) => [visible(timer), seconds, runs(count)]);
	if (timers.length) parts.push(['outside of timers', untimed, '']);
	if (isNumber(queue)) parts.unshift(['queue, before the request', queue, '']);
	const draw = ([name, seconds, words]) => {
		const bar = meter();
		fill(bar, seconds / whole);
		return el(
			'li',
			'',
			el('bdi', 'path', name),
			bar,
			el('span', '', duration(seconds)),
			el('span', 'muted', words),
		);
	};
	const [computed, waited, poll] = [computing, whole - computing, longest].map((time) => duration(time));
	const polls = `Computing ${computed}, waiting ${waited}, longest poll ${poll}.`;
	const sentence = isNumber(computing) ? polls : 'Computing and waiting are unknown: no layer timed this request.';
	cell.append(
		el('p', '', timers.length ? sentence : `${sentence} No timer ran within this request.`),
		el('ul', 'parts', ...parts.map(draw)),
	);
}

/** A table of requests. `withContext`: shows the path of each. @param {boolean} withContext @param {object} options */
export function requestTable(withContext, options) {
	const figures = ['duration', withContext ? 'ended' : 'status'];
	const columns = requestColumns(withContext);
	const hasDetails = (row) => Boolean(row.error_kind);
	return new Table({ key: requestKey, columns, figures, details: drawDetails, hasDetails, ...options });
}

function requestColumns(withContext) {
	const ended = {
		id: 'ended',
		label: 'Ended',
		value: (row) => row.ended,
		text: (row) => instant(row.ended, serverNow()),
	};
	return [
		...(withContext ? [contextColumn(), ended] : [ended]),
		{
			id: 'request_path',
			label: 'Path of the request',
			className: 'left',
			value: (row) => row.request_path,
			draw(cell, row) {
				if (!cell.firstChild) cell.append(el('bdi', 'path'));
				const path = row.request_path && visible(row.request_path);
				text(cell.firstChild, path || '–');
				attr(cell, 'title', path || 'Builder::keep_request_paths(true) records it');
			},
		},
		{
			...numberColumn('duration', 'Duration', duration),
			draw(cell, row) {
				if (!cell.firstChild) cell.append(el('button', 'opener'));
				text(cell.firstChild, duration(row.duration));
				attr(cell.firstChild, 'title', 'The parts of this request');
			},
		},
		ratioColumn('status', 'Status', {
			value: (row) => row.status ?? row.outcome,
			words: (row) => row.status ?? visible(row.outcome),
			level: (row) => (row.error ? 'bad' : null),
		}),
		{
			id: 'instance',
			label: 'Instance',
			value: (row) => row.instance,
			draw(cell, row) {
				if (!cell.firstChild) cell.append(el('a', '', el('bdi')));
				text(cell.firstChild.firstChild, visible(row.instance));
				attr(cell.firstChild, 'href', instanceLink(row.instance));
				attr(cell.firstChild, 'title', visible(row.instance));
			},
		},
		{
			id: 'trace',
			label: 'Trace',
			className: 'left',
			value: (row) => row.trace_id,
			draw: (cell, row) => drawTrace(cell, row.trace_id),
		},
		...['error_kind', 'message'].map((id) => ({ id, value: (row) => row[id] })),
	];
}
