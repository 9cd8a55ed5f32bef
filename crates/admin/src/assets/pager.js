// The pages of a long table: which rows are shown of how many, and the buttons to the others.

import { ApiError, ask } from './api.js';
import { attr, el, show, text } from './dom.js';
import { grouped } from './format.js';
import { state } from './state.js';

const LIMITS = [10, 25, 50, 100];
const ALL_ROWS = 1000; // of an answer, at most
const MAX_OFFSET = 1e9; // of a question, at most: a link may have more

export class Pager {
	#initial;
	#go;
	#total = el('span', 'muted grow');
	#limits = el('select', '', ...LIMITS.map(limitOption));
	#previous = button('Previous');
	#next = button('Next');

	/** `initial`: the rows of a page while no number is chosen. */
	constructor(page, initial) {
		this.#initial = initial;
		this.#go = (values, inPlace) => page.go(values, inPlace);
		attr(this.#total, 'role', 'status');
		attr(this.#limits, 'aria-label', 'Rows');
		this.#limits.addEventListener('change', () => this.#go({ limit: Number(this.#limits.value), offset: 0 }));
		this.#previous.addEventListener('click', () => this.#go({ offset: Math.max(state.offset - this.#limit, 0) }));
		this.#next.addEventListener('click', () => this.#go({ offset: state.offset + this.#limit }));
		this.node = el('nav', 'bar foot', this.#total, this.#limits, this.#previous, this.#next);
		attr(this.node, 'aria-label', 'Pages of the table');
	}

	get #limit() {
		return LIMITS.includes(state.limit) ? state.limit : this.#initial;
	}

	/** The parameters of the question. */
	parameters() {
		return { limit: this.#limit, offset: Math.min(state.offset, MAX_OFFSET) };
	}

	/** Shows that `count` rows of `total` are drawn. Behind the last page, goes to it and returns `false`. */
	draw(count, total) {
		if (count === 0 && state.offset > 0) {
			this.#go({ offset: Math.floor(Math.max(total - 1, 0) / this.#limit) * this.#limit }, true);
			return false;
		}
		show(this.node, total > LIMITS[0]);
		this.#limits.value = this.#limit;
		text(
			this.#total,
			count ? `${grouped(state.offset + 1)}–${grouped(state.offset + count)} of ${grouped(total)}` : '',
		);
		this.#previous.disabled = state.offset === 0;
		this.#next.disabled = state.offset + count >= total;
		return true;
	}
}

/**
 * All rows of a table, for a file. `query(limit, offset)` is the question of a part of them, `field` their name in its
 * answer.
 */
export async function allRows(query, field) {
	const rows = [];
	for (;;) {
		const {
			answers: { part },
		} = await ask({ part: query({ limit: ALL_ROWS, offset: rows.length }) }, new AbortController().signal);
		if (part.status !== 200) throw new ApiError(part.status, part.body);
		rows.push(...part.body[field]);
		if (part.body[field].length === 0 || rows.length >= part.body.total) return rows;
	}
}

function limitOption(limit) {
	const option = el('option', '', `${limit} rows`);
	option.value = limit;
	return option;
}

function button(label) {
	const node = el('button', 'button', label);
	node.disabled = true;
	return node;
}
