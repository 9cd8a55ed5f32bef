// Cards: a titled section of a screen, and what the menu of the screen can export.

import { el } from './dom.js';

/** A section with a heading. `parts` follow it; those in `head` stand beside the heading. */
export function card(panel, title, { head = [], parts = [] } = {}) {
	const heading = el('h2', '', title);
	const node = el('section', 'card', el('div', 'bar', heading, el('span', 'grow'), ...head), ...parts);
	node.dataset.panel = panel;
	heading.id = `${panel}-title`;
	node.setAttribute('aria-labelledby', heading.id);
	return node;
}

/** What the menu offers to save: { title, name, node, exported }. */
export const offered = [];

/** Offers to save what `exported()` is or resolves to, { name, columns, rows }, while `node` is seen. */
export const offerExport = (title, name, node, exported) => offered.push({ title, name, node, exported });

/** The screen has gone. */
export const forgetExports = () => offered.splice(0);

/** A link to a screen, whose parts may be set later. */
export function anchor(href, ...parts) {
	const node = el('a', '', ...parts);
	node.href = href;
	return node;
}
