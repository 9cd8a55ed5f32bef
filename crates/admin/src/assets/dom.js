// Helpers for elements. They change only what differs, so the focus and the selection stay.

const SVG = 'http://www.w3.org/2000/svg';

/** The element with an id of index.html. @returns {any} */
export const $ = (id) => document.getElementById(id);

/** All elements that a selector matches. @returns {any[]} */
export const all = (selector) => [...document.querySelectorAll(selector)];

export function el(tag, className, ...children) {
	const node = document.createElement(tag);
	if (className) node.className = className;
	node.append(...children);
	return node;
}

export function svg(tag, attributes = {}, ...children) {
	const node = document.createElementNS(SVG, tag);
	for (const name in attributes) node.setAttribute(name, attributes[name]);
	node.append(...children);
	return node;
}

export function text(node, value) {
	const string = String(value);
	if (node.shownText === string) return;
	node.textContent = string;
	node.shownText = string;
}

export function attr(node, name, value) {
	if (value === null || value === undefined) node.removeAttribute(name);
	else if (node.getAttribute(name) !== String(value)) node.setAttribute(name, value);
}

export function show(node, visible) {
	if (node.hidden === visible) node.hidden = !visible;
}

/** Shows a text, or hides the node if the text is empty. */
export function say(node, words) {
	text(node, words);
	show(node, words !== '');
}

/** Names a node for screen readers. `role` is for a node without a role of its own. */
export function labelled(node, label, role = null) {
	attr(node, 'role', role);
	attr(node, 'aria-label', label);
	return node;
}

export function button(label, onClick, className = 'button quiet') {
	const node = el('button', className, label);
	node.addEventListener('click', onClick);
	return node;
}

let failedLoads = 0;

/** Loads a module by `load(query)`. A browser may remember a failed URL, so the next call has another query. */
export async function retried(load) {
	try {
		return await load(failedLoads ? `?${failedLoads}` : '');
	} catch (error) {
		failedLoads++;
		throw error;
	}
}

/** A horizontal bar; `fill(node, part)` sets its length, 0 to 1. */
export function meter() {
	const node = el('span', 'meter', el('span', 'fill'));
	node.setAttribute('aria-hidden', 'true');
	return node;
}

export function fill(node, part) {
	const share = Number.isFinite(part) ? Math.min(Math.max(part, 0), 1) : 0;
	const width = `${(share * 100).toFixed(1)}%`;
	if (node.firstChild.style.width !== width) node.firstChild.style.width = width;
}

/**
 * Makes the children of `parent` match `items`. `key` is a function or a field that gives an item's key. `create` is a
 * function that makes a node, or the name of an element. Each node stays with its key. With `recycle`, a node whose key
 * is gone may serve a new key.
 */
export function sync(parent, items, key, create, update, recycle = false) {
	const old = new Map(parent.nodesByKey); // a copy, in case an update throws
	const now = new Map();
	const focused = /** @type {HTMLElement} */ (document.activeElement);
	for (const item of items) {
		let id = key.call ? key(item) : item[key];
		while (now.has(id)) id += '\u0000';
		now.set(id, old.get(id));
		old.delete(id);
	}
	const free = [...old.values()];
	[...now.keys()].forEach((id, index) => {
		const make = () => (create.call ? create(items[index]) : el(create));
		const node = now.get(id) ?? (recycle ? free.pop() : undefined) ?? make();
		now.set(id, node);
		update?.(node, items[index], index);
	});
	for (const node of free) node.remove();
	let next = parent.firstChild;
	for (const node of now.values()) {
		if (node === next) next = next.nextSibling;
		else parent.insertBefore(node, next);
	}
	parent.nodesByKey = now;
	if (focused !== document.activeElement && focused?.isConnected) focused.focus({ preventScroll: true });
}
