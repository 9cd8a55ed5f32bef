// A table that is redrawn often. A row stays with its key, so that focus and selection survive.

import { offerExport } from './card.js';
import { contextParts } from './context.js';
import { headline, level, ongoingOn } from './change.js';
import { attr, button, el, fill, labelled, meter, say, show, sync, text } from './dom.js';
import { NONE, delta, duration, grouped, isNumber, perUnit, percent, plural, rateOf } from './format.js';
import { sense, visible } from './format.js';
import { link } from './state.js';
import { ENOUGH } from './tiles.js';

/**
 * Each of `columns` has an `id`, a `label`, and `draw(cell, row)` or `text(row)`. Its `value(row)` is exported, `sort`
 * makes its heading a button, and `title` explains it. The first column names the row. A column with only a `value` is
 * for files. `href` makes a click on a row open its link. `details(cell, row, isOpen)` draws a second row: while the
 * button `.opener` is pressed, or always if `hasDetails(row)`. `allRows()` resolves to the rows of all pages, for a
 * file. `figures` are the two columns that matter most. On a phone, a button shows the other columns.
 */
export class Table {
	#columns;
	#options;
	#rows = [];
	#body = el('tbody');
	#note = el('p', 'note');
	#headers = new Map();
	#opened = new Set(); // keys of rows
	#chosen = []; // the id of the column of the chosen order, unless this column names the rows
	#more = button('', () => attr(this.#more, 'aria-pressed', this.table.classList.toggle('wide')), 'button more');

	constructor({ name, caption, ...options }) {
		const columns = options.columns.filter((column) => column.draw ?? column.text);
		this.#columns = columns;
		this.#options = options;
		this.name = name;
		const head = el('thead', '', el('tr', '', ...columns.map((column) => this.#header(column))));
		this.table = el('table', options.href ? 'rows' : '', el('caption', 'hidden', caption), head, this.#body);
		this.table.dataset.table = name;
		this.#markMore(this.table.rows[0]);
		say(this.#more, options.figures ? `All ${columns.length} columns` : '');
		const scroll = labelled(el('div', 'scroll', this.table), caption, 'group');
		scroll.tabIndex = 0;
		this.node = el('div', 'table', scroll, this.#note, this.#more);
		offerExport(caption, name, this.node, async () => this.exported(await options.allRows?.()));
		if (options.details) this.#body.addEventListener('click', (event) => this.#toggle(event));
		if (options.href) this.#body.addEventListener('click', (event) => this.#open(event));
	}

	#header({ id, label, title, sort, className }) {
		const cell = el('th', className ?? '', sort ? button(label, () => this.#options.onSort(id), '') : label);
		cell.scope = 'col';
		attr(cell, 'title', title);
		if (sort) cell.firstChild.dataset.sort = id;
		this.#headers.set(id, cell);
		return cell;
	}

	#toggle({ target }) {
		if (!target.closest('.opener')) return;
		const { key } = target.closest('tr').dataset;
		if (!this.#opened.delete(key)) this.#opened.add(key);
		this.draw(this.#rows, this.#note.textContent);
	}

	/** Opens a row's link for a click beside the link, unless the click ends a selection of text. */
	#open(event) {
		const row = event.target.closest('tr');
		if (row && !event.target.closest('a, button') && getSelection().isCollapsed) row.querySelector('a')?.click();
	}

	/** Marks the cells that a phone hides at first: all but the name and two figures. */
	#markMore({ cells }) {
		const { figures } = this.#options;
		const shown = figures && [...new Set([...this.#chosen, ...figures])].slice(0, 2);
		const isMore = (id, at) => at > 0 && shown?.includes(id) === false;
		this.#columns.forEach(({ id }, at) => cells[at]?.toggleAttribute('data-more', isMore(id, at)));
	}

	/** Shows the column by which the rows are ordered. */
	markSort(sort, order, isChosen) {
		this.#chosen = this.#columns.slice(1).flatMap(({ id }) => (isChosen && id === sort ? [id] : []));
		for (const row of this.table.rows) this.#markMore(row);
		for (const [id, cell] of this.#headers) {
			if (cell.firstChild?.dataset)
				attr(cell, 'aria-sort', id === sort ? (order === 'asc' ? 'ascending' : 'descending') : 'none');
		}
	}

	/** Draws at most `most` rows, and a note. */
	draw(rows, note = '', most = rows.length) {
		this.#rows = rows;
		const { key, mark, details, hasDetails } = this.#options;
		const isOpen = (row) => this.#opened.has(key(row));
		const hasMore = (row) => isOpen(row) || hasDetails?.(row);
		const shown = rows.slice(0, most).flatMap((row) => (hasMore(row) ? [row, { detailsOf: row }] : [row]));
		const keyOf = (row) => (row.detailsOf ? `${key(row.detailsOf)} details` : key(row));
		const update = (node, row) => {
			if (row.detailsOf) return details(node.firstChild, row.detailsOf, isOpen(row.detailsOf));
			attr(node, 'data-key', key(row));
			mark?.(node, row);
			this.#columns.forEach(({ draw, text: words }, at) => {
				if (draw) draw(node.children[at], row);
				else text(node.children[at], words(row));
			});
			if (details) attr(node.querySelector('.opener'), 'aria-expanded', isOpen(row));
		};
		sync(this.#body, shown, keyOf, (row) => this.#create(row.detailsOf), update, !details);
		say(this.#note, note);
		show(this.table.parentNode, rows.length > 0 || note === '');
		show(this.#more, rows.length > 0 && Boolean(this.#options.figures));
	}

	#create(isDetails) {
		if (isDetails) return el('tr', 'details', Object.assign(el('td'), { colSpan: this.#columns.length }));
		const cells = this.#columns.map(({ id, label, className }, at) => {
			const cell = el(at === 0 ? 'th' : 'td', className ?? '');
			if (at === 0) cell.scope = 'row';
			cell.dataset.column = id;
			if (at > 0 && label) cell.dataset.label = label;
			return cell;
		});
		const row = el('tr', '', ...cells);
		this.#markMore(row);
		return row;
	}

	/** The content of an exported file of these rows. */
	exported(rows = this.#rows) {
		const columns = this.#options.columns.filter((column) => column.value);
		return {
			name: this.name,
			columns: columns.map((column) => column.id),
			rows: rows.map((row) => columns.map((column) => column.value(row))),
		};
	}
}

/** The link to the screen of a row or a change. */
export const linkTo = ({ context, instance = '', kind = '' }) => {
	if (kind === 'timer' && context === 'queue') return linkTo({ context: '<queue>' });
	if (context !== '<all>') return link({ screen: 'path', context, kind: kind === 'timer' ? kind : '' });
	return link(instance ? { screen: 'instance', context: instance } : { screen: 'health' });
};

/** The column that names a context, links to its screen, and shows its change if `isMarked`. */
export const contextColumn = (label = 'Path', isMarked = true) => ({
	id: 'context',
	label,
	className: 'name',
	value: (row) => row.context,
	draw(cell, row) {
		if (cell.shown !== row.context) {
			cell.replaceChildren(el('a', 'open', ...contextParts(row)), el('span', 'change tag'));
			cell.shown = row.context;
			cell.firstChild.title = visible(row.context);
		}
		attr(cell.firstChild, 'href', linkTo(row));
		drawTag(cell.lastChild, isMarked && ongoingOn(row.kind === 'timer' ? 'timer' : 'http', row.context));
	},
});

/** Draws the tag beside a name: the ongoing change. */
export function drawTag(node, change, words = change && headline(change)) {
	show(node, Boolean(change));
	if (!change) return;
	text(node, words);
	attr(node, 'data-level', level(change));
}

/**
 * A column of a share of time, as a bar and as a number.
 * @param {string} label
 * @param {{ title?: string, sort?: boolean }} [options]
 */
export const shareColumn = (label, options) => ({
	id: 'share',
	label,
	className: 'share',
	value: (row) => row.share,
	...options,
	draw(cell, row) {
		if (!cell.firstChild) cell.append(meter(), el('span'));
		show(cell.firstChild, row.share > 0);
		fill(cell.firstChild, row.share);
		text(cell.lastChild, percent(row.share, 1));
		if (isNumber(row.total)) attr(cell, 'title', `${duration(row.total)} in all`);
	},
});

/** The column of the share of errors, red if `isBad(row)`. */
export const errorColumn = (isBad, options) => ({
	...numberColumn('error_share', 'Errors', (value) => percent(value, 1), options),
	draw(cell, row) {
		text(cell, isNumber(row.error_share) ? percent(row.error_share, 1) : NONE);
		attr(cell, 'title', `${plural(row.errors, 'error')} of ${plural(row.count, 'sample')}`);
		cell.classList.toggle('few', !(row.error_share > 0));
		cell.classList.toggle('bad-text', row.errors > 0 && Boolean(isBad(row)));
	},
});

/**
 * A column of numbers: `value(row)` in the form of `format`.
 * @param {string} id
 * @param {string} label
 * @param {(value: any) => string} format
 * @param {{ value?: (row: any) => any, title?: string, sort?: boolean, className?: string }} options
 */
export function numberColumn(id, label, format, { value = (row) => row[id], ...options } = {}) {
	return {
		id,
		label,
		value,
		text: (row) => (value(row) === null || value(row) === undefined ? NONE : format(value(row))),
		...options,
	};
}

/** The column of the rate of requests or runs; an exported file has their number. @returns {any} */
export const requestsColumn = (label = 'Requests', options = {}) => ({
	...numberColumn('count', label, grouped, options),
	draw(cell, row) {
		text(cell, perUnit(rateOf(row.per_second, 1)));
		attr(cell, 'title', `${grouped(row.count)} in all`);
	},
});

/**
 * A column of `words(row)`, or else of a ratio, coloured by `level(row)`: "good", "bad" or null.
 * @param {string} id
 * @param {string} label
 * @param {any} [options] those of `numberColumn`, and `words(row)` and `level(row)`
 */
export const ratioColumn = (id, label, { value = (row) => row[id], words, level, ...options } = {}) => ({
	id,
	label,
	value,
	...options,
	draw(cell, row) {
		text(cell, (words ? words(row) : delta(value(row))) || NONE);
		attr(cell, 'data-sense', level ? level(row) : sense(value(row)));
	},
});

/** A column of a statistic, grey if it has too few samples. */
export function statistic(id) {
	const column = numberColumn(id, id === 'mean' ? 'Mean' : id, duration);
	return {
		...column,
		draw(cell, row) {
			const few = row.count < ENOUGH[id];
			text(cell, column.text(row));
			cell.classList.toggle('few', few);
			attr(cell, 'title', few ? `Only ${plural(row.count, 'sample')}` : null);
		},
	};
}
