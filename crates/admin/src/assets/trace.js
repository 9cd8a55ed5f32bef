// The id of a trace: a link to where it is shown, if the service says where, and a button that copies it.

import { attr, el, show, text } from './dom.js';
import { visible } from './format.js';
import { config } from './state.js';

const SHOWN_FOR = 3000; // milliseconds that a button says that it has copied

const said = el('p', 'hidden'); // what is read to those who do not see it
said.setAttribute('role', 'status');

/**
 * The URL of a trace.
 * @param {string | null} id
 * @returns {string | null} `null` if there is none. A browser would take an id of dots for a step up in the path.
 */
export function traceUrl(id) {
	if (!config.trace_url || !id || /^\.+$/.test(id)) return null;
	return config.trace_url.replace('{trace_id}', () => encodeURIComponent(id));
}

/**
 * Copies a text.
 * @param {string} copied
 * @returns {Promise<boolean>} whether that was possible
 */
async function copy(copied) {
	try {
		await navigator.clipboard.writeText(copied);
		return true;
	} catch {
		return copySelected(copied);
	}
}

/** Copies as browsers do it for a page without TLS, which may not use the clipboard otherwise. */
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
	const [link, button] = /** @type {any} */ (cell.children);
	const url = traceUrl(id);
	text(link, id ? visible(id) : '–');
	attr(link, 'title', id ? (url ? 'Open the trace in a new tab' : 'Trace id') : 'No traceparent header');
	attr(link, 'href', url);
	attr(link, 'target', url && '_blank');
	attr(link, 'rel', url && 'noopener noreferrer');
	show(button, Boolean(id));
	if (button.traceId === id) return;
	button.traceId = id;
	name(button, 'Copy');
}

function name(button, word) {
	text(button, word);
	attr(button, 'aria-label', `${word} trace id ${visible(button.traceId)}`);
}

function copyButton() {
	const button = el('button', 'button quiet');
	let shown = 0;
	button.addEventListener('click', async () => {
		const { traceId } = button;
		const isCopied = await copy(traceId);
		if (button.traceId !== traceId) return;
		// It can be copied by hand then.
		if (!isCopied) getSelection().selectAllChildren(button.previousSibling);
		name(button, isCopied ? 'Copied' : 'Not copied');
		if (!said.isConnected) document.body.append(said);
		said.textContent = isCopied ? 'Copied' : 'Not copied: the id is selected';
		clearTimeout(shown);
		shown = setTimeout(() => {
			said.textContent = '';
			if (button.traceId === traceId) name(button, 'Copy');
		}, SHOWN_FOR);
	});
	return button;
}
