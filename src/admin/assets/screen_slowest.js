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
	const hours = el('select', '', ...[['hour', 'This hour'], ['last_hour', 'Last hour']].map(([value, label]) => {
		const option = el('option', '', label);
		option.value = value;
		return option;
	}));
	hours.setAttribute('aria-label', 'Hour');
	hours.addEventListener('change', () => page.go({ name: hours.value === 'hour' ? '' : hours.value }));
	const notes = [el('span', 'muted'), el('span', 'muted')];
	root.append(el('div', 'pair uneven',
		card('slowest-requests', 'Slowest requests', { head: [notes[1], hours, ...requests.buttons()], parts: [requests.node] }),
		card('slowest', 'Slowest by mean', { head: [notes[0], ...contexts.buttons()], parts: [contexts.node] })));
	return {
		questions: () => ({
			slowest: question('slowest', { limit: 100 }),
			requests: question('slowest_requests', { window: state.name === 'last_hour' ? 'last_hour' : 'hour', limit: 100 }),
		}),
		draw({ slowest, requests: slow }) {
			hours.value = state.name === 'last_hour' ? 'last_hour' : 'hour';
			if (slowest) {
				const longest = slowest.slowest[0]?.mean;
				const rows = slowest.slowest.map((row) => ({ ...row, longest }));
				contexts.draw(rows, rows.length ? '' : 'No requests yet');
				text(notes[0], rows.length ? `${plural(rows.length, 'context')} of this hour and the last` : '');
			}
			if (slow) {
				requests.draw(slow.requests, slow.requests.length ? '' : 'No requests in this hour');
				text(notes[1], slow.requests.length ? plural(slow.requests.length, 'request') : '');
			}
		},
	};
}
