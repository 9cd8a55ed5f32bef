// The id of a trace: a link to its trace, if the service configures a URL, and a button that copies it.

import { attr, button, el, labelled, show, text } from './dom.js';
import { visible } from './format.js';
import { config } from './state.js';

const SHOWN_FOR = 3000; // milliseconds for which a button says that it has copied

const said = el('p', 'hidden'); // the message for screen readers
attr(said, 'role', 'status');

/**
 * The URL of a trace.
 * @param {string | null} id
 * @returns {string | null} `null` without an id or a URL, or if the id is dots, which browsers may read as a folder
 */
export function traceUrl(id) {
	if (!config.trace_url || !id || /^\.+$/.test(id)) return null;
	return config.trace_url.replace('{trace_id}', () => encodeURIComponent(id));
}

/** Copies a text. Resolves to whether that succeeded. */
export const copy = async (copied) =>
	navigator.clipboard?.writeText(copied).then(
		() => true,
		() => copySelected(copied),
	) ?? copySelected(copied);

/** Copies by a selection: a page without TLS may not use the clipboard otherwise. */
function copySelected(copied) {
	const focused = /** @type {HTMLElement} */ (document.activeElement);
	const field = el('textarea', 'hidden');
	field.value = copied;
	document.body.append(field);
	field.select();
	const isCopied = document.execCommand('copy');
	field.remove();
	focused?.focus({ preventScroll: true });
	return isCopied;
}

/**
 * Draws the id of a trace into a cell.
 * @param {HTMLElement} cell
 * @param {string | null} id
 */
export function drawTrace(cell, id) {
	if (!cell.firstChild) cell.append(el('a', 'mono'), copyButton());
	const [link, copied] = /** @type {any} */ (cell.children);
	const url = traceUrl(id);
	text(link, id ? visible(id) : '–');
	const missing = 'Builder::keep_trace_ids(true) records it';
	attr(link, 'title', id ? (url ? 'Open the trace in a new tab' : 'Trace id') : missing);
	attr(link, 'href', url);
	attr(link, 'target', url && '_blank');
	attr(link, 'rel', url && 'noopener noreferrer');
	show(copied, Boolean(id));
	if (copied.traceId === id) return;
	copied.traceId = id;
	name(copied, 'Copy');
}

function name(node, word) {
	text(node, word);
	labelled(node, `${word} trace id ${visible(node.traceId)}`);
}

function copyButton() {
	let timer = 0;
	const node = button('', async () => {
		const { traceId } = node;
		const isCopied = await copy(traceId);
		if (node.traceId !== traceId) return;
		// The user can then copy the selected id.
		if (!isCopied) getSelection().selectAllChildren(node.previousSibling);
		name(node, isCopied ? 'Copied' : 'Not copied');
		if (!said.isConnected) document.body.append(said);
		said.textContent = isCopied ? 'Copied' : 'Not copied: the id is selected';
		clearTimeout(timer);
		timer = setTimeout(() => {
			said.textContent = '';
			if (node.traceId === traceId) name(node, 'Copy');
		}, SHOWN_FOR);
	});
	return node;
}
