// The field that filters a table by name.

import { el, labelled } from './dom.js';
import { state } from './state.js';

const TYPING = 30; // milliseconds from the last key until the filter applies

/** A field whose text becomes the filter of the state. */
export function filterField(page) {
	const field = labelled(el('input'), 'Filter by name');
	const placeholder = 'Filter by name ( / )';
	Object.assign(field, { id: 'filter', type: 'search', placeholder, autocomplete: 'off', maxLength: 256 });
	field.value = state.q;
	let typing = 0;
	field.addEventListener('input', () => {
		clearTimeout(typing);
		typing = setTimeout(() => page.go({ q: field.value, offset: 0 }, true), TYPING);
	});
	return field;
}

/** Shows the filter of the state, unless the user is typing. */
export function showFilter(field) {
	if (document.activeElement !== field && field.value !== state.q) field.value = state.q;
}
