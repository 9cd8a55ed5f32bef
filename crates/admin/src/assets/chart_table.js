// The table view of a chart, newest slice first.

import { when } from './chart_readout.js';
import { attr, el, sync, text } from './dom.js';
import { NONE, grouped } from './format.js';
import { chartRows, recordedSlices, slicesOf } from './slices.js';

/** Draws the `state` of a chart into `root`. */
export function drawTable(root, state) {
	const { series, format, title } = state;
	const { columns, rows, write = format } = state.layer ? state.layer.table(recordedSlices(state)) : chartRows(state);
	if (!root.firstChild) {
		root.append(el('table', '', el('caption', 'hidden', title), el('thead', '', el('tr')), el('tbody')));
		root.tabIndex = 0;
		attr(root, 'role', 'region');
		attr(root, 'aria-label', `${title} as a table`);
	}
	const names = { start: 'Start', samples: 'Samples' };
	const [, head, body] = root.firstChild.children;
	sync(
		head.firstChild,
		columns,
		(column) => column,
		(column) => {
			const cell = el('th', '', series.find(({ key }) => key === column)?.label ?? names[column] ?? column);
			cell.scope = 'col';
			return cell;
		},
		() => {},
	);
	const times = new Map(
		slicesOf(state).map((slice) => [slice.start, when(state, slice) + (slice.note && `, ${slice.note}`)]),
	);
	sync(
		body,
		rows.reverse(),
		([start]) => `${start} ${columns}`,
		([, ...values]) => {
			const cell = el('th');
			cell.scope = 'row';
			return el('tr', '', cell, ...values.map(() => el('td')));
		},
		(row, [start, ...values]) => {
			text(row.firstChild, times.get(start));
			values.forEach((value, i) =>
				text(
					row.children[i + 1],
					value === null ? NONE : columns[i + 1] === 'samples' ? grouped(value) : write(value),
				),
			);
		},
	);
}
