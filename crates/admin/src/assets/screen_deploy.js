// A deploy, or another mark: each path before and after it, and the new version beside the old one.

import { question, send } from './api.js';
import { card } from './card.js';
import { button, el, labelled, show, sync, text } from './dom.js';
import { duration, moment, perUnit, percent, plural, rateOf, span, visible } from './format.js';
import { Pager, allRows } from './pager.js';
import { isZoomed, seconds, state } from './state.js';
import { Table, contextColumn, numberColumn, ratioColumn } from './table.js';

const ROWS = 50;
const NO_MARKS = 'No marks yet: Builder::app_version, pulse.mark("…") and POST api/marks add marks';

export function mount(root, page) {
	const side = (name, label, id, format) =>
		numberColumn(`${id}_${name}`, label, format, { value: (row) => row[name]?.[id] });
	const share = (part) => percent(part, 1);
	const cost = (value) => `${value < 0 ? '−' : '+'}${duration(Math.abs(value))}/min`;
	const table = new Table({
		name: 'deploy',
		caption: 'Paths before and after the mark',
		href: true,
		figures: ['change', 'extra_seconds_per_minute'],
		key: (row) => row.context,
		allRows: async () => [all, ...(await allRows(query, 'contexts'))].filter(Boolean),
		columns: [
			contextColumn(),
			side('before', 'Mean before', 'mean', duration),
			side('after', 'after', 'mean', duration),
			ratioColumn('change', 'Change', { value: (row) => row.change?.mean ?? null }),
			ratioColumn('side_by_side', 'New vs. old', {
				title: 'The new version’s mean ÷ the old version’s mean in the same minutes',
				value: (row) => row.side_by_side?.ratio ?? null,
			}),
			side('before', 'p95 before', 'p95', duration),
			side('after', 'after ', 'p95', duration),
			side('before', 'Errors before', 'error_share', share),
			side('after', 'after  ', 'error_share', share),
			side('after', 'Requests after', 'per_second', (n) => perUnit(rateOf(n, 1))),
			numberColumn('extra_seconds_per_minute', 'Costs', (n) => (Math.abs(n) >= 0.001 ? cost(n) : '–'), {
				title: 'Extra service time per minute for the same number of requests',
			}),
		],
	});
	const [deploys, others] = ['Deploys', 'Other marks'].map((label) => Object.assign(el('optgroup'), { label }));
	const marks = labelled(el('select', '', deploys, others), 'Mark');
	marks.addEventListener('change', () => page.go({ mark: marks.value, offset: 0 }));
	const note = el('p', 'calm');
	const pager = new Pager(page, ROWS);
	let all = null; // the row of all paths together
	let newest = ''; // the newest deploy of the range, or the newest mark if it has no deploy
	const query = (more) => question('deploy', { mark: state.mark || newest, ...more });
	const removal = removeMark(page);
	const writes = page.config.may_write === true ? [removal.node, newMark(page)] : [];
	const parts = [note, table.node, pager.node];
	root.append(card('deploy', 'Before and after', { head: [marks, ...writes], parts }));
	return {
		questions: () => ({ deploy: query(pager.parameters()), marks: 'marks' }),
		draw({ deploy, marks: known }, now, { refused }) {
			const stored = known?.marks ?? [];
			const [from, to] = isZoomed() ? [state.from, state.to] : [now - seconds(), now + 60];
			const ofRange = stored.filter(({ at }) => at >= from && at < to);
			const listed = stored.filter((mark) => ofRange.includes(mark) || mark.id === deploy?.mark.id);
			const first = (ofRange.find((mark) => mark.version) ?? ofRange[0])?.id ?? '';
			if (first !== newest) page.ask();
			newest = first;
			for (const group of [deploys, others]) {
				const some = listed.filter((mark) => Boolean(mark.version) === (group === deploys));
				sync(group, some, 'id', 'option', (option, mark) => {
					text(option, `${moment(mark.at, now)} ${visible(mark.text)}`);
					option.value = mark.id;
				});
				show(group, some.length > 0);
			}
			removal.offer(deploy?.mark ?? null);
			if (!deploy) {
				table.draw([], known?.marks.length === 0 ? NO_MARKS : (refused.deploy ?? ''));
				return;
			}
			if (!pager.draw(deploy.contexts.length, deploy.total)) return;
			marks.value = deploy.mark.id;
			const { before, after } = deploy;
			const between = (side) => `${moment(side.from, now)}–${moment(Math.min(side.to, now), now)}`;
			const since = after ? between(after) : 'nothing yet: no whole minute has passed';
			const parts = [
				`${visible(deploy.mark.text)}, ${span(now - deploy.mark.at)} ago`,
				ofRange.length < stored.length && `${ofRange.length} of ${plural(stored.length, 'mark')} in this range`,
				`${between(before)} compared with ${since}`,
				`${plural(deploy.total, 'path')}${whole(before, 'before')}${whole(after, 'after')}`,
			];
			text(note, parts.filter(Boolean).join(' · '));
			all = deploy.all;
			const rows = state.offset > 0 ? deploy.contexts : [all, ...deploy.contexts];
			table.draw(deploy.total ? rows : [], deploy.total ? '' : 'No requests before or after');
		},
	};
}

/** The recorded part of a side, unless it is complete. */
const whole = (side, name) =>
	side && side.complete < 0.995 ? ` · ${name}: ${percent(side.complete, 1)} of the time recorded` : '';

/** The form that adds a mark with a text of the user's own. */
function newMark(page) {
	const field = labelled(el('input'), 'Text of a new mark');
	const placeholder = 'New mark';
	Object.assign(field, { type: 'text', maxLength: 80, placeholder, autocomplete: 'off' });
	const form = el('form', 'field', field, el('button', 'button', 'Mark now'));
	form.addEventListener('submit', async (event) => {
		event.preventDefault();
		if (!field.value.trim()) return;
		try {
			const mark = await send('POST', 'marks', { text: field.value });
			field.value = '';
			field.setCustomValidity('');
			page.go({ mark: mark.id, offset: 0 });
		} catch (error) {
			field.setCustomValidity(error.message);
			field.reportValidity();
		}
	});
	field.addEventListener('input', () => field.setCustomValidity(''));
	return form;
}

/** The button that removes the shown mark, after a second press. */
function removeMark(page) {
	let shown = null; // the mark that would be removed
	let isAsked = false; // whether the next press removes it
	const ask = (again, failure = '') => {
		isAsked = again;
		text(node, isAsked ? 'Really remove it?' : failure ? 'Not removed' : 'Remove');
		labelled(node, `${node.shownText} ${visible(shown?.text ?? '')}`);
		node.title = failure || 'Remove this mark, for everyone';
		node.classList.toggle('bad-text', isAsked || failure !== '');
	};
	const node = button('', async () => {
		if (!isAsked) return ask(true);
		node.disabled = true;
		try {
			await send('DELETE', `marks?${new URLSearchParams({ id: shown.id })}`);
			ask(false);
			page.go({ mark: '', offset: 0 });
		} catch (error) {
			ask(false, error.message);
		}
		node.disabled = false;
	});
	node.addEventListener('blur', () => ask(false));
	ask(false);
	return {
		node,
		/** Offers to remove a mark; `null` offers nothing. */
		offer(mark) {
			const isOther = mark?.id !== shown?.id;
			shown = mark;
			if (isOther) ask(false);
			show(node, mark !== null);
		},
	};
}
