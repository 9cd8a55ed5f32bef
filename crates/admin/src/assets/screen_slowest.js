// The rankings of the slowest: contexts by mean, and single requests.

import { question } from './api.js';
import { card } from './card.js';
import { el, fill, meter, text } from './dom.js';
import { duration, plural } from './format.js';
import { requestColumns } from './requests.js';
import { state } from './state.js';
import { Table, contextColumn, numberColumn } from './table.js';

export function mount(root, page) {
	const contexts = new Table({
		name: 'slowest', caption: 'Slowest paths and timers', href: true, key: (row) => row.context,
		columns: [
			contextColumn('Path or timer'),
			numberColumn('mean', 'Mean', (value) => duration(value)),
			{ id: 'length', label: 'Of the slowest', className: 'share', draw(cell, row) {
				if (!cell.firstChild) cell.append(meter());
				fill(cell.firstChild, row.mean / row.longest);
			} },
		],
	});
	const requests = new Table({ name: 'slowest-requests', caption: 'Slowest requests', href: true, key: (row) => `${row.ended} ${row.duration} ${row.instance} ${row.context}`, columns: requestColumns(true) });
	const hours = el('select', '', ...[['', 'This hour and the last'], ['hour', 'This hour'], ['last_hour', 'Last hour']].map(([value, label]) => {
		const option = el('option', '', label);
		option.value = value;
		return option;
	}));
	hours.setAttribute('aria-label', 'Hour');
	hours.addEventListener('change', () => page.go({ name: hours.value }));
	const chosen = () => (['hour', 'last_hour'].includes(state.name) ? state.name : '');
	const of = (window) => question('slowest_requests', { window, limit: 100 });
	const notes = [el('span', 'muted'), el('span', 'muted')];
	root.append(el('div', 'pair uneven',
		card('slowest-requests', 'Slowest requests', { head: [notes[1], hours], parts: [requests.node] }),
		card('slowest', 'Slowest by mean', { head: [notes[0]], parts: [contexts.node] })));
	return {
		questions: () => ({
			slowest: question('slowest', { limit: 100 }),
			...(chosen() === 'last_hour' ? {} : { requests: of('hour') }),
			...(chosen() === 'hour' ? {} : { requestsBefore: of('last_hour') }),
		}),
		draw({ slowest, requests: slow, requestsBefore: slowBefore }) {
			hours.value = chosen();
			if (slowest) {
				const longest = slowest.slowest[0]?.mean;
				const rows = slowest.slowest.map((row) => ({ ...row, longest }));
				contexts.draw(rows, rows.length ? '' : 'No requests yet');
				text(notes[0], rows.length ? `${plural(rows.length, 'context')}, each of the last hour that it had requests in` : '');
			}
			if (slow || slowBefore) {
				const rows = [slow, slowBefore].filter(Boolean).flatMap(({ requests: some }) => some.slice()).sort((a, b) => b.duration - a.duration).slice(0, 100);
				requests.draw(rows, rows.length ? '' : 'No requests in this time');
				text(notes[1], rows.length ? plural(rows.length, 'request') : '');
			}
		},
	};
}
