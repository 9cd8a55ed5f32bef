// The text of a context: a badge for its method, then its path or its name.

import { el } from './dom.js';
import { shortened, visible } from './format.js';

/** `item`: { context, kind, method, path }. Strings that a client may have chosen are inserted as text. */
export function contextParts(item) {
	const parts = [];
	if (item.context === '<all>') return ['all pages'];
	if (item.context === '<queue>' || (item.kind === 'timer' && item.context === 'queue'))
		return ['queue, before the request'];
	if (item.kind === 'timer') parts.push(badge('timer', 'timer'));
	else if (item.method) parts.push(badge(visible(item.method), item.method));
	const name = shortened(visible(item.method && item.path ? item.path : item.context));
	const shown = el('bdi', 'path');
	for (const piece of name.split(/(\{[^{}/]*\})/)) {
		if (/^\{.*\}$/.test(piece)) shown.append(el('span', 'param', piece));
		else shown.append(...piece.split(/(?<=\/)/).flatMap((part) => [part, el('wbr')])); // lines break after a slash
	}
	parts.push(shown);
	return parts;
}

function badge(label, method) {
	const node = el('span', 'badge', label);
	node.dataset.method = method;
	return node;
}
