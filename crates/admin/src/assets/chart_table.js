// The table view of a chart, newest slice first.

import { when } from './chart_readout.js';
import { el, labelled, sync, text } from './dom.js';
import { NONE, grouped } from './format.js';
import { chartRows, recordedSlices, slicesOf } from './slices.js';

/** Draws the `state` of a chart into `root`. */
export function drawTable(root, state) {
	const { series, title, layer } = state;
	const { columns, rows, write = state.format } = layer ? layer.table(recordedSlices(state)) : chartRows(state);
	if (!root.firstChild) {
		root.append(el('table', '', el('caption', 'hidden', title), el('thead', '', el('tr')), el('tbody')));
		labelled(root, `${title} as a table`, 'region').tabIndex = 0;
	}
	const names = { start: 'Start', samples: 'Samples' };
	const [, head, body] = root.firstChild.children;
	sync(head.firstChild, columns, String, 'th', (cell, column) => {
		text(cell, series.find(({ key }) => key === column)?.label ?? names[column] ?? column);
		cell.scope = 'col';
	});
	const time = (slice) => when(state, slice) + (slice.note && `, ${slice.note}`);
	const times = new Map(slicesOf(state).map((slice) => [slice.start, time(slice)]));
	const create = (row) => {
		const cells = row.map((_, at) => el(at ? 'td' : 'th'));
		cells[0].scope = 'row';
		return el('tr', '', ...cells);
	};
	const key = ([start]) => `${start} ${columns}`;
	sync(body, rows.reverse(), key, create, (row, [start, ...values]) => {
		text(row.firstChild, times.get(start));
		values.forEach((value, i) => {
			const format = columns[i + 1] === 'samples' ? grouped : write;
			text(row.children[i + 1], value === null ? NONE : format(value));
		});
	});
}
