// Cards: a titled section of a screen, and the menu that exports what it shows.

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

/** Buttons that save `exported()` as a file: { name, columns, rows }, or a promise of it. */
export function exportButtons(exported) {
	return ['csv', 'json'].map((format) => {
		const button = el('button', 'button quiet', format.toUpperCase());
		button.dataset.export = format;
		button.title = `Save as ${format.toUpperCase()}`;
		button.addEventListener('click', async () => {
			try {
				const { save } = await import('./export.js');
				save(format, await exported());
				button.classList.remove('bad-text');
				button.title = `Save as ${format.toUpperCase()}`;
			} catch (error) {
				button.classList.add('bad-text');
				button.title = `Not saved: ${error.message}`;
			}
		});
		return button;
	});
}

/** A link to a screen, whose parts may be set later. */
export function anchor(href, ...parts) {
	const node = el('a', '', ...parts);
	node.href = href;
	return node;
}
