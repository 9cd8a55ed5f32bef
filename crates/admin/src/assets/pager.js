// Chooses the shown rows of a long table: the filter by name, the range of rows, and the buttons to the other pages.

import { ApiError, ask } from './api.js';
import { attr, button, el, labelled, show, text } from './dom.js';
import { grouped } from './format.js';
import { state } from './state.js';

const TYPING = 30; // milliseconds from the last key until the filter applies
const LIMITS = [10, 25, 50, 100];
const ALL_ROWS = 1000; // the most rows of an answer
const MAX_OFFSET = 1e9; // the largest offset of a question; a link may have a larger one

export class Pager {
	#initial;
	#go;
	#total = el('span', 'muted grow');
	#limits = labelled(el('select', '', ...LIMITS.map((limit) => new Option(`${limit} rows`, String(limit)))), 'Rows');
	#previous = button('Previous', () => this.#go({ offset: Math.max(state.offset - this.#limit, 0) }), 'button');
	#next = button('Next', () => this.#go({ offset: state.offset + this.#limit }), 'button');

	/** `initial`: the rows per page while no number is chosen. */
	constructor(page, initial) {
		this.#initial = initial;
		this.#go = (values, inPlace) => page.go(values, inPlace);
		attr(this.#total, 'role', 'status');
		this.#limits.addEventListener('change', () => this.#go({ limit: Number(this.#limits.value), offset: 0 }));
		const parts = [this.#total, this.#limits, this.#previous, this.#next];
		this.node = labelled(el('nav', 'bar foot', ...parts), 'Pages of the table');
		this.#previous.disabled = this.#next.disabled = true;
	}

	get #limit() {
		return LIMITS.includes(state.limit) ? state.limit : this.#initial;
	}

	parameters() {
		return { limit: this.#limit, offset: Math.min(state.offset, MAX_OFFSET) };
	}

	/** Shows that `count` rows of `total` are drawn. Beyond the last page, goes to that page and returns `false`. */
	draw(count, total) {
		if (count === 0 && state.offset > 0) {
			this.#go({ offset: Math.floor(Math.max(total - 1, 0) / this.#limit) * this.#limit }, true);
			return false;
		}
		show(this.node, total > LIMITS[0]);
		this.#limits.value = this.#limit;
		const shown = `${grouped(state.offset + 1)}–${grouped(state.offset + count)} of ${grouped(total)}`;
		text(this.#total, count ? shown : '');
		this.#previous.disabled = state.offset === 0;
		this.#next.disabled = state.offset + count >= total;
		return true;
	}
}

/**
 * All rows of a table, for a file. `query({ limit, offset })` is the question for a part of the rows, `field` the name
 * of the rows in the answer.
 */
export async function allRows(query, field) {
	const rows = [];
	for (;;) {
		const questions = { part: query({ limit: ALL_ROWS, offset: rows.length }) };
		const { part } = (await ask(questions, new AbortController().signal)).answers;
		if (part.status !== 200) throw new ApiError(part.status, part.body);
		rows.push(...part.body[field]);
		if (part.body[field].length === 0 || rows.length >= part.body.total) return rows;
	}
}

export function filterField(page) {
	const field = labelled(el('input'), 'Filter by name');
	const placeholder = 'Filter by name ( / )';
	Object.assign(field, { id: 'filter', type: 'search', placeholder, autocomplete: 'off', maxLength: 256 });
	field.value = state.q;
	let typing = 0;
	field.addEventListener('input', () => {
		clearTimeout(typing);
		typing = setTimeout(() => page.go({ q: field.value, offset: 0 }, true), TYPING);
	});
	return field;
}

/** Shows the filter of the state, unless the user is typing. */
export function showFilter(field) {
	if (document.activeElement !== field && field.value !== state.q) field.value = state.q;
}
