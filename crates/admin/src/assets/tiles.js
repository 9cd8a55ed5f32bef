// The tiles: the figures of a window, each with its change against the window before.

import { attr, el, labelled, show, text } from './dom.js';
import { againstName, config, isZoomed, state } from './state.js';
import { NONE, count, delta, duration, grouped, isNumber, moment, perUnit, percent } from './format.js';
import { plural, rateOf, sense } from './format.js';

const { requests, p99 } = config.enough;

/** The fewest requests for which each statistic is meaningful. */
export const ENOUGH = { mean: requests, p50: requests, p95: requests, p99, errors: requests, target: requests };
const share = (part) => percent(part, 1);

/**
 * `better`: whether more is better (1), worse (-1) or neither (0).
 * @type {any[]}
 */
const TILES = [
	{ name: 'requests', of: 'count', label: 'Requests', better: 0, format: count },
	{ name: 'mean', of: 'mean', label: 'Mean', better: -1, format: duration },
	{ name: 'queue', of: 'queue', label: 'In the queue', better: -1, format: duration },
	...['p50', 'p95', 'p99'].map((of) => ({ name: of, of, label: of, better: -1, format: duration })),
	{ name: 'errors', of: 'error_share', label: 'Errors', better: -1, format: share, isShare: true },
	{ name: 'target', of: 'below_target', label: 'Below target', better: 1, format: share, isShare: true },
	{ name: 'in-flight', of: 'in_flight', label: 'In flight', better: 0, format: grouped, isNow: true },
];

export class Tiles {
	constructor(names = TILES.map((tile) => tile.name)) {
		this.tiles = TILES.filter((tile) => names.includes(tile.name)).map((tile) => {
			const [figure, delta] = [el('p', 'value', NONE), el('p', 'delta')];
			const node = el('div', 'tile', el('h3', '', tile.label), figure, delta);
			node.dataset.tile = tile.name;
			return { ...tile, figure, delta, node };
		});
		this.node = labelled(el('section', 'card tiles', ...this.tiles.map((tile) => tile.node)), 'Statistics');
	}

	/** Sets the noun of the counted samples, such as "Runs". */
	name(noun) {
		for (const { node } of this.tiles) text(node.firstChild, node.firstChild.textContent.replace('Requests', noun));
	}

	/**
	 * `length`: the name of the range; `longer`: the change that makes requests wait longer in the queue.
	 * @param {any} figures the figures of the window, and of the time before; their times exclude the wait in `queue`
	 * @param {any} about
	 */
	draw({ queue, ...given }, { now, target, length, longer }) {
		const { mean: wait = null, change: by } = queue ?? {};
		const before = given.before && { ...given.before, queue: wait / by };
		const window = { ...given, before, queue: wait, change: { ...given.change, queue: by } };
		const optional = { target, queue: wait };
		if (!isNumber(window.count)) throw new TypeError('window.count');
		for (const tile of this.tiles) {
			const value = (tile.name === 'queue' && longer?.now) || window[tile.of];
			const old = before && !tile.isNow ? before[tile.of] : null;
			const few = ENOUGH[tile.name] > window.count && window.count > 0;
			const isThere = !(tile.name in optional) || isNumber(optional[tile.name]);
			show(tile.node, isThere && !(tile.isNow && isZoomed()));
			if (tile.name === 'target' && isNumber(target)) {
				text(tile.node.firstChild, `Below ${duration(target, true)}`);
				attr(tile.node, 'title', `Requests that succeeded within ${duration(target, true)}`);
			}
			text(tile.figure, isNumber(value) ? tile.format(value) : NONE);
			attr(tile.figure, 'title', isNumber(value) && tile.name === 'requests' ? grouped(value) : null);
			tile.node.classList.toggle('few', few);
			if (/^p\d/.test(tile.name)) {
				const error = window.error >= 0.005 && window.count > 0 ? ` ±${percent(window.error, 1)}` : '';
				const title = `From a histogram: within${error} of the exact value`;
				text(tile.node.firstChild, `${tile.label}${error}`);
				attr(tile.node, 'title', error ? title : null);
			}
			this.#drawDelta(tile, { value, old, window, few, length, now, longer });
		}
	}

	#drawDelta(tile, { value, old, window, few, length, now, longer }) {
		const { before } = window;
		const ratio = window.change?.[tile.of]; // counts are compared per recorded second
		let words = '';
		let side = 0;
		let title = null;
		if (tile.isNow) words = 'now';
		else if (tile.name === 'queue' && longer) {
			words = `+${duration(longer.now - longer.then)} since ${moment(longer.since, now)}`;
			title = `${duration(window.queue)} in the whole ${length}`;
			side = -1;
		} else if (few) words = `only ${plural(window.count, 'sample')}`;
		else if (tile.isShare ? isNumber(window.change?.mean) && isNumber(value) && isNumber(old) : isNumber(ratio)) {
			const by = tile.isShare ? value - old : ratio - 1;
			words = tile.isShare ? points(by) : delta(ratio);
			const isClear = tile.isShare ? Math.abs(by) >= 0.001 : sense(ratio) !== null;
			side = isClear ? Math.sign(by) * tile.better : 0;
			const part = before.complete < 0.995 ? `, of which ${percent(before.complete, 1)} was recorded` : '';
			const when = `${moment(before.from, now)} – ${moment(before.to, before.from)}`;
			title = `${tile.format(old)} ${againstName(`in the ${length} before`)}, ${when}${part}`;
			if (before.complete < 0.995) words = `≈ ${words}`;
		} else if (tile.name === 'errors') words = plural(window.errors, 'error');
		const beside = tile.name === 'requests' && perUnit(rateOf(window.per_second, 1));
		text(tile.delta, [beside, words].filter(Boolean).join(' · '));
		attr(tile.delta, 'title', title);
		// The figures of many paths also fall when more requests are for fast paths, which is no success.
		const isGood = side > 0 && state.screen === 'path';
		attr(tile.delta, 'data-sense', isGood ? 'good' : side < 0 ? 'bad' : null);
	}
}

/** The difference of two shares, in percentage points. */
function points(difference) {
	const value = Math.round(difference * 1000) / 10;
	return value === 0 ? '±0 pts' : `${value > 0 ? '+' : '−'}${Math.abs(value)} pts`;
}
