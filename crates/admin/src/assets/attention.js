// The list of problems, worst first.

import { TOO_EARLY, cost, explanation, headline, level, since, sure, values, where } from './change.js';
import { card } from './card.js';
import { contextParts } from './context.js';
import { attr, button, el, retried, show, sync, text } from './dom.js';
import { moment, plural, span, visible } from './format.js';
import { linkTo } from './table.js';

const SHOWN = 5;

export class Attention {
	#note = el('p', 'calm');
	#list = el('ul', 'changes');
	#more = button('', () => {
		this.#all = !this.#all;
		this.draw(...this.last);
	});
	#all = false;
	#form = null; // makes the button that acknowledges a change

	constructor(page) {
		this.page = page;
		this.node = card('attention', 'Needs attention', { head: [this.#note, this.#more], parts: [this.#list] });
		show(this.#more, false);
	}

	draw(log, now) {
		this.last = [log, now];
		const { changes, judged_until: until, coverage, hanging = [] } = log;
		const count = log.ongoing + hanging.length;
		const ongoing = changes.filter((change) => change.is_ongoing);
		const ended = changes.filter((change) => !change.is_ongoing);
		const watched = log.watched
			.filter((page) => page.ratio >= 1.05)
			.map((page) => ({ ...page, kind: 'maybe slower', id: page.context }));
		const hang = hanging.map((page) => ({ ...page, kind: 'hanging', id: `${page.context} hanging` }));
		const shown = hang.concat(this.#all ? changes : ongoing.slice(0, SHOWN), watched);
		sync(this.#list, shown, 'id', create, (node, change) => update(node, change, now, this.#form));
		// The form loads after the first paint. If loading fails, the next answer tries again.
		if (ongoing.length && !this.#form) setTimeout(() => this.#load());
		const canJudge = until > 0 && coverage?.compared > 0;
		const parts = [
			count > 0 ? '' : 'No change is ongoing',
			`as of ${moment(until, now)}`,
			coverage?.compared < coverage?.contexts
				? `${coverage.compared} of ${coverage.contexts} pages have enough requests to be compared`
				: '',
			coverage?.gaps > 0 ? `${plural(coverage.gaps, 'minute')} of the last hour without a request` : '',
		];
		text(this.#note, count > 0 || canJudge ? parts.filter(Boolean).join(' · ') : TOO_EARLY);
		this.node.classList.toggle('is-calm', count === 0 && canJudge);
		const hidden = Math.max(ongoing.length - SHOWN, 0);
		show(this.#more, this.#all || hidden + ended.length > 0);
		text(this.#more, this.#all ? 'Fewer' : hidden ? `All ${count}` : 'Ended changes');
		show(this.#list, shown.length > 0);
	}

	#load() {
		retried((retry) => import('./acknowledge.js' + retry)).then(
			({ acknowledgement }) => {
				this.#form ??= () => acknowledgement(this.page);
				this.draw(...this.last);
			},
			() => {},
		);
	}
}

function create(change) {
	const name = el('a', 'open', ...contextParts({ ...change, kind: 'http' }), el('span', 'muted'));
	const parts = ['since', 'values', 'suspect', 'sure muted'].map((part) => el('span', part));
	const end = el('span', 'end', parts.pop());
	const node = el('li', '', el('span', 'change'), name, ...parts, end);
	Object.assign(node.dataset, { kind: change.kind, context: change.context });
	return node;
}

function update(node, change, now, form) {
	const [label, name, start, effect, suspect, end] = node.children;
	attr(name, 'href', linkTo(change));
	attr(label, 'data-level', level(change));
	text(label, headline(change));
	if (change.kind === 'hanging') {
		const names = change.instances.map(visible).join(', ');
		return text(suspect, `${change.in_flight} in flight on ${names}, none ended for ${span(change.seconds)}`);
	}
	text(name.lastChild, where(change));
	text(start, change.ended ? `${moment(change.since, now)} to ${moment(change.ended, now)}` : since(change, now));
	node.classList.toggle('ended', !change.is_ongoing);
	if (change.kind === 'maybe slower') return;
	text(effect, `${values(change)}${cost(change)}`);
	text(suspect, explanation(change));
	text(end.firstChild, sure(change));
	if (form && !node.form) end.append((node.form = form()));
	node.form?.draw(change, now);
}
