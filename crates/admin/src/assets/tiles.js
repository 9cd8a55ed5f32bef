// The tiles: what a window measured, each with its change against the window before.

import { attr, el, show, text } from './dom.js';
import { config } from './state.js';
import { NONE, count, delta, duration, grouped, isNumber, moment, percent, plural, rate, sense } from './format.js';

const { requests, p99 } = config.enough;

/** Fewest requests of which a statistic says something. */
export const ENOUGH = {
	mean: requests,
	p50: requests,
	p95: requests,
	p99,
	errors: requests,
	target: requests,
	error_share: requests,
};

// `better`: whether more is better (1), worse (-1) or neither (0).
const TILES = [
	{
		name: 'requests',
		label: 'Requests',
		better: 0,
		value: (w) => w.count,
		format: count,
		exact: grouped,
		of: 'count',
		beside: (w) => `${rate(w.per_second)}/s`,
	},
	{ name: 'mean', label: 'Mean', better: -1, format: duration },
	{ name: 'p50', label: 'p50', better: -1, format: duration, isPercentile: true },
	{ name: 'p95', label: 'p95', better: -1, format: duration, isPercentile: true },
	{ name: 'p99', label: 'p99', better: -1, format: duration, isPercentile: true },
	{
		name: 'errors',
		label: 'Errors',
		better: -1,
		value: (w) => w.error_share,
		format: (share) => percent(share, 1),
		note: (w) => plural(w.errors, 'error'),
		isShare: true,
	},
	{
		name: 'target',
		label: 'Below target',
		better: 1,
		value: (w) => w.below_target,
		format: (share) => percent(share, 1),
		isShare: true,
	},
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
			const value = read(window);
			const old = before && !tile.isNow ? read(before) : null;
			const few = ENOUGH[tile.name] > window.count && window.count > 0;
			show(tile.node, tile.name !== 'target' || isNumber(target));
			if (tile.name === 'target' && isNumber(target)) {
				text(tile.node.firstChild, `Below ${duration(target, true)}`);
				attr(tile.node, 'title', `Requests that succeeded within ${duration(target, true)}`);
			}
			text(tile.figure, isNumber(value) ? tile.format(value) : NONE);
			attr(tile.figure, 'title', isNumber(value) && tile.exact ? tile.exact(value) : null);
			tile.node.classList.toggle('few', few);
			if (tile.isPercentile) {
				const error = window.error >= 0.005 && window.count > 0 ? ` ±${percent(window.error, 1)}` : '';
				text(tile.node.firstChild, `${tile.label}${error}`);
				attr(
					tile.node,
					'title',
					error
						? `Percentiles are read from a histogram: within${error} of the exact value in this range`
						: null,
				);
			}
			this.#drawDelta(tile, { value, old, window, few, length, now });
		}
	}

	#drawDelta(tile, { value, old, window, few, length, now }) {
		const { before } = window;
		const ratio = window.change?.[tile.of ?? tile.name]; // counts are compared per recorded second
		let words = '';
		let side = 0;
		let title = null;
		if (tile.isNow) words = 'now';
		else if (few) words = `only ${plural(window.count, 'request')}`;
		else if (
			isNumber(ratio) ||
			(tile.isShare && isNumber(window.change?.mean) && isNumber(value) && isNumber(old))
		) {
			words = tile.isShare ? points(value - old) : delta(ratio);
			const isClear = tile.isShare ? Math.abs(value - old) >= 0.001 : sense(ratio) !== null;
			side = isClear ? (tile.isShare ? Math.sign(value - old) : Math.sign(ratio - 1)) * tile.better : 0;
			const part = before.complete < 0.995 ? `, of which ${percent(before.complete, 1)} was recorded` : '';
			const when = `${moment(before.from, now)} – ${moment(before.to, now)}`;
			title = `${tile.format(old)} in the ${length} before, ${when}${part}`;
			if (before.complete < 0.995) words = `≈ ${words}`;
		} else if (tile.note) words = tile.note(window);
		text(tile.delta, [tile.beside?.(window), words].filter(Boolean).join(' · '));
		attr(tile.delta, 'title', title);
		attr(tile.delta, 'data-sense', side > 0 ? 'good' : side < 0 ? 'bad' : null);
	}
}

/** A difference of two shares, in percentage points. */
function points(difference) {
	const value = Math.round(difference * 1000) / 10;
	return value === 0 ? '±0 pts' : `${value > 0 ? '+' : '−'}${Math.abs(value)} pts`;
}
