// All paths of a range, or all timers: sorted and filtered by the server, page by page.

import { question } from './api.js';
import { card } from './card.js';
import { attr, button, el, say } from './dom.js';
import { count, delta, duration, isNumber, visible } from './format.js';
import { ongoingOn } from './change.js';
import { ended, sparkColumn } from './spark.js';
import { Pager, allRows, filterField, showFilter } from './pager.js';
import { compared, state } from './state.js';
import { contextColumn, errorColumn, numberColumn, ratioColumn, requestsColumn, shareColumn } from './table.js';
import { statistic, Table } from './table.js';
import { repetition } from './time_goes.js';

const ROWS = 25;

/** The name, with the timer that a path repeats: db:find_user 41× per request. */
function nameColumn(label) {
	const column = contextColumn(label);
	return {
		...column,
		draw(cell, row) {
			column.draw(cell, row);
			const { repeated } = row;
			// This node comes before the tag of the context's change, which is the last child.
			if (cell.repeats?.parentNode !== cell) {
				cell.repeats = el('span', 'tag repeats');
				cell.insertBefore(cell.repeats, cell.lastChild);
			}
			const saved = repeated?.saved_per_request;
			const join = isNumber(saved) ? `, a join saves up to ${duration(saved)}` : '';
			say(cell.repeats, repeated ? repetition(repeated) + join : '');
			attr(cell.repeats, 'title', repeated && row.kind === 'timer' ? `within ${visible(repeated.path)}` : null);
		},
	};
}

const columns = (kind) => [
	{ ...nameColumn(kind === 'timer' ? 'Timer' : 'Path'), sort: true },
	sparkColumn(kind === 'timer' ? 'Count over time' : 'Requests over time'),
	requestsColumn(kind === 'timer' ? 'Count' : 'Requests', { sort: true }),
	shareColumn('Share of time', { sort: true }),
	...['mean', 'p50', 'p95', 'p99'].map((id) => ({ ...statistic(id), sort: true })),
	numberColumn('max', 'Max', duration, { sort: true }),
	errorColumn((row) => ongoingOn(kind, row.context)?.kind === 'failing', { sort: true }),
	...(kind === 'timer'
		? []
		: [
				numberColumn('4xx', '4xx', count, { value: (row) => row.outcomes?.['4xx'] ?? 0, sort: true }),
				numberColumn('longest_poll', 'Longest poll', duration, {
					value: (row) => row.polls?.longest ?? null,
					title: 'The longest time that a request held a worker thread, which slows other pages',
					sort: true,
				}),
			]),
	ratioColumn('change', 'Change', {
		sort: true,
		title: 'The mean compared with the choice in “Against”',
		value: (row) => row.change?.mean ?? null,
		words: (row) => (row.is_new ? 'new' : delta(row.change?.mean)),
	}),
];

export function mount(root, page) {
	const kind = state.screen === 'timers' ? 'timer' : 'http';
	const [name, title, noun] = kind === 'timer' ? ['timers', 'Timers', 'timer'] : ['paths', 'Paths', 'path'];
	const sorted = () => ({ sort: state.sort || 'share', order: state.order || 'desc' });
	const table = new Table({
		name,
		caption: title,
		href: true,
		figures: ['count', 'p95'],
		columns: columns(kind),
		key: (row) => row.context,
		allRows: () => allRows(query, 'paths'),
		onSort(sort) {
			const old = sorted();
			page.go({ sort, order: old.sort === sort && old.order === 'desc' ? 'asc' : '', offset: 0 });
		},
	});
	const filter = filterField(page);
	const pager = new Pager(page, ROWS);
	const query = (more) => question('paths', { ...compared(), kind, ...sorted(), q: state.q, ...more });
	const changedFirst = button('Changed first', () =>
		page.go({ sort: state.sort === 'changed' ? '' : 'changed', order: '', offset: 0 }),
	);
	root.append(card(name, title, { head: [changedFirst, filter], parts: [table.node, pager.node] }));
	if (page.focusFilter) filter.focus();
	page.focusFilter = false;
	return {
		questions: () => ({ paths: query({ ...pager.parameters(), series: 'hits' }) }),
		draw({ paths }, now, { asOf, refused }) {
			showFilter(filter);
			attr(changedFirst, 'aria-pressed', state.sort === 'changed');
			if (!paths && !refused.paths) return;
			const { paths: rows, total: all, series } = paths ?? { paths: [], total: 0 };
			const shown = ended(rows, series, asOf);
			if (paths && !pager.draw(shown.length, all)) return;
			const where = state.q ? `contains “${visible(state.q)}”` : 'in this range';
			const empty = `No ${noun} ${where}`;
			table.draw(shown, refused.paths ?? (shown.length ? '' : empty));
			table.markSort(sorted().sort, sorted().order, state.sort !== '');
			if (paths) page.complete(paths, all > 0);
		},
	};
}
