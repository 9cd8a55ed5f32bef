// The scheduled rows of the row caches of this process.

import { question } from './api.js';
import { anchor, card } from './card.js';
import { attr, el, sync, text } from './dom.js';
import { duration, grouped, percent, plural, span, visible } from './format.js';
import { Pager, allRows } from './pager.js';
import { link, state } from './state.js';
import { Table, numberColumn } from './table.js';

const ROWS = 100;

const named = () => ({
	id: 'id',
	label: 'Row',
	className: 'name',
	value: (row) => row.id,
	draw(cell, row) {
		if (!cell.firstChild) cell.append(el('bdi', 'path'));
		text(cell.firstChild, visible(row.id));
	},
});

const lastError = () => ({
	id: 'last_error',
	label: 'Last error',
	className: 'left',
	value: (row) => row.last_error,
	text: (row) => (row.last_error ? visible(row.last_error) : '–'),
});

export function mount(root, page) {
	const rows = new Table({
		name: 'rows',
		caption: 'Rows',
		key: (row) => row.id,
		allRows: () => allRows(query, 'rows'),
		mark: (node, row) => attr(node, 'data-odd', row.failures > 0 ? 'true' : null),
		columns: [
			named(),
			numberColumn('every', 'Refreshed every', (value) => duration(value)),
			{
				id: 'due_in',
				label: 'Due',
				value: (row) => row.due_in,
				text: (row) => (row.due_in < 0 ? `${span(-row.due_in)} late` : `in ${span(row.due_in)}`),
			},
			{
				id: 'age',
				label: 'Loaded',
				value: (row) => row.age,
				text: (row) => (row.age === null ? 'not cached' : `${span(row.age)} ago`),
			},
			{
				id: 'hits',
				label: 'Hits',
				title: 'Reads by this process that were answered from the cache',
				value: (row) => row.hits,
				draw(cell, row) {
					text(cell, row.hits + row.misses > 0 ? percent(row.hits, row.hits + row.misses) : '–');
					attr(cell, 'title', `${grouped(row.hits)} hits, ${grouped(row.misses)} misses`);
				},
			},
			numberColumn('misses', 'Misses', grouped),
			{
				id: 'failures',
				label: 'Failures',
				value: (row) => row.failures,
				draw(cell, row) {
					text(cell, row.failures > 0 ? `${plural(row.failures, 'failure')} in a row` : '–');
					attr(cell, 'title', `This process has failed to load it ${plural(row.failed_loads, 'time')}`);
					cell.classList.toggle('bad-text', row.failures > 0);
				},
			},
			lastError(),
		],
	});
	const caches = el('select', '');
	attr(caches, 'aria-label', 'Cache');
	caches.addEventListener('change', () => page.go({ name: caches.value, offset: 0 }));
	const note = el('span', 'muted');
	const pager = new Pager(page, ROWS);
	const failed = new Table({
		name: 'failed-rows',
		caption: 'Rows without a schedule that could not be loaded',
		key: (row) => row.id,
		columns: [
			named(),
			numberColumn('failures', 'Failures', grouped),
			{ id: 'age', label: 'Failed', value: (row) => row.age, text: (row) => `${span(row.age)} ago` },
			lastError(),
		],
	});
	const failures = card('failed-rows', 'Failed loads without a schedule', { parts: [failed.node] });
	failures.hidden = true;
	const query = (more) => question('rows', { name: state.name, ...more });
	root.append(
		el('p', 'crumbs', anchor(link({ screen: 'counters' }), 'Counters'), ' / Rows'),
		card('rows', 'Rows of the row cache', { head: [note, caches], parts: [rows.node, pager.node] }),
		failures,
	);
	return {
		questions: () => ({ rows: query(pager.parameters()) }),
		draw({ rows: answer }, now, { refused }) {
			if (!answer && !refused.rows) return;
			const { caches: names, total, rows: list } = answer ?? { caches: [], total: 0, rows: [] };
			caches.hidden = names.length < 2;
			sync(
				caches,
				names,
				String,
				(name) => {
					const option = el('option', '', name === '' ? 'unnamed' : visible(name));
					option.value = name;
					return option;
				},
				() => {},
			);
			caches.value = answer?.name ?? '';
			if (answer && !pager.draw(list.length, total)) return;
			rows.draw(
				list,
				refused.rows ??
					(list.length
						? ''
						: names.length
							? 'No row is scheduled'
							: 'This process has no row cache: RowCache::builder(&pulse) makes one'),
			);
			const sums = answer?.sums;
			const counts = ['hits', 'misses', 'refreshes', 'failures'].map(
				(name) => `${grouped(sums?.[name])} ${name}`,
			);
			const own = sums ? ` · this process: ${counts.join(', ')}` : '';
			text(note, `${total > 0 ? `${plural(total, 'row')} · failing rows first` : ''}${own}`.replace(/^ · /, ''));
			const unscheduled = answer?.failed ?? [];
			failures.hidden = unscheduled.length === 0;
			failed.draw(unscheduled, '');
		},
	};
}
