// The choice of the time that the range is compared with. Loaded after the first paint.

import { $, el, labelled, show, text } from './dom.js';
import { moment, percent, span } from './format.js';
import { isZoomed, seconds, state } from './state.js';

const CHOICES = { '': 'the time before', yesterday: 'yesterday', week_ago: 'a week ago', begin: 'choose…' };
const SCREENS = ['overview', 'paths', 'path', 'timers']; // screens that compare

/**
 * Adds the choice. Returns a function that draws it: `before` is the time that the shown answer compares with.
 * @param {{go(values: object, inPlace?: boolean): void}} page
 */
export function against(page) {
	const options = Object.entries(CHOICES).map(([value, label]) => new Option(label, value));
	const choice = el('select', '', ...options);
	const begin = labelled(el('input'), 'Start of the time to compare with');
	begin.type = 'datetime-local';
	const compared = el('span');
	const node = el('div', 'field', el('label', 'field', el('span', '', 'Against'), choice), begin, compared);
	[node.id, choice.id, begin.id, compared.id] = ['compare', 'against', 'begin', 'compared'];
	$('complete').before(node);
	choice.addEventListener('change', () => {
		const before = (isZoomed() ? state.from : Date.now() / 1000 - seconds()) - seconds();
		const own = String(Math.floor(before / 60) * 60);
		page.go({ against: choice.value === 'begin' ? own : choice.value, offset: 0 });
	});
	const offset = (unix) => (state.utc ? 0 : new Date(unix * 1000).getTimezoneOffset() * 60);
	begin.addEventListener('change', () => {
		const local = begin.valueAsNumber / 1000;
		if (local > 0) page.go({ against: String(local + offset(local)), offset: 0 }, true);
	});
	return (before, now) => {
		show(node, SCREENS.includes(state.screen));
		const unix = Number(state.against);
		choice.value = unix ? 'begin' : state.against;
		show(begin, unix > 0);
		if (unix) begin.valueAsNumber = (unix - offset(unix)) * 1000;
		text(compared, before && state.against ? named(before, now) : '');
	};
}

/** The time that the range is compared with. Old slices are wide, so this time may be longer than the range. */
function named({ from, to, recorded_seconds: recorded }, now) {
	const widened = to - from > seconds() + 120 ? `widened to ${span(to - from)}: ` : '';
	const part = recorded / (to - from);
	const gap = part > 0 ? `only ${percent(part, 1)} recorded` : 'not recorded';
	return `${widened}${moment(from, now)} – ${moment(to, from)}${part < 0.95 ? `, ${gap}` : ''}`;
}
