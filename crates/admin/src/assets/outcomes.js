// The mix of outcomes, as a bar.

import { attr, el, sync, text } from './dom.js';
import { count, percent } from './format.js';

const CLASSES = { '1xx': '2xx', completed: '2xx', panicked: 'error', body_aborted: 'cancelled', body_failed: 'error' };
const called = (outcome) => (outcome === 'error' ? 'failed' : outcome.replace('_', ' '));

export function drawOutcomes(root, { outcomes, count: all }) {
	if (!root.firstChild) root.append(el('h3', '', 'Outcomes'), el('div', 'mix'), el('p', 'delta'));
	const some = Object.entries(outcomes ?? {})
		.filter(([, n]) => n > 0)
		.sort((a, b) => b[1] - a[1]);
	sync(root.children[1], some, 0, 'span', (node, [name, n]) => {
		node.className = `fill c-${CLASSES[name] ?? name}`;
		node.style.flexGrow = n / all;
	});
	const words = some.slice(0, 3).map(([name, n]) => `${percent(n, all)} ${called(name)}`);
	text(root.lastChild, words.join(' · '));
	attr(root, 'title', some.map(([name, n]) => `${count(n)} ${called(name)}`).join(', '));
}
