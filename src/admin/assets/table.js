// The table of paths. A row stays with its context, so that focus and selection survive a redraw.

import { contextParts } from './context.js';
import { $, attr, el, fill, meter, show, sync, text } from './dom.js';
import { count, duration, grouped, percent, visible } from './format.js';

const table = $('paths');
const body = table.tBodies[0];
const TIMES = ['mean', 'p50', 'p95', 'p99', 'max', 'total'];
const headers = [...table.tHead.querySelectorAll('th[data-sort]')];

/** Calls `onSort(column)` and `onOpen(context)` on clicks. */
export function connectPaths(onSort, onOpen) {
	for (const header of headers) header.addEventListener('click', () => onSort(header.dataset.sort));
	openOnClick(body, onOpen);
}

/** A click anywhere in a row opens it, unless it ends a selection of text. */
export function openOnClick(tbody, onOpen) {
	tbody.addEventListener('click', (event) => {
		const row = event.target.closest('tr');
		if (row && (event.target.closest('button') || getSelection().isCollapsed)) onOpen(row.item);
	});
}

/** The cell that names the row and opens it by keyboard. */
export function nameCell(item) {
	const button = el('button', 'open', ...contextParts(item));
	button.title = visible(item.context);
	const cell = el('th', 'name', button);
	cell.scope = 'row';
	return cell;
}

export function markSort({ sort, order }) {
	for (const header of headers) {
		const own = header.dataset.sort === sort;
		attr(header, 'aria-sort', own ? (order === 'asc' ? 'ascending' : 'descending') : 'none');
	}
}

/** `whole`: the seconds of which each row's total is a part. */
export function drawPaths({ total, paths }, state, whole) {
	sync(body, paths, (p) => `${p.kind} ${p.context}`, createRow, (row, path) => updateRow(row, path, whole));
	const from = state.offset + 1;
	const to = state.offset + paths.length;
	text($('paths-count'), paths.length ? `${grouped(from)}–${grouped(to)} of ${grouped(total)}` : '');
	note(paths.length ? '' : emptyText(state));
	$('previous').disabled = state.offset === 0;
	$('next').disabled = to >= total;
}

export function failPaths(message) {
	sync(body, [], String, null, null);
	text($('paths-count'), '');
	note(message);
}

export function busyPaths(busy) {
	attr(table, 'aria-busy', busy ? 'true' : null);
}

function note(message) {
	text($('paths-note'), message);
	show($('paths-note'), message !== '');
}

function emptyText({ q, kind, window }) {
	const what = { http: 'requests', timer: 'timers', all: 'requests or timers' }[kind];
	if (q) return `No context contains “${visible(q)}”`;
	return window === 'hour' ? `No ${what} yet` : `No ${what} in the last hour`;
}

function createRow(path) {
	const row = el('tr', '', nameCell(path));
	for (let cells = 1 + TIMES.length; cells > 0; cells--) row.append(el('td'));
	row.append(el('td', 'share', meter(), el('span')), el('td'));
	return row;
}

function updateRow(row, path, whole) {
	row.item = path;
	const [, hits, ...cells] = row.children;
	const [share, errors] = cells.slice(TIMES.length);
	text(hits, count(path.count));
	attr(hits, 'title', grouped(path.count));
	TIMES.forEach((name, index) => text(cells[index], duration(path[name])));
	fill(share.firstChild, path.total / whole);
	text(share.lastChild, percent(Math.min(path.total, whole), whole));
	text(errors, count(path.errors));
	attr(errors, 'title', path.errors > 0 ? `${grouped(path.errors)}, ${percent(path.errors, path.count)} of the requests` : null);
	errors.classList.toggle('bad-text', path.errors > 0);
}
