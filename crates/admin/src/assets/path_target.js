// The target of a path: the rest of its error budget, and how fast it burns.

import { attr, el, labelled, show, text } from './dom.js';
import { NONE, count, duration, isNumber, percent, plural, span, times } from './format.js';

/**
 * The panel of the target of a path.
 * @returns {{node: HTMLElement, line: HTMLElement, draw(target: object | null): void}} `line` says that the budget
 * burns
 */
export function pathTarget() {
	const tiles = ['one_hour', 'six_hours', 'budget'].map((name) => {
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
			const promise = `${exactPercent(target.share)} should be answered within ${within}, without an error.`;
			text(words, `${promise} ${exactPercent(1 - target.share)} may not: that is the error budget.`);
			text(verdict, inWords(target));
			const [one, six] = [target.one_hour, target.six_hours].map((burn) => times(burn?.burn_rate));
			text(line, `Missed ${one} as often as allowed in the last hour, ${six} in the last six hours.`);
			const isFastInOne = isFast(target.one_hour) || isFast(target.six_hours);
			attr(verdict, 'data-level', target.burns ? 'bad' : isFastInOne ? null : 'good');
			drawBurn(tiles[0], 'last hour', target.one_hour, target.burns);
			drawBurn(tiles[1], 'last 6 h', target.six_hours, target.burns);
			drawBudget(tiles[2], target);
		},
	};
}

const isFast = (burn) => burn?.burn_rate > 1;

/** The meaning of the burn rates. */
function inWords({ burns, one_hour: one, six_hours: six }) {
	if (burns) return 'The error budget is being used up too fast';
	if (isFast(one)) return 'Used too fast in the last hour, but not over the last six';
	if (isFast(six)) return 'Used too fast over the last six hours, but not in the last one';
	return isNumber(six?.burn_rate) ? 'Within the error budget' : 'No request in the last six hours that counts';
}

function drawBurn(tile, when, burn, burns) {
	const [label, value, note] = tile.children;
	text(label, `Burn rate, ${when}`);
	text(value, times(burn?.burn_rate));
	value.classList.toggle('bad-text', burns);
	text(note, burn ? badOf(burn) : 'too large for query_bytes');
	const meaning = 'The part that was bad, by the part that may be: at 1 the budget lasts for its time';
	attr(tile, 'title', burn && exactness(burn, meaning));
}

function drawBudget(tile, { budget, budget_left: left }) {
	const [label, value, note] = tile.children;
	text(label, 'Error budget left');
	text(value, !isNumber(left) ? NONE : left >= 0 ? percent(left, 1) : `${percent(-left, 1)} over`);
	value.classList.toggle('bad-text', left < 0);
	text(note, `${count(budget.bad)} of ${count(budget.counted)} bad in ${span(budget.recorded_seconds)}`);
	attr(tile, 'title', exactness(budget, 'Of what is kept of the last 30 days'));
}

function badOf({ bad, counted }) {
	return counted > 0 ? `${count(bad)} of ${plural(counted, 'request')} bad` : 'no requests';
}

function exactness({ error }, words) {
	return `${words}. Counted from a histogram: exact for a duration within ±${percent(error, 1)}`;
}

/** 99.5%, 99.99%: with all digits that a share is configured with. */
const exactPercent = (share) => `${Number((100 * share).toPrecision(8))}%`;
