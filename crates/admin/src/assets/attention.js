// The list of ongoing changes, worst first.

import { cost, explanation, headline, level, since, sure, values, where } from './change.js';
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
		const { changes, judged_until: until, sight, hanging = [] } = log;
		const standing = log.standing + hanging.length;
		const stand = changes.filter((change) => change.stands);
		const ended = changes.filter((change) => !change.stands);
		const watched = log.watched
			.filter((page) => page.ratio >= 1.05)
			.map((page) => ({ ...page, kind: 'maybe slower', id: page.context }));
		const hang = hanging.map((page) => ({ ...page, kind: 'hanging', id: `${page.context} hanging` }));
		const shown = hang.concat(this.#all ? changes : stand.slice(0, SHOWN), watched);
		sync(this.#list, shown, 'id', create, (node, change) => update(node, change, now, this.#form));
		// Loads after the first paint. If that fails, the next answer tries again.
		if (stand.length && !this.#form) setTimeout(() => this.#load());
		const canJudge = until > 0 && sight?.compared > 0;
		const parts = [
			standing > 0 ? '' : 'Nothing is slower, failing or surging',
			`as of ${moment(until, now)}`,
			sight?.compared < sight?.contexts
				? `${sight.compared} of ${sight.contexts} pages have enough requests to be compared`
				: '',
			sight?.gaps > 0 ? `${plural(sight.gaps, 'minute')} missing` : '',
		];
		const early = 'Too early to tell: each page is compared with its own past';
		text(this.#note, standing > 0 || canJudge ? parts.filter(Boolean).join(' · ') : early);
		this.node.classList.toggle('is-calm', standing === 0 && canJudge);
		const hidden = Math.max(stand.length - SHOWN, 0);
		show(this.#more, this.#all || hidden + ended.length > 0);
		text(this.#more, this.#all ? 'Fewer' : hidden ? `All ${standing}` : 'Ended ones');
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
	const [label, name, start, change_, suspect, end] = node.children;
	attr(name, 'href', linkTo(change));
	attr(label, 'data-level', level(change));
	text(label, headline(change));
	if (change.kind === 'hanging') {
		const names = change.instances.map(visible).join(', ');
		return text(suspect, `${change.in_flight} in flight on ${names}, none ended for ${span(change.seconds)}`);
	}
	text(name.lastChild, where(change));
	text(start, change.ended ? `${moment(change.since, now)} to ${moment(change.ended, now)}` : since(change, now));
	node.classList.toggle('ended', !change.stands);
	if (change.kind === 'maybe slower') return;
	text(change_, `${values(change)}${cost(change)}`);
	text(suspect, explanation(change));
	text(end.firstChild, sure(change));
	if (form && !node.form) end.append((node.form = form()));
	node.form?.draw(change, now);
}
