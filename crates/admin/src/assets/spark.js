// A small chart of a number over time, without axes.

import { attr, svg } from './dom.js';

const WIDTH = 96;
const HEIGHT = 22;

/** Rows with the values of their series, except the last slice if it has not ended. */
export function ended(rows, series, asOf) {
	const end = series?.to > asOf ? -1 : undefined;
	return rows.map((row) => ({ ...row, ended: (row.series ?? []).slice(0, end) }));
}

/** A column that draws the values in a row of `ended`. */
export const sparkColumn = (label) => ({
	id: 'series',
	label,
	draw(cell, row) {
		if (!cell.firstChild) cell.append(svg('svg', { class: 'spark', 'aria-hidden': 'true' }));
		spark(cell.firstChild, row.ended);
	},
});

/** Draws `[value or null, …]` into an `<svg class="spark">`, from zero up. */
function spark(picture, values) {
	if (!picture.firstChild) picture.append(svg('path'));
	attr(picture, 'viewBox', `0 0 ${WIDTH} ${HEIGHT}`);
	const scale = (HEIGHT - 4) / (Math.max(...values, 0) || 1);
	const step = WIDTH / Math.max(values.length - 1, 1);
	const point = (value, i) => {
		if (value === null) return '';
		const command = (values[i - 1] ?? null) === null ? 'M' : 'L';
		return `${command}${(i * step).toFixed(1)} ${(HEIGHT - 1.5 - value * scale).toFixed(1)}h.01`;
	};
	const line = values.map(point).join('');
	const gaps = values.includes(null) || !line;
	attr(picture.firstChild, 'class', gaps ? 'gaps' : null);
	// A line without gaps is the upper edge of an area. The other edges lie outside the picture.
	attr(picture.firstChild, 'd', gaps ? line : `${line.replace('M0.0 ', 'M-3 25V')}H99V25`);
}
