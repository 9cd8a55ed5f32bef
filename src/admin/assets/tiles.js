// The tiles: what a window measured, each with its change against the window before.

import { attr, el, show, text } from './dom.js';
import { NONE, count, delta, duration, grouped, isNumber, moment, percent, plural, rate } from './format.js';

/** Fewest requests of which a statistic says something. */
export const ENOUGH = { mean: 5, p50: 5, p95: 20, p99: 100, errors: 20, target: 20, error_share: 20 };

/** The recorded seconds of a window, up to `now`. */
export const recorded = ({ from, to, complete }, now) => complete * (Math.min(to, now) - from);

const perSecond = (window, now) => {
	const length = recorded(window, now);
	return length > 0 ? window.count / length : null;
};

// `better`: whether more is better (1), worse (-1) or neither (0).
const TILES = [
	{ name: 'requests', label: 'Requests', better: 0, value: (w) => w.count, format: count, exact: grouped },
	{ name: 'rate', label: 'Requests/s', better: 0, value: perSecond, format: rate },
	{ name: 'mean', label: 'Mean', better: -1, format: duration },
	{ name: 'p50', label: 'p50', better: -1, format: duration },
	{ name: 'p95', label: 'p95', better: -1, format: duration },
	{ name: 'p99', label: 'p99', better: -1, format: duration },
	{ name: 'errors', label: 'Errors', better: -1, value: (w) => w.error_share, format: (share) => percent(share, 1), note: (w) => plural(w.errors, 'error') },
	{ name: 'target', label: 'Below target', better: 1, value: (w) => w.below_target, format: (share) => percent(share, 1), isShare: true },
	{ name: 'in-flight', label: 'In flight', better: 0, value: (w) => w.in_flight, format: grouped, isNow: true },
];

export class Tiles {
	constructor(names = TILES.map((tile) => tile.name)) {
		this.tiles = TILES.filter((tile) => names.includes(tile.name)).map((tile) => {
			const [figure, delta] = [el('p', 'value', NONE), el('p', 'delta')];
			const node = el('div', 'tile', el('h3', '', tile.label), figure, delta);
			node.dataset.tile = tile.name;
			return { ...tile, figure, delta, node };
		});
		this.node = el('section', 'card tiles', ...this.tiles.map((tile) => tile.node));
		attr(this.node, 'aria-label', 'Statistics');
	}

	/** Names what is counted, such as "Calls". */
	name(noun) {
		for (const { node } of this.tiles) text(node.firstChild, node.firstChild.textContent.replace('Requests', noun));
	}

	/** `window`: what was measured, with `before`; `length`: what the range is called. */
	draw(window, { now, target, length }) {
		const { before } = window;
		if (!isNumber(window.count)) throw new TypeError('window.count');
		for (const tile of this.tiles) {
			const read = tile.value ?? ((w) => w[tile.name]);
			const value = read(window, now);
			const old = before && !tile.isNow ? read(before, now) : null;
			const few = ENOUGH[tile.name] > window.count && window.count > 0;
			show(tile.node, tile.name !== 'target' || isNumber(target));
			if (tile.name === 'target' && isNumber(target)) {
				text(tile.node.firstChild, `Below ${duration(target, true)}`);
				attr(tile.node, 'title', `Requests that succeeded within ${duration(target, true)}`);
			}
			text(tile.figure, isNumber(value) ? tile.format(value) : NONE);
			attr(tile.figure, 'title', isNumber(value) && tile.exact ? tile.exact(value) : null);
			tile.node.classList.toggle('few', few);
			this.#drawDelta(tile, { value, old, window, few, length, now });
		}
	}

	#drawDelta(tile, { value, old, window, few, length, now }) {
		const { before } = window;
		let words = '';
		let sense = 0;
		let title = null;
		if (tile.isNow) words = 'now';
		else if (few) words = `only ${plural(window.count, 'request')}`;
		else if (isNumber(value) && isNumber(old) && (old > 0 || tile.isShare)) {
			// A range that goes on has not the length of the one before.
			const ratio = tile.name === 'requests' ? perSecond(window, now) / perSecond(before, now) : value / old;
			words = tile.isShare ? points(value - old) : delta(ratio);
			const isClear = tile.isShare ? Math.abs(value - old) >= 0.001 : ratio >= 1.05 || ratio <= 0.95;
			sense = isClear ? Math.sign(value - old) * tile.better : 0;
			title = `${tile.format(old)} in the ${length} before, ${moment(before.from, now)} – ${moment(before.to, now)}${before.complete < 0.995 ? `, of which ${percent(before.complete, 1)} was recorded` : ''}`;
			if (before.complete < 0.995) words = `≈ ${words}`;
		} else if (tile.note) words = tile.note(window);
		text(tile.delta, words);
		attr(tile.delta, 'title', title);
		attr(tile.delta, 'data-sense', sense > 0 ? 'good' : sense < 0 ? 'bad' : null);
	}
}

/** A difference of two shares, in percentage points. */
function points(difference) {
	const value = Math.round(difference * 1000) / 10;
	return value === 0 ? '±0 pts' : `${value > 0 ? '+' : '−'}${Math.abs(value)} pts`;
}
