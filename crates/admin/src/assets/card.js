// Cards: the titled sections of a screen, advice, and the data that the screen's menu can export.

import { el, show, sync } from './dom.js';

/** A section with a heading. The nodes in `head` are beside the heading, and those in `parts` follow it. */
export function card(panel, title, { head = [], parts = [] } = {}) {
	const heading = el('h2', '', title);
	const node = el('section', 'card', el('div', 'bar', heading, el('span', 'grow'), ...head), ...parts);
	node.dataset.panel = panel;
	heading.id = `${panel}-title`;
	node.setAttribute('aria-labelledby', heading.id);
	return node;
}

/** The data that the menu offers to save: { title, name, node, exported }. */
export const offered = [];

/** While `node` is visible, offers to save { name, columns, rows }, which `exported()` returns or resolves to. */
export const offerExport = (title, name, node, exported) => offered.push({ title, name, node, exported });

/** Forgets the offers of the old screen. */
export const forgetExports = () => offered.splice(0);

/** A link to a screen. Its target may be set later. */
export function anchor(href, ...parts) {
	const node = el('a', '', ...parts);
	node.href = href;
	return node;
}

/**
 * Adds cards before a node. Each card shows one piece of advice: its text, and the code that it suggests.
 * @param {HTMLElement} before
 * @returns {(list: { text: string, code: string }[]) => void} draws the advice
 */
export function adviceCards(before) {
	const node = el('div', 'stack');
	before.before(node);
	return (list) => {
		show(node, list.length > 0);
		sync(node, list, 'text', (one) => {
			const advice = el('section', 'card nothing', el('p', '', `${one.text}:`), el('pre', '', one.code));
			advice.dataset.panel = 'advice';
			return advice;
		});
	};
}
