// Reads a chart over time, and selects a range of it, by pointer or keys.

import { readout, when } from './chart_readout.js';
import { attr, el, labelled, show } from './dom.js';

const DRAG = 4; // pixels that a pointer moves before its press counts as a drag

/**
 * `view` is the content of a TimeChart: { plot, state, slices, box, x, swatch }. Returns the function that redraws the
 * tooltip.
 */
export function connectPointer(view, cursor) {
	const { plot } = view;
	const tip = plot.appendChild(el('div', 'tip'));
	let press = null; // { x, at } where the pointer went down
	let anchor = null; // where the selection began, in Unix seconds
	plot.tabIndex = 0;
	attr(plot, 'aria-valuemin', 1);

	const sliceAt = (at) =>
		at === null ? undefined : view.slices[Math.floor((at - view.slices[0]?.start) / view.state.precision)];

	function redraw() {
		const { slices, state, x } = view;
		const { at, range, owner } = cursor;
		const slice = x && sliceAt(at);
		const own = owner === view && Boolean(slice);
		const shown = slice ?? slices.at(-1);
		const layer = state?.layer;
		show(tip, own && !layer);
		layer?.pointAt(own ? slice : null);
		// The crosshair is a slider: arrow keys move it from slice to slice.
		labelled(plot, `${view.title} over time${layer ? ': a heat map' : ''}`, 'slider');
		attr(plot, 'aria-valuemax', slices.length || 1);
		attr(plot, 'aria-valuenow', slices.indexOf(shown) + 1 || 1);
		if (!shown) return attr(plot, 'aria-valuetext', 'no data');
		const title = when(state, shown);
		const { rows, notes } = readout(state, shown);
		if (range) {
			const edges = range.map((edge) => state.clock(edge, 'second', state.utc)).join(' – ');
			notes.push(`${edges} selected${press ? '' : ', press Enter to zoom'}`);
		}
		const said = rows.map(({ label, value, extra }) => `${label} ${value} ${extra}`.trim());
		attr(plot, 'aria-valuetext', [title, ...said, ...notes].join('; '));
		if (!own) return;
		const lines = rows.map(({ key, label, value, extra, few }) => {
			const parts = [el('span', '', label), el('span', 'value', value), el('span', 'extra', extra)];
			return el('div', few ? 'few' : '', key ? view.swatch(key) : el('i'), ...parts);
		});
		const box = layer?.node ?? tip; // a tooltip would cover the cells of a heat map
		box.replaceChildren(el('b', '', title), ...lines, ...notes.map((note) => el('p', '', note)));
		const middle = (x(slice.start) + x(slice.end)) / 2;
		const width = tip.offsetWidth;
		tip.style.left = `${Math.max(middle + 14 + width > plot.clientWidth ? middle - 14 - width : middle + 14, 0)}px`;
	}

	function timeAt({ clientX }) {
		const { from, to, precision } = view.state;
		const { left, right } = view.box;
		const share = (clientX - plot.getBoundingClientRect().left - left) / (right - left);
		return Math.max(from, Math.min(from + share * (to - from), to - precision / 1000));
	}

	/** The range of whole slices between the start of the selection and `at`. */
	function span(at) {
		if (anchor === null) return null;
		const { precision } = view.state;
		const start = (edge) => Math.floor(edge / precision) * precision;
		return [start(Math.min(anchor, at)), start(Math.max(anchor, at)) + precision];
	}

	/** Ends the selection. */
	function clear(at) {
		press = null;
		anchor = null;
		cursor.move(at, null, at === null ? null : view);
	}

	function zoom() {
		const { range } = cursor;
		clear(cursor.at);
		view.onZoom(...range);
	}

	const on = (type, listener) => plot.addEventListener(type, (event) => view.x && listener(event));
	on('pointerdown', (event) => {
		if (event.button !== 0) return;
		anchor = null;
		press = { x: event.clientX, at: timeAt(event) };
		view.state.layer?.toHeight(event.clientY - plot.getBoundingClientRect().top);
		cursor.move(press.at, null, view);
	});
	on('pointermove', (event) => {
		if (press && !event.buttons) clear(null); // the button was released outside
		if (press && anchor === null && Math.abs(event.clientX - press.x) > DRAG) {
			anchor = press.at;
			plot.setPointerCapture(event.pointerId);
		}
		const at = timeAt(event);
		view.state.layer?.toHeight(event.clientY - plot.getBoundingClientRect().top);
		cursor.move(at, press ? span(at) : cursor.range, view);
	});
	on('pointerup', () => {
		if (press && anchor !== null) zoom();
		else if (press) view.state.layer?.select(sliceAt(press.at));
		press = null;
	});
	on('pointercancel', () => clear(null)); // the page scrolls instead
	on('pointerleave', (event) => event.pointerType !== 'touch' && !press && cursor.move(null, cursor.range, null));
	on('blur', () => clear(null));
	on('focus', () => {
		const whole = view.slices.findLast(({ end }) => end <= view.state.now) ?? view.slices.at(-1);
		if (plot.matches(':focus-visible')) cursor.move(whole.start, null, view);
	});
	on('keydown', (event) => {
		if (event.ctrlKey || event.altKey || event.metaKey) return; // Alt and an arrow go back or forward
		const last = view.slices.length - 1;
		const current = sliceAt(cursor.at);
		const at = current ? view.slices.indexOf(current) : last + 1;
		const [before, after] = [at - 1, at + 1];
		const targets = { ArrowLeft: before, ArrowDown: before, ArrowRight: after, ArrowUp: after, Home: 0, End: last };
		const to = targets[event.key];
		const { layer } = view.state;
		if (layer && current && /^Arrow(Up|Down)$/.test(event.key)) {
			layer.moveRow(event.key === 'ArrowUp' ? 1 : -1, current);
			cursor.move(current.start, cursor.range, view);
		} else if (to !== undefined) {
			const { start } = view.slices[Math.min(Math.max(to, 0), last)];
			anchor = event.shiftKey ? (anchor ?? current?.start ?? start) : null;
			cursor.move(start, span(start), view);
		} else if (event.key === 'Enter' && cursor.range) zoom();
		else if (event.key === 'Enter' && layer && current) layer.select(current);
		else if (event.key === 'Escape' && cursor.range) clear(cursor.at);
		else return;
		event.preventDefault();
		event.stopPropagation();
	});
	return redraw;
}
