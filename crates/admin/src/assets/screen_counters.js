// The user's counters at any precision, and the rankings.

import { question } from './api.js';
import { anchor, card } from './card.js';
import { attr, el, fill, meter, svg, text } from './dom.js';
import { filterField, showFilter } from './filter.js';
import { count, grouped, moment, plural, rate, span, visible } from './format.js';
import { Pager, allRows } from './pager.js';
import { spark } from './spark.js';
import { link, range, state } from './state.js';
import { Table, numberColumn } from './table.js';

const ROWS = 100;

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

export function mount(root, page) {
	const counters = new Table({
		name: 'counters',
		caption: 'Counters',
		key: (row) => row.name,
		allRows: () => allRows(query, 'counters'),
		columns: [
			named('name', 'Counter'),
			{
				id: 'series',
				label: 'Over time',
				draw(cell, row) {
					if (!cell.firstChild) cell.append(svg('svg', { class: 'spark', 'aria-hidden': 'true' }));
					spark(cell.firstChild, row.ended);
				},
			},
			numberColumn('rate', 'Per second', rate),
			numberColumn('last', 'Last whole slice', count),
			numberColumn('sum', 'Sum of all slices', grouped),
		],
	});
	const rankings = new Table({
		name: 'rankings',
		caption: 'Rankings',
		key: (row) => row.name,
		columns: [
			{
				...named('name', 'Ranking'),
				draw(cell, row) {
					if (!cell.firstChild) {
						const button = el('button', 'button quiet');
						button.addEventListener('click', () => page.go({ name: cell.row.name }));
						cell.append(button);
					}
					cell.row = row;
					text(cell.firstChild, visible(row.name));
					attr(cell.firstChild, 'aria-pressed', row.isChosen);
				},
			},
			numberColumn('ids', 'Ids', grouped),
			numberColumn('period', 'Period', span),
			numberColumn('dropped', 'Dropped', grouped),
		],
	});
	const top = new Table({
		name: 'ranking',
		caption: 'The ids of the ranking',
		key: (row) => row.id,
		columns: [
			named('id', 'Id'),
			numberColumn('rank', 'Rank', grouped, { value: (row) => row.rank + 1 }),
			numberColumn('score', 'Score', grouped),
			{
				id: 'share',
				label: 'Of the highest',
				className: 'share',
				draw(cell, row) {
					if (!cell.firstChild) cell.append(meter());
					fill(cell.firstChild, row.score / row.highest);
				},
			},
		],
	});
	const filter = filterField(page);
	const pager = new Pager(page, ROWS);
	const query = (more) => question('counters', { ...range(), precision: state.precision, q: state.q, ...more });
	const rowsLink = anchor(link({ screen: 'rows' }), 'Rows of the row cache');
	rowsLink.className = 'button quiet';
	const notes = [el('span', 'muted'), el('span', 'muted'), el('span', 'muted')];
	const topCard = card('ranking', 'Highest', { head: [notes[2]], parts: [top.node] });
	root.append(
		card('counters', 'Counters', {
			head: [notes[0], ...(page.config.row_cache === false ? [] : [rowsLink]), filter],
			parts: [counters.node, pager.node],
		}),
	);
	const isRanked = page.config.rankings !== false;
	if (isRanked) {
		const parts = [rankings.node];
		root.append(el('div', 'pair', card('rankings', 'Rankings', { head: [notes[1]], parts }), topCard));
	}
	let first = ''; // the first ranking
	const chosen = () => isRanked && (state.name || first);
	return {
		questions: () => ({
			counters: query({ ...pager.parameters(), series: 'true' }),
			...(isRanked ? { rankings: 'rankings' } : {}),
			...(chosen() ? { ranking: question('rankings', { name: chosen(), limit: 20 }) } : {}),
		}),
		draw({ counters: list, rankings: known, ranking }, now, { asOf, refused }) {
			showFilter(filter);
			if (refused.counters) counters.draw([], refused.counters);
			else if (list && pager.draw(list.counters.length, list.total)) {
				// The last slice has not ended.
				const ended = list.series?.to > asOf ? -1 : undefined;
				for (const row of list.counters) row.ended = (row.series ?? []).slice(0, ended);
				counters.draw(
					list.counters,
					list.counters.length
						? ''
						: state.q
							? `No counter contains “${visible(state.q)}”`
							: 'No counters yet: pulse.counter("sales").add(1) makes one',
				);
				text(
					notes[0],
					`${plural(list.total, 'counter')} · slices of ${span(list.precision)}, rates from ${moment(list.from, now)} on`,
				);
			}
			if (known) {
				if (!first && known.rankings.length) {
					first = known.rankings[0].name;
					page.ask();
				}
				rankings.draw(
					known.rankings.map((row) => ({ ...row, isChosen: row.name === chosen() })),
					known.rankings.length ? '' : 'No rankings: pulse.ranking("posts") makes one',
				);
				text(notes[1], known.rankings.length ? 'choose one to see its ids' : '');
			}
			topCard.hidden = !chosen();
			if (ranking?.name === chosen()) {
				const highest = ranking.ids[0]?.score;
				top.draw(
					ranking.ids.map((row) => ({ ...row, highest })),
					ranking.ids.length ? '' : 'No ids in its period',
				);
				text(notes[2], `${visible(ranking.name)} · ${plural(ranking.total, 'id')}`);
			}
		},
	};
}
