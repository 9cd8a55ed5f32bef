// The list of ongoing changes, worst first.

import { cost, explanation, headline, level, since, sure, takenBy, values, where } from './change.js';
import { card } from './card.js';
import { contextParts } from './context.js';
import { attr, button, el, show, sync, text } from './dom.js';
import { moment, plural } from './format.js';
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

	constructor() {
		this.node = card('attention', 'Needs attention', { head: [this.#note, this.#more], parts: [this.#list] });
		show(this.#more, false);
	}

	draw(log, now) {
		this.last = [log, now];
		const { changes, judged_until: until, standing, sight } = log;
		const stand = changes.filter((change) => change.stands);
		const ended = changes.filter((change) => !change.stands);
		const watched = log.watched.map((page) => ({ ...page, kind: 'maybe slower', id: page.context }));
		const shown = (this.#all ? changes : stand.slice(0, SHOWN)).concat(watched);
		sync(this.#list, shown, 'id', create, (node, change) => update(node, change, now));
		const canJudge = until > 0 && sight?.compared > 0;
		const parts = [
			standing > 0 ? '' : 'Nothing is slower, failing or surging',
			`as of ${moment(until, now)}`,
			sight?.compared < sight?.contexts
				? `${sight.compared} of ${sight.contexts} pages have enough requests`
				: '',
			sight?.gaps > 0 ? `${plural(sight.gaps, 'minute')} missing` : '',
		];
		const early = 'Too early to tell: each page is compared with its own past';
		text(this.#note, standing > 0 || canJudge ? parts.filter(Boolean).join(' · ') : early);
		this.node.classList.toggle('is-calm', standing === 0 && canJudge);
		const hidden = Math.max(stand.length - SHOWN, 0);
		show(this.#more, this.#all || hidden + ended.length > 0);
		text(this.#more, this.#all ? 'Fewer' : hidden ? `All ${standing}, and the past` : 'What has ended');
		show(this.#list, shown.length > 0);
	}
}

function create(change) {
	const name = el('a', 'open', ...contextParts({ ...change, kind: 'http' }), el('span', 'muted'));
	const parts = ['since', 'values', 'suspect', 'sure muted'].map((part) => el('span', part));
	const node = el('li', '', el('span', 'change'), name, ...parts);
	Object.assign(node.dataset, { kind: change.kind, context: change.context });
	return node;
}

function update(node, change, now) {
	const [label, name, start, change_, suspect, certainty] = node.children;
	attr(name, 'href', linkTo(change));
	text(name.lastChild, where(change));
	text(start, change.ended ? `${moment(change.since, now)} to ${moment(change.ended, now)}` : since(change, now));
	node.classList.toggle('ended', !change.stands);
	text(label, headline(change));
	if (change.kind === 'maybe slower') return;
	attr(label, 'data-level', change.taken ? 'taken' : level(change));
	text(change_, `${values(change)}${cost(change)}`);
	text(suspect, explanation(change));
	text(certainty, [sure(change), takenBy(change, now)].filter(Boolean).join(' · '));
}
