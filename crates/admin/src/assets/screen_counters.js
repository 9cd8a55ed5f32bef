// The user's counters at any precision, the rows of the row caches, and the rankings.

import { question } from './api.js';
import { card } from './card.js';
import { attr, button, el, fill, labelled, meter, show, text } from './dom.js';
import { count, duration, grouped, moment, percent, plural, rate, span, visible } from './format.js';
import { Pager, allRows, filterField, showFilter } from './pager.js';
import { ended, sparkColumn } from './spark.js';
import { range, state } from './state.js';
import { Table, numberColumn } from './table.js';

const COUNTERS = 100;
const CACHED_ROWS = 25;

const named = (id, label) => ({
	id,
	label,
	className: 'name',
	value: (row) => row[id],
	draw(cell, row) {
		if (!cell.firstChild) cell.append(el('bdi', 'path'));
		text(cell.firstChild, visible(row[id]));
	},
});

/** A card of the scheduled rows of a row cache, hidden if this process has no cache: { node, questions, draw }. */
function rowCache(page) {
	let chosen = ''; // the name of a cache
	let unscheduled = []; // failed rows that are not in the schedule
	const query = (more) => question('rows', { name: chosen, ...more });
	const table = new Table({
		name: 'rows',
		figures: ['age', 'failures'],
		caption: 'Cached rows',
		key: (row) => `${row.every === null} ${row.id}`,
		allRows: async () => [...(await allRows(query, 'rows')), ...unscheduled],
		mark: (node, row) => attr(node, 'data-odd', row.failures > 0 ? 'true' : null),
		columns: [
			named('id', 'Row'),
			numberColumn('every', 'Refreshed every', duration),
			numberColumn('due_in', 'Due', (due) => (due < 0 ? `${span(-due)} late` : `in ${span(due)}`)),
			numberColumn('age', 'Loaded', (age) => `${span(age)} ago`),
			{
				id: 'hits',
				label: 'Hits',
				title: 'Reads of this process that the cache answered',
				value: (row) => row.hits,
				draw(cell, row) {
					text(cell, percent(row.hits, row.hits + row.misses));
					attr(cell, 'title', `${grouped(row.hits)} hits, ${grouped(row.misses)} misses`);
				},
			},
			numberColumn('misses', 'Misses', grouped),
			numberColumn('failures', 'Consecutive failures', (failures) => (failures > 0 ? grouped(failures) : '–')),
			numberColumn('last_error', 'Last error', visible, { className: 'left' }),
		],
	});
	const caches = labelled(el('select'), 'Row cache');
	caches.addEventListener('change', () => {
		chosen = caches.value;
		page.ask();
	});
	const note = el('span', 'muted');
	const node = card('rows', 'Cached rows', { head: [note, caches], parts: [table.node] });
	show(node, false);
	return {
		node,
		questions: () => ({ rows: query({ limit: CACHED_ROWS }) }),
		draw(answer, refused) {
			if (!answer) return refused && table.draw([], refused);
			const { caches: names, total, rows: list, sums, failed } = answer;
			if (caches.length !== names.length)
				caches.replaceChildren(...names.map((name) => new Option(name ? visible(name) : 'unnamed', name)));
			caches.value = answer.name ?? '';
			show(caches, names.length > 1);
			show(node, names.length > 0);
			const none = { every: null, due_in: null, age: null, hits: null, misses: null };
			unscheduled = failed.map((row) => ({ ...row, ...none }));
			table.draw([...list, ...unscheduled], list.length + failed.length ? '' : 'No row is scheduled');
			const shown = list.length < total ? `${grouped(list.length)} of ` : '';
			const counts = ['hits', 'misses', 'refreshes', 'failures'].map(
				(name) => `${grouped(sums?.[name])} ${name}`,
			);
			text(note, `${shown}${plural(total, 'row')}, failing first · in this process: ${counts.join(', ')}`);
		},
	};
}

export function mount(root, page) {
	const counters = new Table({
		name: 'counters',
		figures: ['rate', 'sum'],
		caption: 'Counters',
		key: (row) => row.name,
		allRows: () => allRows(query, 'counters'),
		columns: [
			named('name', 'Counter'),
			sparkColumn('Over time'),
			numberColumn('rate', 'Per second', rate),
			numberColumn('last', 'Last whole slice', count),
			numberColumn('sum', 'Sum of all slices', grouped),
		],
	});
	const rankings = new Table({
		name: 'rankings',
		figures: ['ids', 'period'],
		caption: 'Rankings',
		key: (row) => row.name,
		columns: [
			{
				...named('name', 'Ranking'),
				draw(cell, row) {
					if (!cell.firstChild) cell.append(button('', () => page.go({ name: cell.row.name })));
					cell.row = row;
					text(cell.firstChild, visible(row.name));
					attr(cell.firstChild, 'aria-pressed', row.isChosen);
				},
			},
			numberColumn('ids', 'Ids', grouped),
			numberColumn('period', 'Period', span),
			numberColumn('dropped', 'No room', grouped, { title: 'Counts lost beyond max_ids' }),
		],
	});
	const top = new Table({
		name: 'ranking',
		figures: ['rank', 'score'],
		caption: 'The ids of the ranking',
		key: (row) => row.id,
		columns: [
			named('id', 'Id'),
			numberColumn('rank', 'Rank', grouped, { value: (row) => row.rank + 1 }),
			numberColumn('score', 'Score', grouped),
			{
				id: 'share',
				label: 'Of top score',
				className: 'share',
				draw(cell, row) {
					if (!cell.firstChild) cell.append(meter());
					fill(cell.firstChild, row.score / row.highest);
				},
			},
		],
	});
	const filter = filterField(page);
	const pager = new Pager(page, COUNTERS);
	const query = (more) => question('counters', { ...range(), precision: state.precision, q: state.q, ...more });
	const rows = page.config.row_cache !== false && rowCache(page);
	const notes = [el('span', 'muted'), el('span', 'muted'), el('span', 'muted')];
	const topCard = card('ranking', 'Highest', { head: [notes[2]], parts: [top.node] });
	root.append(card('counters', 'Counters', { head: [notes[0], filter], parts: [counters.node, pager.node] }));
	if (rows) root.append(rows.node);
	const isRanked = page.config.rankings !== false;
	const all = card('rankings', 'Rankings', { head: [notes[1]], parts: [rankings.node] });
	if (isRanked) root.append(el('div', 'pair', all, topCard));
	let first = ''; // the first ranking
	const chosen = () => isRanked && (state.name || first);
	return {
		questions: () => ({
			counters: query({ ...pager.parameters(), series: 'true' }),
			...(rows ? rows.questions() : {}),
			...(isRanked ? { rankings: 'rankings' } : {}),
			...(chosen() ? { ranking: question('rankings', { name: chosen(), limit: 20 }) } : {}),
		}),
		draw({ counters: list, rows: cached, rankings: known, ranking }, now, { asOf, refused }) {
			showFilter(filter);
			if (rows) rows.draw(cached, refused.rows);
			if (refused.counters) counters.draw([], refused.counters);
			else if (list && pager.draw(list.counters.length, list.total)) {
				const none = state.q
					? `No counter contains “${visible(state.q)}”`
					: 'No counters yet: pulse.counter("sales").add(1) makes one';
				counters.draw(ended(list.counters, list.series, asOf), list.counters.length ? '' : none);
				const rates = `slices of ${span(list.precision)}, rates since ${moment(list.from, now)}`;
				text(notes[0], `${plural(list.total, 'counter')} · ${rates}`);
			}
			if (known) {
				if (!first && known.rankings.length) {
					first = known.rankings[0].name;
					page.ask();
				}
				const list = known.rankings.map((row) => ({ ...row, isChosen: row.name === chosen() }));
				rankings.draw(list, list.length ? '' : 'No rankings: call pulse.ranking("posts").build()');
				text(notes[1], list.length ? 'choose one to see its ids' : '');
			}
			topCard.hidden = !chosen();
			if (ranking?.name === chosen()) {
				const highest = ranking.ids[0]?.score;
				const ids = ranking.ids.map((row) => ({ ...row, highest }));
				top.draw(ids, ids.length ? '' : 'No ids in the ranking’s period');
				text(notes[2], `${visible(ranking.name)} · ${plural(ranking.total, 'id')}`);
			}
		},
	};
}
