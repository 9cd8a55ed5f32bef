// The target of a path: its remaining error budget, and how fast the budget burns.

import { attr, el, labelled, show, text } from './dom.js';
import { NONE, count, delta, duration, isNumber, percent, plural, span, times } from './format.js';

const TOO_LARGE = 'not shown: raise query_bytes';
const WINDOWS = { five_minutes: 'last 5 min', one_hour: 'last hour', six_hours: 'last 6 h' };

/** 25% too fast, 2.4× too fast: how much faster than allowed the error budget is used */
export const tooFast = (burn) => `${delta(burn?.burn_rate).replace('+', '')} too fast`;

/** 12% missed it in the last 5 min, 3% in the last hour, 2% in the last 6 h; 1% is allowed */
export function missed(target) {
	const parts = Object.entries(WINDOWS).map(([name, when]) => [target[name]?.bad_share, when]);
	const known = parts.filter(([part]) => isNumber(part)).map(([part, when]) => `${percent(part, 1)} in the ${when}`);
	return `${known.join(', ').replace(' ', ' missed it ')}; ${exactPercent(1 - target.share)} is allowed`;
}

/**
 * The panel of a path's target.
 * @returns {{node: HTMLElement, line: HTMLElement, draw(target: object | null): void}} `line` says that the budget
 * burns
 */
export function pathTarget() {
	const tiles = [...Object.keys(WINDOWS), 'budget'].map((name) => {
		const tile = el('div', 'tile', el('h3', ''), el('p', 'value'), el('p', 'delta'));
		tile.dataset.tile = name;
		return tile;
	});
	const verdict = el('p', 'change');
	attr(verdict, 'role', 'status');
	const words = el('p', 'calm');
	const node = el('section', 'card tiles', el('div', 'tile words', el('h3', '', 'Target'), verdict, words), ...tiles);
	labelled(node, 'Target').dataset.panel = 'path-target';
	const line = el('p', 'bad-text');
	show(node, false);
	show(line, false);
	return {
		node,
		line,
		draw(target) {
			show(node, target !== null);
			show(line, target?.burns === true);
			if (!target) return;
			const within = duration(target.duration, true);
			const promise = `${exactPercent(target.share)} of requests should be answered within ${within}, without an error.`;
			text(words, `${promise} The other ${exactPercent(1 - target.share)} are the error budget.`);
			text(verdict, inWords(target));
			text(line, `Target of ${within}: ${missed(target)}.`);
			const isFastInOne = isFast(target.one_hour) || isFast(target.six_hours);
			attr(verdict, 'data-level', target.burns ? 'bad' : isFastInOne ? null : 'good');
			Object.entries(WINDOWS).forEach(([name, when], at) =>
				drawBurn(tiles[at], when, target[name], target.burns),
			);
			drawBudget(tiles.at(-1), target);
		},
	};
}

const isFast = (burn) => burn?.burn_rate > 1;

function inWords({ burns, one_hour: one, six_hours: six }) {
	if (burns) return `Uses its error budget ${tooFast(one)}`;
	if (isFast(one)) return `Used its error budget ${tooFast(one)} in the last hour, but not over six hours`;
	if (isFast(six)) return `Used its error budget ${tooFast(six)} over six hours, but not in the last hour`;
	if (isNumber(six?.burn_rate)) return 'Within the error budget';
	return six
		? 'No requests in the last 6 h, apart from cut-off ones and 4xx that are no errors'
		: `Last 6 h ${TOO_LARGE}`;
}

function drawBurn(tile, when, burn, burns) {
	const [label, value, note] = tile.children;
	text(label, `Burn rate, ${when}`);
	text(value, times(burn?.burn_rate));
	value.classList.toggle('bad-text', burns);
	text(note, burn ? badOf(burn) : TOO_LARGE);
	const meaning = 'Share of bad requests ÷ error budget';
	attr(tile, 'title', burn && exactness(burn, meaning));
}

function drawBudget(tile, { budget, budget_left: left }) {
	const [label, value, note] = tile.children;
	text(label, left < 0 ? 'Error budget overspent by' : 'Error budget left');
	text(value, isNumber(left) ? percent(Math.abs(left), 1) : NONE);
	value.classList.toggle('bad-text', left < 0);
	text(note, `${badOf(budget)} in ${span(budget.recorded_seconds)}`);
	attr(tile, 'title', exactness(budget, 'Of the last 30 days, as far as they are kept'));
}

function badOf({ bad, counted }) {
	return counted > 0 ? `${count(bad)} of ${plural(counted, 'request')} bad` : 'no requests';
}

function exactness({ error }, words) {
	return `${words}. Requests within ${percent(error, 1)} of the target may count wrongly`;
}

/** 99.5%, 99.99%: all configured digits of a share. */
export const exactPercent = (share) => `${Number((100 * share).toPrecision(8))}%`;
