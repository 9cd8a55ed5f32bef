// The readout of one slice of a chart over time, and the table of all slices.

import { el, labelled, sync, text } from './dom.js';
import { NONE, grouped, percent } from './format.js';
import { begunSlices, chartRows, slicesOf, valueOf } from './slices.js';
import { ENOUGH } from './tiles.js';

/**
 * The time of a slice: 12:40 – 12:41, with the date unless that is today.
 * @param {{ precision: number, now: number, clock: any, utc?: boolean }} state of a chart
 * @param {any} slice
 */
export function when({ precision, now, utc, clock }, { start, end, open }) {
	const style = precision % 60 ? 'second' : 'minute';
	const day = clock(start, 'day', utc);
	const hours = precision % 86400 ? `${clock(start, style, utc)} – ${clock(end, style, utc)}` : '';
	const date = hours && day === clock(now, 'day', utc) ? '' : day;
	return date + (date && hours && ', ') + hours + (open ? ', so far' : '');
}

/** The tooltip: { rows, notes }, with the rows in the order of drawing, from top to bottom. */
export function readout(state, slice) {
	const { series, hidden, format, kind, counts, utc, clock, marks, changes, layer } = state;
	const stack = kind === 'stack';
	const samples = counts?.get(slice.start);
	const values = series
		.filter(({ key }) => !hidden.has(key))
		.map((one) => ({ ...one, value: valueOf(state, slice, one.key) }))
		.reverse();
	const all = values.reduce((sum, { value }) => sum + value, 0);
	const rows = values.map(({ key, label, value }) => {
		const few = !stack && value !== null && samples < ENOUGH[key];
		const extra = few ? `fewer than ${ENOUGH[key]} samples` : stack && slice.recorded ? percent(value, all) : '';
		return { key, label, few, extra, value: value === null ? NONE : format(value) };
	});
	if (stack) rows.unshift({ label: 'All', extra: '', value: slice.recorded ? format(all) : NONE });
	if (layer) rows.unshift(layer.cellRow(slice));
	const notes = slice.recorded ? [] : [slice.note];
	if (samples !== undefined) notes.push(`${grouped(samples)} ${samples === 1 ? 'sample' : 'samples'}`);
	for (const { at, text } of [...marks, ...changes]) {
		if (at >= slice.start && at < slice.end) notes.push(`${clock(at, 'second', utc)} ${text}`);
	}
	return { rows, notes };
}

/** Draws the `state` of a chart into `root` as a table, newest slice first. */
export function drawTable(root, state) {
	const { series, title, layer } = state;
	const { columns, rows, write = state.format } = layer ? layer.table(begunSlices(state)) : chartRows(state);
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
