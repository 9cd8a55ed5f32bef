// The ranking of the slowest contexts.

import { splitContext } from './context.js';
import { $, el, fill, meter, show, sync, text } from './dom.js';
import { duration, grouped } from './format.js';
import { nameCell, openOnClick } from './table.js';

const body = $('slowest').tBodies[0];

export function connectSlowest(onOpen) {
	openOnClick(body, onOpen);
}

export function drawSlowest({ slowest }) {
	const longest = Math.max(...slowest.map((entry) => entry.mean));
	sync(body, slowest, (entry) => entry.context, createRow, (row, entry, index) => {
		row.item = row.parts;
		const [rank, , mean, length] = row.children;
		text(rank, grouped(index + 1));
		text(mean, duration(entry.mean));
		fill(length.firstChild, entry.mean / longest);
	});
	text($('slowest-note'), 'No requests yet');
	show($('slowest-note'), slowest.length === 0);
}

function createRow(entry) {
	const parts = splitContext(entry.context);
	const row = el('tr', '', el('td', 'rank'), nameCell(parts), el('td'), el('td', 'length', meter()));
	row.parts = parts;
	return row;
}
