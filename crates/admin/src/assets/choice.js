// A choice among several values, kept in the URL's state.

import { el, labelled, sync, text } from './dom.js';
import { state } from './state.js';

/**
 * A select that sets a field of the state.
 * @param {{go(values: object): void}} page the functions that screens call
 * @param {string} field of the state
 * @param {string} label the accessible name
 * @returns {{node: HTMLSelectElement, draw(options: string[][]): void}} `draw` shows options, each a value and
 * its label. The value of the state is always one of them.
 */
export function choice(page, field, label) {
	const node = labelled(el('select'), label);
	node.addEventListener('change', () => page.go({ [field]: node.value, offset: 0 }));
	return {
		node,
		draw(options) {
			const chosen = state[field];
			const all = options.some(([value]) => value === chosen) ? options : [...options, [chosen, chosen]];
			sync(node, all, 0, 'option', (option, [value, name]) => {
				option.value = value;
				text(option, name);
			});
			node.value = chosen;
		},
	};
}
