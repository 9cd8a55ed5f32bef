// A path's usual requests at each hour of the week: a table of seven days and 24 hours, coloured by requests.

import { card } from './card.js';
import { attr, el, show, text } from './dom.js';
import { duration, percent, plural, rate } from './format.js';
import { state } from './state.js';
import { Table } from './table.js';

const DAYS = ['Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday', 'Sunday'];
const HOURS = 24;
const LEVELS = 5;
const STEPS = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
const NONE = 'not recorded';
const twoDigits = (hour) => String(hour).padStart(2, '0');

export function week() {
	let known = new Map(); // by hour of the week, in UTC
	let most = 0; // requests per hour
	let shift = 0; // the hours by which the shown time is ahead of UTC
	const at = (day, hour) => known.get((((day * HOURS + hour - shift) % 168) + 168) % 168);
	const hours = Array.from({ length: HOURS }, (_, hour) => ({
		id: `h${twoDigits(hour)}`,
		label: twoDigits(hour),
		value: ({ day }) => at(day, hour)?.requests ?? null,
		draw(cell, { day }) {
			const one = at(day, hour);
			if (!cell.firstChild) cell.append(el('span'), el('span', 'hidden'));
			const requests = one ? `${rate(one.requests)} requests per hour, ` : '';
			text(cell.firstChild, one ? rate(one.requests) : '·');
			text(cell.lastChild, `, ${figures(one)}`);
			attr(cell, 'title', `${DAYS[day]} ${twoDigits(hour)}:00, ${requests}${figures(one)}`);
			// The square root gives more colours to quiet hours.
			const level = one?.requests > 0 ? Math.ceil(Math.sqrt(one.requests / most) * LEVELS) : null;
			attr(cell, 'data-heat', level);
			cell.style.setProperty('--part', `${9 * level}%`);
			if (!cell.hasAttribute('tabindex')) cell.tabIndex = day + hour ? -1 : 0;
		},
	}));
	const table = new Table({
		name: 'week',
		caption: 'Requests per hour at each hour of the week',
		key: ({ day }) => DAYS[day],
		columns: [{ id: 'day', label: 'Day', value: ({ day }) => DAYS[day], text: ({ day }) => DAYS[day] }, ...hours],
	});
	const [readout, note] = [el('p', 'readout muted'), el('span', 'muted')];
	const node = card('week', 'Usual week', { head: [note], parts: [table.node, readout] });
	const read = ({ target }) =>
		text(readout, target.closest('td')?.title || 'Point at an hour, or use the arrow keys.');
	for (const type of ['pointerover', 'focusin', 'pointerleave']) table.table.addEventListener(type, read);
	read({ target: node });
	table.table.addEventListener('keydown', (event) => move(event, table.table));
	show(node, false);
	return {
		node,
		/** Draws an answer of `api/profile`; nothing until 24 hours of the week were recorded. */
		draw({ enough, hours: recorded }, now) {
			show(node, enough);
			if (!enough) return;
			known = new Map(recorded.map((one) => [one.hour, one]));
			most = Math.max(...recorded.map((one) => one.requests));
			const offset = state.utc ? 0 : -new Date(now * 1000).getTimezoneOffset() / 60;
			shift = Math.floor(offset);
			const zone = `UTC${shift ? `${shift > 0 ? '+' : '−'}${Math.abs(shift)}` : ''}`;
			const weeks = Math.max(...recorded.map((one) => one.weeks));
			const rounded = shift === offset ? '' : ', your time zone rounded down';
			const words = `mean requests per hour of ${plural(weeks, 'week')}, recent weeks weigh more`;
			text(note, `${words}; hours of ${zone}${rounded}`);
			table.draw(DAYS.map((_, day) => ({ day })));
		},
	};
}

/** The figures of an hour in words, without its requests. */
function figures(one) {
	if (!one) return NONE;
	const measured = `${percent(one.errors, one.requests)} errors, mean ${duration(one.mean)}, p95 ${duration(one.p95)}, `;
	const weeks = plural(one.weeks, `${one.weeks === 255 ? 'or more ' : ''}week`);
	return `${one.requests > 0 ? measured : ''}recorded in ${weeks}`;
}

/** Moves the focus from hour to hour. */
function move(event, table) {
	const cell = event.target.closest('td');
	const step = STEPS[event.key];
	if (!cell || !step) return;
	const next = table.rows[cell.parentNode.rowIndex + step[0]]?.cells[cell.cellIndex + step[1]];
	if (next?.tagName !== 'TD') return;
	event.preventDefault();
	[cell.tabIndex, next.tabIndex] = [-1, 0];
	next.focus();
}
