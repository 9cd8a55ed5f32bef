// The columns of a table of single requests.

import { serverNow } from './api.js';
import { attr, el, text } from './dom.js';
import { duration, time, visible } from './format.js';
import { instanceLink } from './instances.js';
import { contextColumn, numberColumn, ratioColumn } from './table.js';
import { drawTrace } from './trace.js';

/** A time of day with its seconds, and with the date if it differs from that of `now`. */
const instant = (unix, now) =>
	time(unix, 'day') === time(now, 'day') ? time(unix) : `${time(unix, 'day')}, ${time(unix)}`;

/** The key of a row in a table of single requests. */
export const requestKey = (row) => `${row.ended} ${row.duration} ${row.instance} ${row.trace_id}`;

/** The requests in an answer of `api/path` that are kept one by one. A request that is slow and failed appears once. */
export function keptRequests({ slowest_requests: slowest, failed_requests: failed }) {
	const both = ({ hour, last_hour: lastHour }) => [...hour, ...lastHour];
	const slow = both(slowest);
	const keys = new Set(slow.map(requestKey));
	return [...slow, ...both(failed).filter((request) => !keys.has(requestKey(request)))];
}

/** The columns. `withContext`: for requests of different paths. */
export function requestColumns(withContext) {
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
		numberColumn('duration', 'Duration', duration),
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
	];
}
