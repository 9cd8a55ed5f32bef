// A deploy, or another mark: each path before and after it, and the new version beside the old one.

import { question } from './api.js';
import { card } from './card.js';
import { attr, el, show, sync, text } from './dom.js';
import { count, delta, duration, isNumber, moment, percent, plural, sense, span, visible } from './format.js';
import { Pager, allRows } from './pager.js';
import { send } from './send.js';
import { state } from './state.js';
import { Table, contextColumn, numberColumn } from './table.js';

const ROWS = 50;
const NO_MARKS =
	'No marks yet: Builder::app_version makes one with each deploy, and pulse.mark("…") or POST api/marks with any text';

export function mount(root, page) {
	const side = (name, label, id, format) =>
		numberColumn(`${id}_${name}`, label, format, { value: (row) => row[name]?.[id] });
	const table = new Table({
		name: 'deploy',
		caption: 'Paths before and after the mark',
		href: true,
		key: (row) => row.context,
		allRows: () => allRows(query, 'contexts'),
		columns: [
			contextColumn(),
			side('before', 'Mean before', 'mean', (value) => duration(value)),
			side('after', 'after', 'mean', (value) => duration(value)),
			{
				id: 'change',
				label: 'Change',
				value: (row) => row.change?.mean ?? null,
				draw(cell, row) {
					const ratio = row.change?.mean;
					text(cell, delta(ratio) || '–');
					attr(cell, 'data-sense', sense(ratio));
				},
			},
			{
				id: 'side_by_side',
				label: 'New beside old',
				title: 'The new version by the old one, in the same minutes',
				value: (row) => row.side_by_side?.ratio ?? null,
				draw(cell, row) {
					const ratio = row.side_by_side?.ratio;
					text(cell, isNumber(ratio) ? delta(ratio) : '–');
					attr(cell, 'data-sense', sense(ratio));
				},
			},
			side('before', 'p95 before', 'p95', (value) => duration(value)),
			side('after', 'after ', 'p95', (value) => duration(value)),
			side('before', 'Errors before', 'error_share', (value) => percent(value, 1)),
			side('after', 'after  ', 'error_share', (value) => percent(value, 1)),
			side('after', 'Requests after', 'count', count),
			numberColumn(
				'extra_seconds_per_minute',
				'Costs',
				(value) =>
					Math.abs(value) >= 0.001 ? `${value < 0 ? '−' : '+'}${duration(Math.abs(value))}/min` : '–',
				{ title: 'Service time per minute beyond what as many requests would have taken before' },
			),
		],
	});
	const [deploys, others] = ['Deploys', 'Other marks'].map((label) => Object.assign(el('optgroup'), { label }));
	const marks = el('select', '', deploys, others);
	attr(marks, 'aria-label', 'Mark');
	marks.addEventListener('change', () => page.go({ mark: marks.value, offset: 0 }));
	const note = el('p', 'calm');
	const pager = new Pager(page, ROWS);
	const query = (more) => question('deploy', { mark: state.mark, ...more });
	const removal = removeMark(page);
	const writes = page.config.may_write === true ? [removal.node, newMark(page)] : [];
	root.append(
		card('deploy', 'Before and after', { head: [marks, ...writes], parts: [note, table.node, pager.node] }),
	);
	return {
		questions: () => ({ deploy: query(pager.parameters()), marks: 'marks' }),
		draw({ deploy, marks: known }, now, { refused }) {
			const isDeploy = (mark) => Boolean(mark.version);
			for (const [group, of] of [
				[deploys, isDeploy],
				[others, (mark) => !isDeploy(mark)],
			]) {
				const some = (known?.marks ?? []).filter(of);
				sync(
					group,
					some,
					(mark) => mark.id,
					(mark) => {
						const option = el('option', '', `${moment(mark.at, now)} ${visible(mark.text)}`);
						option.value = mark.id;
						return option;
					},
					() => {},
				);
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
				`${between(before)} against ${since}`,
				`${plural(deploy.total, 'path')}${whole(before, 'before')}${whole(after, 'after')}`,
			];
			text(note, parts.join(' · '));
			table.draw(deploy.contexts, deploy.contexts.length ? '' : 'No requests before or after');
		},
	};
}

/** How much of a side was recorded, unless all of it was. */
const whole = (side, name) =>
	side && side.complete < 0.995 ? ` · ${percent(side.complete, 1)} of the time ${name} was recorded` : '';

/** Makes a mark with a text of one's own. */
function newMark(page) {
	const field = el('input', '');
	Object.assign(field, {
		type: 'text',
		maxLength: 80,
		placeholder: 'New mark, such as “new index”',
		autocomplete: 'off',
	});
	attr(field, 'aria-label', 'Text of a new mark');
	const button = el('button', 'button', 'Mark now');
	const form = el('form', 'field', field, button);
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

/** Removes the mark that is shown, after a second press. */
function removeMark(page) {
	const button = el('button', 'button quiet');
	let shown = null; // the mark that would be removed
	let isAsked = false; // whether the next press removes it
	const ask = (again, failure = '') => {
		isAsked = again;
		text(button, isAsked ? 'Really remove it?' : failure ? 'Not removed' : 'Remove');
		attr(button, 'aria-label', `${button.shownText} ${visible(shown?.text ?? '')}`);
		button.title = failure || 'Remove this mark, for everybody';
		button.classList.toggle('bad-text', isAsked || failure !== '');
	};
	button.addEventListener('click', async () => {
		if (!isAsked) return ask(true);
		button.disabled = true;
		try {
			await send('DELETE', `marks?${new URLSearchParams({ id: shown.id })}`);
			ask(false);
			page.go({ mark: '', offset: 0 });
		} catch (error) {
			ask(false, error.message);
		}
		button.disabled = false;
	});
	button.addEventListener('blur', () => ask(false));
	ask(false);
	return {
		node: button,
		/** Offers to remove a mark; `null`: none. */
		offer(mark) {
			const isOther = mark?.id !== shown?.id;
			shown = mark;
			if (isOther) ask(false);
			show(button, mark !== null);
		},
	};
}
