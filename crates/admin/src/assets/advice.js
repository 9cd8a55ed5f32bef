// Advice on where the layer belongs: the reason, and the lines that fix it.

import { el, show, sync } from './dom.js';

/**
 * Adds cards before a node.
 * @param {HTMLElement} before
 * @returns {(list: { text: string, code: string }[]) => void} draws the advice
 */
export function adviceCards(before) {
	const node = el('div', 'stack');
	before.before(node);
	return (list) => {
		show(node, list.length > 0);
		sync(node, list, 'text', (one) => {
			const card = el('section', 'card nothing', el('p', '', `${one.text}:`), el('pre', '', one.code));
			card.dataset.panel = 'advice';
			return card;
		});
	};
}
